package gittest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// probe is what the rules of the contract work with.
type probe struct {
	host git.Host
	repo git.Repo
	bare Bare // Dir is empty if the repository is not on this machine
}

// rule is one promise of git.Host. Each works on a branch of its own.
type rule struct {
	name  string
	holds func(ctx context.Context, p probe, branch string) error
}

// Check says whether a host keeps the contract of git.Host on a repository that it
// may write, and returns what is broken. It leaves branches named "contract-…"
// behind, which must not exist before. If the repository is on this machine, dir is
// where, so that the git program can look at what was written and write as somebody
// else; else dir is empty and those rules are left out.
func Check(ctx context.Context, host git.Host, repo git.Repo, dir string) error {
	p := probe{host: host, repo: repo, bare: Bare{Dir: dir}}
	all := rules()
	if dir != "" {
		all = append(all, localRules()...)
	}
	var broken []error
	for i, r := range all {
		if err := r.holds(ctx, p, fmt.Sprintf("contract-%02d", i)); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return errors.Join(broken...)
}

func rules() []rule {
	return []rule{
		{"a branch that is not there is NotFound", missingBranch},
		{"the first commit makes the branch", firstCommit},
		{"content comes back byte for byte, in path order", roundTrip},
		{"edits that change nothing return the parent", noChange},
		{"a stale parent is Conflict and moves nothing", staleParent},
		{"a branch that exists is not made again", existingBranch},
		{"a directory holds exactly its files", exactDir},
		{"other files survive", foreignFiles},
		{"a path turns from file to directory and back", turning},
		{"nothing removes a path, and directories left empty", removal},
		{"paths that lead out or overlap are Invalid", badPaths},
		{"a path below a file is Invalid and blamed", belowFile},
		{"branch names that Git refuses are Invalid", badBranch},
		{"an object that is not there is NotFound", missingBlob},
		{"of many writers on one parent one wins", oneWinner},
		{"a context that ended ends the call", endedContext},
		{"a guard that refuses leaves the branch alone", guarded},
		{"a log tells what came since", logged},
	}
}

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (p probe) commit(ctx context.Context, branch string, parent git.Hash, edits ...git.Edit) (git.Hash, error) {
	m := git.Message{Title: "contract", Author: "Contract <contract@localhost>", When: stamp}
	return p.host.Commit(ctx, p.repo, branch, parent, edits, m)
}

// start makes the branch with some files.
func (p probe) start(ctx context.Context, branch string) (git.Hash, error) {
	return p.commit(ctx, branch, "",
		git.Edit{Path: "README.md", File: []byte("read me\n")},
		git.Edit{Path: "apps/one", Dir: map[string][]byte{"a.yaml": []byte("a: 1\n"), "sub/b.yaml": []byte("b: 1\n")}})
}

// files returns path and content of all files at a commit, in the order of Tree.
func (p probe) files(ctx context.Context, at git.Hash, under string) ([]string, error) {
	var files []string
	for e, err := range p.host.Tree(ctx, p.repo, at, under) {
		if err != nil {
			return nil, err
		}
		content, err := p.host.Blob(ctx, p.repo, e.ID)
		if err != nil {
			return nil, err
		}
		files = append(files, e.Path+"="+string(content))
	}
	return files, nil
}

// holds compares a commit's files with what they should be, and the branch's head
// with the commit.
func (p probe) holds(ctx context.Context, branch string, at git.Hash, want ...string) error {
	head, err := p.host.Head(ctx, p.repo, branch)
	if err != nil {
		return err
	}
	if head != at {
		return fmt.Errorf("head is %s, want %s", head, at)
	}
	got, err := p.files(ctx, at, "")
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the commit holds %q, want %q", got, want)
	}
	return nil
}

func wantKind(err error, kind errs.Kind) error {
	if !errs.Is(err, kind) {
		return fmt.Errorf("got error %v of kind %v, want kind %v", err, errs.KindOf(err), kind)
	}
	return nil
}

func missingBranch(ctx context.Context, p probe, branch string) error {
	_, err := p.host.Head(ctx, p.repo, branch)
	return wantKind(err, errs.NotFound)
}

