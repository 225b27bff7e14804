package gittest

import (
	"context"
	"crypto/sha1" // Git's names of objects
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// contractProbe is what the rules of the contract work with.
type contractProbe struct {
	host git.Host
	repo git.Repo
	bare Bare // Dir is empty if the repository is not on this machine
}

// contractRule is one promise of git.Host. Each works on a branch of its own.
type contractRule struct {
	name  string
	holds func(ctx context.Context, p contractProbe, branch string) error
}

// Check checks the contract of git.Host on a repository that the host
// may write, and returns what is broken. It leaves branches named "contract-…"
// behind, which must not exist before. If the repository is on this machine, dir is
// where, so that the git program can look at what was written and write as someone
// else; else dir is empty and those rules are left out.
func Check(ctx context.Context, host git.Host, repo git.Repo, dir string) error {
	p := contractProbe{host: host, repo: repo, bare: Bare{Dir: dir}}
	all := rules()
	if dir != "" {
		all = append(all, localRules()...)
	}
	broken := make([]error, len(all))
	check := func(i int) {
		if err := all[i].holds(ctx, p, fmt.Sprintf("contract-%02d", i)); err != nil {
			broken[i] = fmt.Errorf("%s: %w", all[i].name, err)
		}
	}
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i := range all {
		if i < beginning {
			check(i)
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			check(i)
		})
	}
	running.Wait()
	if dir != "" {
		if err := p.bare.Fsck(ctx); err != nil {
			broken = append(broken, fmt.Errorf("git finds nothing wrong: %w", err))
		}
	}
	return errors.Join(broken...)
}

const (
	atOnce    = 4 // rules that are checked at the same time: hosts allow that, and servers take their time
	beginning = 2 // rules that are checked before, one by one: of first commits in an empty repository one wins
)

func rules() []contractRule {
	return []contractRule{
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
		{"a log lists the commits since a base", logged},
		{"derived branches hold their directories", viewed},
	}
}

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (p contractProbe) commit(ctx context.Context, branch string, parent git.Hash, edits ...git.Edit) (git.Hash, error) {
	m := git.Message{Title: "contract", Author: "Contract <contract@localhost>", When: stamp}
	return p.host.Commit(ctx, p.repo, branch, parent, edits, m)
}

// start makes the branch with some files.
func (p contractProbe) start(ctx context.Context, branch string) (git.Hash, error) {
	return p.commit(ctx, branch, "",
		git.Edit{Path: "README.md", File: []byte("read me\n")},
		git.Edit{Path: "apps/one", Dir: map[string][]byte{"a.yaml": []byte("a: 1\n"), "sub/b.yaml": []byte("b: 1\n")}})
}

// files returns path and content of all files at a commit, in the order of Tree.
func (p contractProbe) files(ctx context.Context, at git.Hash, under string) ([]string, error) {
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

// holds compares a commit's files with what they should be, by the names of their content, and the
// branch's head with the commit. Rules that are about content read it with files.
func (p contractProbe) holds(ctx context.Context, branch string, at git.Hash, want ...string) error {
	head, err := p.host.Head(ctx, p.repo, branch)
	if err != nil {
		return err
	}
	if head != at {
		return fmt.Errorf("head is %s, want %s", head, at)
	}
	var got, ids []string
	for e, err := range p.host.Tree(ctx, p.repo, at, "") {
		if err != nil {
			return err
		}
		got = append(got, e.Path+"="+string(e.ID))
	}
	for _, file := range want {
		path, content, _ := strings.Cut(file, "=")
		ids = append(ids, path+"="+blobID(content))
	}
	if !slices.Equal(got, ids) {
		return fmt.Errorf("the commit holds %q, want %q, which is %q", got, ids, want)
	}
	return nil
}

// blobID is the name of a file's content.
func blobID(content string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)))
}

func wantKind(err error, kind errs.Kind) error {
	if !errs.Is(err, kind) {
		return fmt.Errorf("got error %v of kind %v, want kind %v", err, errs.KindOf(err), kind)
	}
	return nil
}

func missingBranch(ctx context.Context, p contractProbe, branch string) error {
	_, err := p.host.Head(ctx, p.repo, branch)
	return wantKind(err, errs.NotFound)
}

func firstCommit(ctx context.Context, p contractProbe, branch string) error {
	at, err := p.start(ctx, branch)
	if err != nil {
		return err
	}
	want := []string{"README.md=read me\n", "apps/one/a.yaml=a: 1\n", "apps/one/sub/b.yaml=b: 1\n"}
	if got, err := p.files(ctx, at, ""); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("the commit holds %q, %w, want %q", got, err, want)
	}
	return p.holds(ctx, branch, at, want...)
}

func badBranch(ctx context.Context, p contractProbe, _ string) error {
	for _, name := range []string{"", "../../x", "a..b", "-x", "a b", "x.lock", "refs/heads/x", "HEAD", "a/.b", "x~1"} {
		_, err := p.host.Head(ctx, p.repo, name)
		_, err2 := p.commit(ctx, name, "", git.Edit{Path: "f", File: []byte("x")})
		if err := errors.Join(wantKind(err, errs.Invalid), wantKind(err2, errs.Invalid)); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

func missingBlob(ctx context.Context, p contractProbe, branch string) error {
	if _, err := p.start(ctx, branch); err != nil {
		return err
	}
	_, err := p.host.Blob(ctx, p.repo, "1234567890123456789012345678901234567890")
	return wantKind(err, errs.NotFound)
}
