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

// SideBranch returns the branch that holds proposed changes of a protected one.
func SideBranch(branch string) string { return "emco/" + branch }

// ProposedError is the error of jobs that wait for a proposal, because their branch is protected.
// While the proposal is open it comes wrapped in Throttled, with the time to submit again; after it
// was closed, in Forbidden.
type ProposedError struct {
	Branch   string
	Proposal git.Proposal
}

// Error names the proposal and the ways out.
func (e *ProposedError) Error() string {
	if e.Proposal.State == git.ProposalClosed {
		return fmt.Sprintf("proposal %s for branch %s was closed without being merged; reopen it, or change what is deployed", e.Proposal.URL, e.Branch)
	}
	return fmt.Sprintf("waits for proposal %s to be merged into branch %s", e.Proposal.URL, e.Branch)
}

func waitsForMerge(err error) bool {
	_, ok := errors.AsType[*ProposedError](err)
	return ok
}

// dryRun finds out whether the edits would change a commit. It returns what Commit does:
// git.ErrDryRun if they would.
func (t *commitAttempt) dryRun(ctx context.Context, branch string, at git.Hash) (git.Hash, error) {
	m := t.message
	m.DryRun = true
	return t.queue.owner.host.Commit(ctx, t.repo, branch, at, t.edits, m)
}

// writeOrPropose writes on top of parent; or, where the branch is protected and the jobs allow it,
// proposes the edits.
//
//	edits are on the branch ──────────────────────────────► done
//	no proposal is open ── write ── refused ─┐
//	one is open ─────────────────────────────┴─ side branch ── Propose ──► ProposedError
//
// All state is on the server, so that another process continues with the same proposal.
func (t *commitAttempt) writeOrPropose(ctx context.Context, parent git.Hash) (git.Hash, error) {
	if !t.propose || parent == "" {
		return t.write(ctx, parent)
	}
	host, ok := t.queue.owner.host.(git.Proposer)
	if !ok {
		return "", errs.E(errs.Invalid, "propose", t.repo.URL, errors.New("this host has no pull requests"))
	}
	p, err := host.Proposal(ctx, t.repo, SideBranch(t.queue.key.branch), t.queue.key.branch)
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

// maybeProtected reports whether an error may come from a branch that takes no pushes from this
// credential; the proposal will show.
func maybeProtected(err error) bool {
	_, blamed := errors.AsType[*git.PathError](err)
	return errs.Is(err, errs.Forbidden) && !blamed
}

// updateProposal updates an open proposal. Edits that the branch holds already are done; the
// proposal must then no longer change them.
func (t *commitAttempt) updateProposal(ctx context.Context, host git.Proposer, p git.Proposal, parent git.Hash) (git.Hash, error) {
	asked := t.requestMerge(ctx, host, p, parent)
	if !waitsForMerge(asked) {
		return "", asked
	}
	if _, err := t.dryRun(ctx, t.queue.key.branch, parent); err != nil {
		if errors.Is(err, git.ErrDryRun) {
			err = asked
		}
		return "", err
	}
	return t.write(ctx, parent)
}

// refuseClosed refuses edits that were proposed and closed before; other edits may be proposed.
func (t *commitAttempt) refuseClosed(ctx context.Context, p git.Proposal) error {
	_, err := t.dryRun(ctx, SideBranch(t.queue.key.branch), p.Head)
	switch {
	case errors.Is(err, git.ErrDryRun):
		return nil
	case err == nil, errs.Is(err, errs.NotFound), errs.Is(err, errs.Invalid):
		return t.proposedError(p)
	}
	return err
}

func (t *commitAttempt) proposedError(p git.Proposal) error {
	e := &ProposedError{Branch: t.queue.key.branch, Proposal: p}
	if p.State == git.ProposalClosed {
		return errs.E(errs.Forbidden, "write", t.repo.URL, e)
	}
	return errs.Throttle("write", t.repo.URL, t.queue.owner.opt.ProposalPoll, e)
}

// requestMerge puts the edits on the side branch and makes sure that a proposal to merge it is
// open. On success it returns a ProposedError.
func (t *commitAttempt) requestMerge(ctx context.Context, host git.Proposer, p git.Proposal, parent git.Hash) error {
	side, into := SideBranch(t.queue.key.branch), t.queue.key.branch
	before, err := t.queue.owner.host.Head(ctx, t.repo, side)
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
		t.queue.owner.opt.Log.LogAttrs(ctx, slog.LevelInfo, "proposed", slog.String("repo", t.repo.URL),
			slog.String("branch", into), slog.String("url", p.URL), slog.String("commit", string(now)))
	}
	return t.proposedError(p)
}

// writeSideBranch puts the edits on the side branch: on top of its head if that builds on the
// newest commit of the branch. Otherwise the side branch restarts there, and other jobs add their
// edits again with their next try.
func (t *commitAttempt) writeSideBranch(ctx context.Context, p git.Proposal, before, parent git.Hash) (git.Hash, error) {
	host, side := t.queue.owner.host, SideBranch(t.queue.key.branch)
	if before != "" && (p.State == git.ProposalOpen || p.State == "") { // neither closed nor merged
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

// sideBranchHolds reports whether the history of the side branch holds the newest commit of the
// branch. Where that is unknown, the server has to merge.
func (t *commitAttempt) sideBranchHolds(ctx context.Context, side, parent git.Hash) (bool, error) {
	logs, ok := t.queue.owner.host.(git.LogReader)
	if !ok || parent == "" {
		return true, nil
	}
	log, err := logs.Since(ctx, t.repo, side, parent)
	if errs.Is(err, errs.TooLarge) {
		return true, nil
	}
	return log.Grown, err
}

// defaultPoll is how often callers check whether a proposal was merged.
const defaultPoll = 30 * time.Second