func firstCommit(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n")
}

func roundTrip(ctx context.Context, p probe, branch string) error {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	at, err := p.commit(ctx, branch, "",
		git.Edit{Path: "empty", File: []byte{}},
		git.Edit{Path: "a", Dir: map[string][]byte{"x": []byte("\x00\xff\r\n")}},
		git.Edit{Path: "a.b", File: []byte("sorts before a/")},
		git.Edit{Path: "a0", File: []byte("sorts behind a/")},
		git.Edit{Path: "big", File: []byte(big)},
		git.Edit{Path: "clusters/p+c/Größe ü:1.yaml", File: []byte("ü")})
	if err != nil {
		return err
	}
	err = p.holds(ctx, branch, at, "a.b=sorts before a/", "a/x=\x00\xff\r\n", "a0=sorts behind a/", "big="+big,
		"clusters/p+c/Größe ü:1.yaml=ü", "empty=")
	if err != nil {
		return err
	}
	for under, want := range map[string][]string{
		"a": {"a/x=\x00\xff\r\n"}, "a/x": {"a/x=\x00\xff\r\n"}, "a/x/y": nil, "none": nil, "empty": {"empty="},
	} {
		if got, err := p.files(ctx, at, under); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("below %q: got %q, %v, want %q", under, got, err, want)
		}
	}
	return nil
}

func noChange(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	again, err := p.commit(ctx, branch, at,
		git.Edit{Path: "README.md", File: []byte("read me\n")},
		git.Edit{Path: "apps/one", Dir: map[string][]byte{"a.yaml": []byte("a: 1\n"), "sub/b.yaml": []byte("b: 1\n")}},
		git.Edit{Path: "gone"}, git.Edit{Path: "deep/er/gone"}, git.Edit{Path: "empty", Dir: map[string][]byte{}})
	if err != nil || again != at {
		return fmt.Errorf("got %s, %w, want %s", again, err, at)
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n")
}

func staleParent(ctx context.Context, p probe, branch string) error {
	first, err := p.commit(ctx, branch, "", git.Edit{Path: "f", File: []byte("1")})
	if err != nil {
		return err
	}
	second, err := p.commit(ctx, branch, first, git.Edit{Path: "f", File: []byte("2")})
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, first, git.Edit{Path: "g", File: []byte("3")})
	return errors.Join(wantKind(err, errs.Conflict), p.holds(ctx, branch, second, "f=2"))
}

func existingBranch(ctx context.Context, p probe, branch string) error {
	first, err := p.commit(ctx, branch, "", git.Edit{Path: "f", File: []byte("1")})
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, "", git.Edit{Path: "g", File: []byte("2")})
	return errors.Join(wantKind(err, errs.Conflict), p.holds(ctx, branch, first, "f=1"))
}

func exactDir(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", Dir: map[string][]byte{
		"a.yaml": []byte("a: 2\n"), "sub/c/d.yaml": []byte("d\n"), "new.yaml": []byte("n\n"),
	}})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 2\n", "apps/one/new.yaml=n\n", "apps/one/sub/c/d.yaml=d\n")
}

func foreignFiles(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/two", Dir: map[string][]byte{"z": []byte("z")}},
		git.Edit{Path: "apps/one/sub/e", File: []byte("e")})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n",
		"apps/one/sub/e=e", "apps/two/z=z")
}

func turning(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", File: []byte("file now")},
		git.Edit{Path: "README.md", Dir: map[string][]byte{"de": []byte("liesmich")}})
	if err != nil {
		return err
	}
	if err := p.holds(ctx, branch, at, "README.md/de=liesmich", "apps/one=file now"); err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one", Dir: map[string][]byte{"x/y": []byte("1")}},
		git.Edit{Path: "README.md", File: []byte("back")})
	if err != nil {
		return err
	}
	return p.holds(ctx, branch, at, "README.md=back", "apps/one/x/y=1")
}

