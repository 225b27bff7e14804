package gittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// DerivedRepo is a host that keeps derived branches, and a repository on this machine, without
// commits, that it writes by Git's own protocol.
type DerivedRepo struct {
	Host git.DerivedWriter
	Repo git.Repo
	Bare Bare
}

// CheckDerived checks promises of git.DerivedWriter that Check does not: about refusals by the
// server, races, and branches to remove. Atomic sets whether the server can move several branches
// or none.
func CheckDerived(ctx context.Context, v DerivedRepo, atomic bool) error {
	for _, set := range [][2]string{{"receive.advertiseAtomic", fmt.Sprint(atomic)}, {"receive.denyDeletes", "false"}} {
		if err := v.Bare.Config(ctx, set[0], set[1]); err != nil {
			return err
		}
	}
	c := &derivedCheck{DerivedRepo: v, atomic: atomic}
	for _, step := range []func(context.Context) error{c.first, c.refusal, c.race, c.removal, c.removalBesideACommit} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return v.Bare.Fsck(ctx)
}

// derivedCheck is a sequence of steps; each continues where the one before ended.
type derivedCheck struct {
	DerivedRepo
	atomic bool
	head   git.Hash
}

func (c *derivedCheck) derivedBranch(cluster int) git.DerivedBranch {
	return git.DerivedBranch{Branch: derivedBranchName("shown", cluster), Dir: fmt.Sprintf("clusters/c%d", cluster), Empty: map[string][]byte{"none.yaml": []byte("none")}}
}

// show commits and updates the derived branches of clusters.
func (c *derivedCheck) show(ctx context.Context, s git.DerivedUpdate, clusters ...int) (git.DerivedResult, error) {
	s.Branch, s.Parent, s.Message = "shown", c.head, git.Message{Title: "contract", When: stamp}
	for _, cluster := range clusters {
		s.Derived = append(s.Derived, c.derivedBranch(cluster))
	}
	shown, err := c.Host.CommitDerived(ctx, c.Repo, s)
	if err == nil {
		c.head = shown.Commit
	}
	return shown, err
}

// same compares a derived branch's directory with its source.
func (c *derivedCheck) same(ctx context.Context, cluster int) error {
	v := c.derivedBranch(cluster)
	trees, err := c.Bare.Git(ctx, "", "rev-parse", v.Branch+":"+v.Dir, "shown:"+v.Dir)
	if a, b, _ := strings.Cut(trees, "\n"); err != nil || a != b {
		return fmt.Errorf("%s shows tree %s, the branch holds %s: %w", v.Branch, a, b, err)
	}
	return nil
}

func (c *derivedCheck) first(ctx context.Context) error {
	_, err := c.show(ctx, git.DerivedUpdate{Edits: []git.Edit{content(0, "1"), content(1, "1"), content(2, "1")}}, 0, 1, 2)
	return errors.Join(err, c.same(ctx, 0), c.same(ctx, 1), c.same(ctx, 2))
}

// refusal: the error names the directory of a derived branch that the server protects.
func (c *derivedCheck) refusal(ctx context.Context) error {
	err := c.Bare.Hook("update", "test \"$1\" != refs/heads/"+c.derivedBranch(1).Branch+" || { echo protected >&2; exit 1; }")
	if err != nil {
		return err
	}
	before := c.head
	_, err = c.show(ctx, git.DerivedUpdate{Edits: []git.Edit{content(0, "2"), content(1, "2")}}, 0, 1)
	if at, ok := errors.AsType[*git.PathError](err); !errs.Is(err, errs.Forbidden) || !ok || at.Path != c.derivedBranch(1).Dir {
		return fmt.Errorf("the refusal of a derived branch is %w, want one that names its directory", err)
	}
	if err := c.Bare.Hook("update", ""); err != nil {
		return err
	}
	if err := c.moved(ctx, before, !c.atomic); err != nil {
		return fmt.Errorf("after a derived branch was refused: %w", err)
	}
	_, err = c.show(ctx, git.DerivedUpdate{Edits: []git.Edit{content(0, "2"), content(1, "2")}}, 0, 1)
	return errors.Join(err, c.same(ctx, 0), c.same(ctx, 1))
}

// moved checks whether the branch left a commit, and records its head.
func (c *derivedCheck) moved(ctx context.Context, from git.Hash, want bool) error {
	at, err := c.Bare.Git(ctx, "", "rev-parse", "shown")
	if err != nil || (git.Hash(at) != from) != want {
		return fmt.Errorf("the branch is at %s, %w, and was at %s", at, err, from)
	}
	c.head = git.Hash(at)
	return nil
}

// race: the next try repairs a derived branch that someone else moved.
func (c *derivedCheck) race(ctx context.Context) error {
	theirs := map[string]File{"clusters/c0/theirs": {Content: "x"}}
	if _, err := c.Bare.CommitExternal(ctx, c.derivedBranch(0).Branch, theirs); err != nil {
		return err
	}
	shown, err := c.show(ctx, git.DerivedUpdate{Edits: []git.Edit{content(1, "3")}}, 0, 1)
	if err != nil || !slices.Equal(shown.Diverged, []string{c.derivedBranch(0).Branch}) {
		return fmt.Errorf("a derived branch that someone else moved: %+v, %w", shown, err)
	}
	return errors.Join(c.same(ctx, 0), c.same(ctx, 1))
}

// removal: derived branches without a reader are deleted, and nothing else.
func (c *derivedCheck) removal(ctx context.Context) error {
	shown, err := c.show(ctx, git.DerivedUpdate{Remove: []string{c.derivedBranch(0).Branch, "never-there"}})
	if err != nil || !slices.Equal(shown.Removed, []string{c.derivedBranch(0).Branch}) || len(shown.Diverged) > 0 {
		return fmt.Errorf("the removal returned %+v, %w", shown, err)
	}
	if again, err := c.show(ctx, git.DerivedUpdate{Remove: []string{c.derivedBranch(0).Branch}}); err != nil || len(again.Removed) > 0 {
		return fmt.Errorf("the second removal returned %+v, %w", again, err)
	}
	return nil
}

func (c *derivedCheck) removalBesideACommit(ctx context.Context) error {
	if _, err := c.Bare.CommitExternal(ctx, c.derivedBranch(2).Branch, map[string]File{"mine": {Content: "mine"}}); err != nil {
		return err
	}
	if _, err := c.Bare.Git(ctx, "", "branch", "other", "shown"); err != nil {
		return err
	}
	before := c.head
	shown, err := c.show(ctx, git.DerivedUpdate{Edits: []git.Edit{{Path: "clusters/c1"}}, Remove: []string{c.derivedBranch(1).Branch, c.derivedBranch(2).Branch, "other"}})
	if err != nil || !slices.Equal(shown.Removed, []string{c.derivedBranch(1).Branch}) || !slices.Equal(shown.Diverged, []string{"other", c.derivedBranch(2).Branch}) || shown.Commit == before {
		return fmt.Errorf("the removal with a commit returned %+v, %w", shown, err)
	}
	left, err := c.Bare.Git(ctx, "", "for-each-ref", "--format=%(refname:short)", "refs/heads/")
	if err != nil || left != "other\nshown\n"+c.derivedBranch(2).Branch {
		return fmt.Errorf("left are the branches %q, %w", left, err)
	}
	return nil
}
