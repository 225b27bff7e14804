package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// SideBranch returns the branch of which it is proposed to take what a protected one is to hold.
func SideBranch(branch string) string { return "emco/" + branch }

// ProposedError says that a branch takes nothing but proposals, and what became of the one
// that holds the job. It comes wrapped in Throttled, with the time to look again, while
// that is open, and in Forbidden once it was closed.
type ProposedError struct {
	Branch   string
	Proposal git.Proposal
}

// Error says where the proposal is, and what can be done.
func (e *ProposedError) Error() string {
	if e.Proposal.State == git.ProposalClosed {
		return fmt.Sprintf("proposal %s for branch %s was closed without being merged; reopen it to go on, or change what is wanted", e.Proposal.URL, e.Branch)
	}
	return fmt.Sprintf("waits for proposal %s to be merged into branch %s", e.Proposal.URL, e.Branch)
}

func waitsForMerge(err error) bool {
	_, ok := errors.AsType[*ProposedError](err)
	return ok
}

// dryRun finds out whether the jobs' edits would change a commit. It returns what Commit
// does: git.ErrDry if they would.
func (t *attempt) dryRun(ctx context.Context, branch string, at git.Hash) (git.Hash, error) {
	m := t.message
	m.DryRun = true
	return t.line.owner.host.Commit(ctx, t.repo, branch, at, t.edits, m)
}

// writeOrPropose writes on top of parent; or, where the branch is protected and the jobs say so,
// proposes it.
//
//	edits are on the branch ──────────────────────────────► done
//	no proposal is open ── write ── refused ─┐
//	one is open ─────────────────────────────┴─ side branch ── Propose ──► ProposedError
//
// All that is remembered is on the server, so that another process goes on with the same
// proposal.
func (t *attempt) writeOrPropose(ctx context.Context, parent git.Hash) (git.Hash, error) {
	if !t.propose || parent == "" {
		return t.write(ctx, parent)
	}
	host, ok := t.line.owner.host.(git.Proposer)
	if !ok {
		return "", errs.E(errs.Invalid, "propose", t.repo.URL, errors.New("this host has no pull requests"))
	}
	p, err := host.Proposal(ctx, t.repo, SideBranch(t.line.key.branch), t.line.key.branch)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return "", err
	}
	if p.State == git.ProposalOpen {
		return t.updateProposal(ctx, host, p, parent)
	}
	commit, err := t.write(ctx, parent)
	if !maybeProtected(err) {
		return commit, err
	}
	if p.State == git.ProposalClosed {
		if err := t.refuseClosed(ctx, p); err != nil {
			return "", err
		}
	}
	return "", t.requestMerge(ctx, host, p, parent)
}

// maybeProtected says whether a branch takes no pushes; or those of this credential, as the try
// to propose will show.
func maybeProtected(err error) bool {
	_, blamed := errors.AsType[*git.PathError](err)
	return errs.Is(err, errs.Forbidden) && !blamed
}

// updateProposal keeps a proposal that is open up to date. Edits that are on the branch
// already, because it was brought there by others or is to be as it was, are done; the
// proposal must not change them any more all the same.
func (t *attempt) updateProposal(ctx context.Context, host git.Proposer, p git.Proposal, parent git.Hash) (git.Hash, error) {
	asked := t.requestMerge(ctx, host, p, parent)
	if !waitsForMerge(asked) {
		return "", asked
	}
	if _, err := t.dryRun(ctx, t.line.key.branch, parent); err != nil {
		if errors.Is(err, git.ErrDryRun) {
			err = asked
		}
		return "", err
	}
	return t.write(ctx, parent)
}

// refuseClosed refuses what was proposed and refused before; something else may be proposed.
func (t *attempt) refuseClosed(ctx context.Context, p git.Proposal) error {
	_, err := t.dryRun(ctx, SideBranch(t.line.key.branch), p.Head)
	switch {
	case errors.Is(err, git.ErrDryRun):
		return nil
	case err == nil, errs.Is(err, errs.NotFound), errs.Is(err, errs.Invalid):
		return t.proposedError(p)
	}
	return err
}

func (t *attempt) proposedError(p git.Proposal) error {
	e := &ProposedError{Branch: t.line.key.branch, Proposal: p}
	if p.State == git.ProposalClosed {
		return errs.E(errs.Forbidden, "write", t.repo.URL, e)
	}
	return errs.Throttle("write", t.repo.URL, t.line.owner.opt.ProposalPoll, e)
}

// requestMerge puts the edits on the side branch and sees to it that there is a proposal to take
// them. On success it returns a ProposedError.
func (t *attempt) requestMerge(ctx context.Context, host git.Proposer, p git.Proposal, parent git.Hash) error {
	side, into := SideBranch(t.line.key.branch), t.line.key.branch
	before, err := t.line.owner.host.Head(ctx, t.repo, side)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	now, err := t.writeSideBranch(ctx, p, before, parent)
	if err != nil {
		return err
	}
	if now != before || p.State != git.ProposalOpen {
		if p, err = host.Propose(ctx, t.repo, side, into, t.message); err != nil {
			return err
		}
		t.line.owner.opt.Log.LogAttrs(ctx, slog.LevelInfo, "proposed", slog.String("repo", t.repo.URL),
			slog.String("branch", into), slog.String("url", p.URL), slog.String("commit", string(now)))
	}
	return t.proposedError(p)
}

// writeSideBranch puts the edits on the side branch: on top of what is there as long as that is based
// on the newest commit of the branch; else that is where it begins anew, and what other
// jobs had put there is put there again when they look the next time.
func (t *attempt) writeSideBranch(ctx context.Context, p git.Proposal, before, parent git.Hash) (git.Hash, error) {
	host, side := t.line.owner.host, SideBranch(t.line.key.branch)
	if before != "" && (p.State == git.ProposalOpen || p.State == "") { // not what was refused, or is there
		based, err := t.sideBranchHolds(ctx, before, parent)
		if err != nil {
			return "", err
		}
		if based {
			return host.Commit(ctx, t.repo, side, before, t.edits, t.message)
		}
	}
	mover, ok := host.(git.BranchResetter)
	if !ok {
		return "", errs.E(errs.Invalid, "propose", t.repo.URL, errors.New("this host cannot make branch "+side))
	}
	return mover.ResetBranch(ctx, t.repo, git.BranchReset{Branch: side, From: before, Onto: parent, Edits: t.edits, Message: t.message})
}

// sideBranchHolds says whether the history of the side branch holds the newest commit of the branch.
// Where that cannot be told it is for the server to merge.
func (t *attempt) sideBranchHolds(ctx context.Context, side, parent git.Hash) (bool, error) {
	logs, ok := t.line.owner.host.(git.LogReader)
	if !ok || parent == "" {
		return true, nil
	}
	log, err := logs.Since(ctx, t.repo, side, parent)
	if errs.Is(err, errs.TooLarge) {
		return true, nil
	}
	return log.Grown, err
}

// defaultPoll is how often it is looked whether a proposal was merged.
const defaultPoll = 30 * time.Second