func removal(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	at, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/one/sub/b.yaml"}, git.Edit{Path: "apps/one/a.yaml"})
	if err != nil {
		return err
	}
	if err := p.holds(ctx, branch, at, "README.md=read me\n"); err != nil {
		return err
	}
	if at, err = p.commit(ctx, branch, at, git.Edit{Path: "README.md"}); err != nil {
		return err
	}
	return p.holds(ctx, branch, at)
}

func badPaths(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	f := []byte("x")
	for _, edits := range [][]git.Edit{
		{{Path: "", File: f}},
		{{Path: "/etc/passwd", File: f}},
		{{Path: "../up", File: f}},
		{{Path: "a//b", File: f}},
		{{Path: "a/./b", File: f}},
		{{Path: ".GiT/config", File: f}},
		{{Path: "a/.git", File: f}},
		{{Path: "a\x00b", File: f}},
		{{Path: "d", Dir: map[string][]byte{"../../x": f}}},
		{{Path: "d", Dir: map[string][]byte{".git/hooks/x": f}}},
		{{Path: "a", File: f}, {Path: "a", File: f}},
		{{Path: "a/b", File: f}, {Path: "a", Dir: map[string][]byte{"b": f}}},
		{{Path: "d", Dir: map[string][]byte{"a": f, "a/b": f}}},
		{{Path: "d", File: f, Dir: map[string][]byte{"a": f}}},
	} {
		if _, err := p.commit(ctx, branch, at, edits...); !errs.Is(err, errs.Invalid) {
			return fmt.Errorf("%q: %w", edits, wantKind(err, errs.Invalid))
		}
	}
	return p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n")
}

func belowFile(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	_, err = p.commit(ctx, branch, at, git.Edit{Path: "apps/two", File: []byte("fine")}, git.Edit{Path: "README.md/x", File: []byte("x")})
	return wantBlame(err, "README.md")
}

func wantBlame(err error, path string) error {
	blamed, ok := errors.AsType[*git.PathError](err)
	if !ok || blamed.Path != path {
		return fmt.Errorf("got error %v, want one that blames %s", err, path)
	}
	return wantKind(err, errs.Invalid)
}

func badBranch(ctx context.Context, p probe, _ string) error {
	for _, name := range []string{"", "../../x", "a..b", "-x", "a b", "x.lock", "refs/heads/x", "HEAD", "a/.b", "x~1"} {
		_, err := p.host.Head(ctx, p.repo, name)
		_, err2 := p.commit(ctx, name, "", git.Edit{Path: "f", File: []byte("x")})
		if err := errors.Join(wantKind(err, errs.Invalid), wantKind(err2, errs.Invalid)); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

func missingBlob(ctx context.Context, p probe, branch string) error {
	if _, err := p.start(ctx, branch); err != nil {
		return err
	}
	_, err := p.host.Blob(ctx, p.repo, "1234567890123456789012345678901234567890")
	return wantKind(err, errs.NotFound)
}

func oneWinner(ctx context.Context, p probe, branch string) error {
	const writers = 6
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	commits, failures := make([]git.Hash, writers), make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			commits[i], failures[i] = p.commit(ctx, branch, at, git.Edit{Path: fmt.Sprintf("w/%d", i), File: []byte("x")})
		})
	}
	wg.Wait()
	won := -1
	for i, err := range failures {
		switch {
		case err == nil && won >= 0:
			return fmt.Errorf("writers %d and %d both won", won, i)
		case err == nil:
			won = i
		case !errs.Is(err, errs.Conflict):
			return wantKind(err, errs.Conflict)
		}
	}
	if won < 0 {
		return fmt.Errorf("nobody won: %w", errors.Join(failures...))
	}
	return p.holds(ctx, branch, commits[won], "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n", fmt.Sprintf("w/%d=x", won))
}

func endedContext(ctx context.Context, p probe, branch string) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.start(ended, branch); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("commit: got error %v, want %v", err, context.Canceled)
	}
	_, err := p.host.Head(ctx, p.repo, branch)
	return wantKind(err, errs.NotFound)
}

// localRules need the git program beside the host.
func localRules() []rule {
	return []rule{
		{"links and submodules at or above a path are Invalid", links},
		{"files keep their mode", modes},
		{"somebody else's commits survive", interleaved},
		{"the message says what it was given", messages},
		{"git finds nothing wrong", func(ctx context.Context, p probe, _ string) error { return p.bare.Fsck(ctx) }},
	}
}

