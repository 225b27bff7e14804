package gittest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// localRules need the git program in addition to the host.
func localRules() []contractRule {
	return []contractRule{
		{"links and submodules at or above a path are Invalid", links},
		{"files keep their mode", modes},
		{"commits of others survive", interleaved},
		{"the message is stored as it was given", messages},
		{"derived branches that others changed are repaired", checkRepair},
	}
}

func links(ctx context.Context, p contractProbe, branch string) error {
	commit, err := p.bare.CommitExternal(ctx, branch, map[string]File{"d/link": {"120000", "/etc"}, "x": {Content: "x"}})
	if err != nil {
		return err
	}
	if commit, err = p.bare.CommitExternal(ctx, branch, map[string]File{"d/sub": {"160000", commit}}); err != nil {
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
func (p contractProbe) listed(ctx context.Context, at git.Hash, want ...string) error {
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

func modes(ctx context.Context, p contractProbe, branch string) error {
	commit, err := p.bare.CommitExternal(ctx, branch, map[string]File{"run": {"100755", "old"}, "d/run": {"100755", "old"}, "d/z": {"100644", "z"}})
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

func interleaved(ctx context.Context, p contractProbe, branch string) error {
	want := map[string]string{}
	for i := range 4 {
		theirs, ours := fmt.Sprintf("theirs/%d", i), fmt.Sprintf("ours/%d", i)
		commit, err := p.bare.CommitExternal(ctx, branch, map[string]File{theirs: {Content: "t"}})
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

func messages(ctx context.Context, p contractProbe, branch string) error {
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
