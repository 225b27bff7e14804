package gittest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// show commits with derived branches of directories "clusters/c0", "clusters/c1" …, one for each.
func (p contractProbe) show(ctx context.Context, branch string, parent git.Hash, branches int, edits ...git.Edit) (git.DerivedResult, error) {
	s := git.DerivedUpdate{Branch: branch, Parent: parent, Edits: edits, Message: git.Message{Title: "contract", When: stamp}}
	for c := range branches {
		s.Derived = append(s.Derived, git.DerivedBranch{Branch: derivedBranchName(branch, c), Dir: fmt.Sprintf("clusters/c%d", c), Empty: map[string][]byte{"none.yaml": []byte("none\n")}})
	}
	return p.host.(git.DerivedWriter).CommitDerived(ctx, p.repo, s)
}

func derivedBranchName(branch string, c int) string { return fmt.Sprintf("%s-view-c%d", branch, c) }

func content(c int, text string) git.Edit {
	return git.Edit{Path: fmt.Sprintf("clusters/c%d/app", c), Dir: map[string][]byte{"f.yaml": []byte(text)}}
}

// shows compares derived branches with their expected files, and with the result of the update.
func (p contractProbe) shows(ctx context.Context, branch string, shown git.DerivedResult, want ...string) error {
	for c, files := range want {
		name := derivedBranchName(branch, c)
		if err := p.holds(ctx, name, shown.Heads[name], []string{files}...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// viewed checks hosts that write derived branches.
func viewed(ctx context.Context, p contractProbe, branch string) error {
	if _, ok := p.host.(git.DerivedWriter); !ok {
		return nil
	}
	first, err := p.show(ctx, branch, "", 2, content(0, "1"), content(1, "1"), git.Edit{Path: "README.md", File: []byte("r")})
	if err == nil {
		err = p.shows(ctx, branch, first, "clusters/c0/app/f.yaml=1", "clusters/c1/app/f.yaml=1")
	}
	if err != nil {
		return fmt.Errorf("the first commit: %w", err)
	}
	second, err := p.show(ctx, branch, first.Commit, 2, content(1, "2"))
	if err == nil {
		err = p.shows(ctx, branch, second, "clusters/c0/app/f.yaml=1", "clusters/c1/app/f.yaml=2")
	}
	if err != nil || second.Heads[derivedBranchName(branch, 0)] != first.Heads[derivedBranchName(branch, 0)] {
		return fmt.Errorf("a commit that changes one: derived branches %v, before %v, %w", second.Heads, first.Heads, err)
	}
	if err := p.grown(ctx, second, first, derivedBranchName(branch, 1)); err != nil {
		return err
	}
	again, err := p.show(ctx, branch, second.Commit, 2)
	if err != nil || again.Commit != second.Commit || !maps.Equal(again.Heads, second.Heads) || len(again.Created)+len(again.Diverged) > 0 {
		return fmt.Errorf("without edits: %+v, %w, want %+v", again, err, second)
	}
	return p.stale(ctx, branch, first, second)
}

// grown checks that a derived branch grew by one commit, which names its source.
func (p contractProbe) grown(ctx context.Context, now, before git.DerivedResult, name string) error {
	logs, ok := p.host.(git.LogReader)
	if !ok {
		return nil
	}
	log, err := logs.Since(ctx, p.repo, now.Heads[name], before.Heads[name])
	if err != nil || !log.Grown || len(log.Commits) != 1 || log.Commits[0].Trailer(git.SourceTrailer) != string(now.Commit) {
		return fmt.Errorf("%s has grown by %+v, %w, want a commit of %s", name, log, err, now.Commit)
	}
	return nil
}

// stale checks updates on a parent that the branch has left, and of a directory that is removed.
func (p contractProbe) stale(ctx context.Context, branch string, first, second git.DerivedResult) error {
	for _, edits := range [][]git.Edit{nil, {content(0, "3")}} {
		if _, err := p.show(ctx, branch, first.Commit, 2, edits...); !errs.Is(err, errs.Conflict) {
			return fmt.Errorf("on a parent that is stale: %w", wantKind(err, errs.Conflict))
		}
	}
	gone, err := p.show(ctx, branch, second.Commit, 2, git.Edit{Path: "clusters/c1"})
	if err == nil {
		err = p.shows(ctx, branch, gone, "clusters/c0/app/f.yaml=1", "clusters/c1/none.yaml=none\n")
	}
	return err
}

// checkRepair checks that a derived branch that someone else changed or removed is repaired by
// a commit on top.
func checkRepair(ctx context.Context, p contractProbe, branch string) error {
	if _, ok := p.host.(git.DerivedWriter); !ok {
		return nil
	}
	first, err := p.show(ctx, branch, "", 3, content(0, "1"), content(1, "1"), content(2, "1"))
	if err != nil {
		return err
	}
	theirs, err := p.bare.CommitExternal(ctx, derivedBranchName(branch, 0), map[string]File{"clusters/c0/evil": {Content: "evil"}})
	if err == nil {
		_, err = p.bare.Git(ctx, "", "update-ref", "-d", "refs/heads/"+derivedBranchName(branch, 1))
	}
	if err != nil {
		return err
	}
	shown, err := p.show(ctx, branch, first.Commit, 3)
	if err == nil {
		err = p.shows(ctx, branch, shown, "clusters/c0/app/f.yaml=1", "clusters/c1/app/f.yaml=1", "clusters/c2/app/f.yaml=1")
	}
	if err != nil {
		return err
	}
	if !slices.Equal(shown.Diverged, []string{derivedBranchName(branch, 0)}) || !slices.Equal(shown.Created, []string{derivedBranchName(branch, 1)}) || shown.Heads[derivedBranchName(branch, 2)] != first.Heads[derivedBranchName(branch, 2)] {
		return fmt.Errorf("the result is %+v", shown)
	}
	if parent, err := p.bare.Git(ctx, "", "rev-parse", derivedBranchName(branch, 0)+"^"); err != nil || parent != theirs {
		return errors.Join(err, fmt.Errorf("a derived branch was repaired on %s, want on top of %s", parent, theirs))
	}
	return nil
}