func links(ctx context.Context, p probe, branch string) error {
	commit, err := p.bare.Foreign(ctx, branch, map[string]File{"d/link": {"120000", "/etc"}, "x": {Content: "x"}})
	if err != nil {
		return err
	}
	if commit, err = p.bare.Foreign(ctx, branch, map[string]File{"d/sub": {"160000", commit}}); err != nil {
		return err
	}
	f := []byte("f")
	for _, c := range []struct {
		edit  git.Edit
		blame string
	}{
		{git.Edit{Path: "d/link", File: f}, "d/link"},
		{git.Edit{Path: "d/link/passwd", File: f}, "d/link"},
		{git.Edit{Path: "d/sub/x", File: f}, "d/sub"},
		{git.Edit{Path: "d/sub"}, "d/sub"},
		{git.Edit{Path: "d", Dir: map[string][]byte{"link": f}}, "d/link"},
		{git.Edit{Path: "d", Dir: map[string][]byte{"link/x": f}}, "d/link"},
	} {
		_, err := p.commit(ctx, branch, git.Hash(commit), c.edit)
		if err := wantBlame(err, c.blame); err != nil {
			return fmt.Errorf("%s: %w", c.edit.Path, err)
		}
	}
	at, err := p.commit(ctx, branch, git.Hash(commit), git.Edit{Path: "d/file", File: f})
	if err != nil {
		return err
	}
	return p.listed(ctx, at, "100644 d/file", "120000 d/link", "160000 d/sub", "100644 x")
}

