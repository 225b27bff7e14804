package gittest

import (
	"context"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// CheckReset reports whether a host keeps what git.BranchResetter promises. The repository's branch main
// holds a commit, and it refuses to take branches off their history.
func CheckReset(ctx context.Context, h git.BranchResetter, r git.Repo, bare Bare) error {
	c := &moveCheck{ctx: ctx, host: h, repo: r, bare: bare}
	for _, step := range []func() error{c.anew, c.off, c.guarded, c.back} {
		if err := step(); err != nil {
			return err
		}
	}
	return bare.Fsck(ctx)
}

// moveCheck holds the state between the steps of the check.
type moveCheck struct {
	ctx  context.Context
	host git.BranchResetter
	repo git.Repo
	bare Bare

	first, second git.Hash // commits at which the branch has been
}

const moving = "emco/main"

var oneFile = []git.Edit{{Path: "f", File: []byte("x")}}

// at is where a branch is; empty if it is not there.
func (c *moveCheck) at(branch string) git.Hash {
	id, _ := c.bare.Ref("refs/heads/" + branch)
	return git.Hash(id)
}

func (c *moveCheck) move(m git.BranchReset) (git.Hash, error) {
	m.Branch = moving
	return c.host.ResetBranch(c.ctx, c.repo, m)
}

// refused moves what must not be moved.
func (c *moveCheck) refused(what string, m git.BranchReset, kind errs.Kind) error {
	before := c.at(moving)
	if _, err := c.move(m); !errs.Is(err, kind) || c.at(moving) != before {
		return fmt.Errorf("%s: %w; the branch was at %s and is at %s", what, wantKind(err, kind), before, c.at(moving))
	}
	return nil
}

func (c *moveCheck) anew() (err error) {
	base := c.at("main")
	m := git.BranchReset{Onto: base, Edits: oneFile}
	if c.first, err = c.move(m); err != nil || c.first != c.at(moving) {
		return fmt.Errorf("a new branch: %s, %w; it is at %s", c.first, err, c.at(moving))
	}
	if parent, err := c.bare.Git(c.ctx, "", "rev-parse", string(c.first)+"^"); err != nil || parent != string(base) {
		return fmt.Errorf("its parent is %s, %w, want %s", parent, err, base)
	}
	return c.refused("again, when it is there", m, errs.Conflict)
}

// off takes the branch off its history, where the server lets that be done.
func (c *moveCheck) off() error {
	if _, err := c.bare.CommitExternal(c.ctx, "main", map[string]File{"theirs": {Content: "y"}}); err != nil {
		return err
	}
	m := git.BranchReset{From: c.first, Onto: c.at("main"), Edits: oneFile}
	err := c.refused("off its history, where that is denied", m, errs.Forbidden)
	if err == nil {
		err = c.bare.Config(c.ctx, "receive.denyNonFastForwards", "false")
	}
	if err != nil {
		return err
	}
	if c.second, err = c.move(m); err != nil || c.second != c.at(moving) {
		return fmt.Errorf("off its history: %s, %w; it is at %s", c.second, err, c.at(moving))
	}
	return c.refused("from where it was", m, errs.Conflict)
}

func (c *moveCheck) guarded() error {
	stop, asked := errors.New("stop"), 0
	guard := func(context.Context) error { asked++; return stop }
	_, err := c.move(git.BranchReset{From: c.second, Onto: c.first, Message: git.Message{Guard: guard}})
	if !errors.Is(err, stop) || asked != 1 || c.at(moving) != c.second {
		return fmt.Errorf("a guard that refuses: %w, asked %d times; the branch is at %s", err, asked, c.at(moving))
	}
	return nil
}

// back puts the branch on a commit that no branch holds.
func (c *moveCheck) back() error {
	if got, err := c.move(git.BranchReset{From: c.second, Onto: c.first}); err != nil || got != c.first || c.at(moving) != c.first {
		return fmt.Errorf("back to a commit that no branch holds: %s, %w; it is at %s", got, err, c.at(moving))
	}
	return c.refused("to a commit that is not there", git.BranchReset{From: c.first, Onto: "00000000000000000000000000000000000000aa"}, errs.NotFound)
}