// listed compares modes and paths with what git lists.
func (p probe) listed(ctx context.Context, at git.Hash, want ...string) error {
	out, err := p.bare.Git(ctx, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", string(at))
	if err != nil {
		return err
	}
	if got := strings.Split(out, "\n"); !slices.Equal(got, want) {
		return fmt.Errorf("git lists %q, want %q", got, want)
	}
	var own []string
	for e, err := range p.host.Tree(ctx, p.repo, at, "") {
		if err != nil {
			return err
		}
		own = append(own, fmt.Sprintf("%06o %s", e.Mode, e.Path))
	}
	if !slices.Equal(own, want) {
		return fmt.Errorf("the host lists %q, want %q", own, want)
	}
	return nil
}

func modes(ctx context.Context, p probe, branch string) error {
	commit, err := p.bare.Foreign(ctx, branch, map[string]File{"run": {"100755", "old"}, "d/run": {"100755", "old"}, "d/z": {"100644", "z"}})
	if err != nil {
		return err
	}
	at, err := p.commit(ctx, branch, git.Hash(commit), git.Edit{Path: "run", File: []byte("new")},
		git.Edit{Path: "d", Dir: map[string][]byte{"run": []byte("new"), "z": []byte("z2"), "new": []byte("n")}})
	if err != nil {
		return err
	}
	return p.listed(ctx, at, "100644 d/new", "100755 d/run", "100644 d/z", "100755 run")
}

func interleaved(ctx context.Context, p probe, branch string) error {
	want := map[string]string{}
	for i := range 4 {
		theirs, ours := fmt.Sprintf("theirs/%d", i), fmt.Sprintf("ours/%d", i)
		commit, err := p.bare.Foreign(ctx, branch, map[string]File{theirs: {Content: "t"}})
		if err != nil {
			return err
		}
		if _, err := p.commit(ctx, branch, git.Hash(commit), git.Edit{Path: ours, File: []byte("o")}); err != nil {
			return err
		}
		want[theirs], want[ours] = "t", "o"
	}
	head, err := p.host.Head(ctx, p.repo, branch)
	if err != nil {
		return err
	}
	var list []string
	for _, path := range slices.Sorted(maps.Keys(want)) {
		list = append(list, path+"="+want[path])
	}
	return p.holds(ctx, branch, head, list...)
}

func messages(ctx context.Context, p probe, branch string) error {
	m := git.Message{
		Title: "title with\nEmco-Op: forged", Author: "Ann <ann@example.org>", When: stamp,
		Trailers: []git.Trailer{{Key: "Emco-Op", Value: "7"}, {Key: "Emco-Clusters", Value: "a, b\nEmco-Op: 8"}},
	}
	at, err := p.host.Commit(ctx, p.repo, branch, "", []git.Edit{{Path: "f", File: []byte("x")}}, m)
	if err != nil {
		return err
	}
	got, err := p.bare.Git(ctx, "", "log", "-1", "--format=%an|%ae|%at|%cn|%s|%(trailers:key=Emco-Op,valueonly,separator=%x2C)|%(trailers:key=Emco-Clusters,valueonly,separator=%x2C)", string(at))
	if err != nil {
		return err
	}
	want := fmt.Sprintf("Ann|ann@example.org|%d|Ann|title with Emco-Op: forged|7|a, b Emco-Op: 8", stamp.Unix())
	if got != want {
		return fmt.Errorf("git shows %q, want %q", got, want)
	}
	return nil
}

func guarded(ctx context.Context, p probe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	refusal := errors.New("not any more")
	asked := 0
	m := git.Message{Title: "guarded", Guard: func(context.Context) error { asked++; return refusal }}
	edits := []git.Edit{{Path: "guarded", File: []byte("x")}}
	if id, err := p.host.Commit(ctx, p.repo, branch, at, edits, m); !errors.Is(err, refusal) || asked != 1 {
		return fmt.Errorf("commit is %s, %w, asked %d times, want the guard's error", id, err, asked)
	}
	if err := p.holds(ctx, branch, at, "README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n"); err != nil {
		return err
	}
	m.Guard = func(context.Context) error { return nil }
	id, err := p.host.Commit(ctx, p.repo, branch, at, edits, m)
	if err != nil || id == at {
		return fmt.Errorf("commit is %s, %w, want one that the guard allows", id, err)
	}
	return nil
}

// logged holds for hosts that have logs.
func logged(ctx context.Context, p probe, branch string) error {
	host, ok := p.host.(git.LogReader)
	if !ok {
		return nil
	}
	at, err := p.start(ctx, branch)
	line := []git.Hash{at}
	for i := 0; err == nil && i < 3; i++ {
		m := git.Message{Title: fmt.Sprint("number ", i), Trailers: []git.Trailer{{Key: "Emco-Number", Value: fmt.Sprint(i)}}}
		at, err = p.host.Commit(ctx, p.repo, branch, at, []git.Edit{{Path: "f", File: []byte(fmt.Sprint(i))}}, m)
		line = append(line, at)
	}
	if err != nil {
		return err
	}
	for base := range line {
		log, err := host.Since(ctx, p.repo, at, line[base])
		if err != nil {
			return err
		}
		if !log.Grown || len(log.Commits) != len(line)-1-base {
			return fmt.Errorf("since commit %d there is %+v", base, log)
		}
		for i, c := range log.Commits {
			if c.ID != line[len(line)-1-i] || c.Trailer("emco-number") != fmt.Sprint(len(line)-2-i) {
				return fmt.Errorf("commit %d since %d is %+v", i, base, c)
			}
		}
	}
	return unrelated(ctx, p, host, branch, at)
}

// unrelated compares a branch with another one that has nothing in common with it.
func unrelated(ctx context.Context, p probe, host git.LogReader, branch string, at git.Hash) error {
	other, err := p.commit(ctx, branch+"-other", "", git.Edit{Path: "else", File: []byte("x")})
	if err != nil {
		return err
	}
	for _, base := range []git.Hash{other, git.Hash(strings.Repeat("1", 40))} {
		log, err := host.Since(ctx, p.repo, at, base)
		if err != nil || log.Grown {
			return fmt.Errorf("since %s, which is no part of it: %+v, %w", base, log, err)
		}
	}
	if log, err := host.Since(ctx, p.repo, at, ""); err != nil || !log.Grown || len(log.Commits) != 4 {
		return fmt.Errorf("since nothing: %+v, %w", log, err)
	}
	return nil
}
