package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// ErrExternalEdit is the error of jobs that would write over an edit by others that must be kept.
var ErrExternalEdit = errors.New("someone else changed this file, and nothing is written over it until an operator decides")

// RewrittenError is the error of jobs whose branch lost a commit that was written to it. It comes
// wrapped in Forbidden: nothing is written until an operator decides.
type RewrittenError struct {
	Branch string
	Base   git.Hash // the commit that the branch should hold
	Head   git.Hash // where it is; empty if it was deleted
}

// Error names the lost commit and the ways out.
func (e *RewrittenError) Error() string {
	at := "the branch was deleted"
	if e.Head != "" {
		at = "it is at " + string(e.Head) + " now, whose history lacks that commit"
	}
	return fmt.Sprintf("HistoryRewritten: commit %s was written to branch %s, and %s; nothing is written there until the branch is restored or its new history adopted", e.Base, e.Branch, at)
}

// branchHistory is the known part of a branch's history.
type branchHistory struct {
	checkedUpTo git.Hash          // the last checked head; empty: none yet
	contains    map[git.Hash]bool // commits in the history of checkedUpTo
}

// maxContained bounds the known commits of a history.
const maxContained = 64

// advance records a head whose history holds that of the last one.
func (p *branchHistory) advance(to git.Hash) {
	p.checkedUpTo = to
	p.add(to)
}

// add records that the history holds a commit.
func (p *branchHistory) add(id git.Hash) {
	if p.contains == nil || len(p.contains) >= maxContained {
		p.contains = map[git.Hash]bool{}
	}
	p.contains[id] = true
}

// addOwn records a commit of ours on top of parent.
func (p *branchHistory) addOwn(commit, parent git.Hash) {
	if p.checkedUpTo != parent {
		*p = branchHistory{}
	}
	p.advance(commit)
}

// checkHistory finds out how the branch got to the head that was read. It refuses if a later owner
// has written meanwhile, if the history lacks a base of the jobs, or if others have edited what the
// jobs edit. It costs nothing while the branch stays where it was. After an error the next check
// reads the same commits again.
func (t *commitAttempt) checkHistory(ctx context.Context) (err error) {
	host, ok := t.queue.owner.host.(git.LogReader)
	if !ok || t.fence.Shard == "" && len(t.bases) == 0 {
		return nil
	}
	checkedUpTo := t.queue.history.checkedUpTo
	defer func() {
		if err != nil {
			t.queue.history = branchHistory{checkedUpTo: checkedUpTo}
		}
	}()
	if err := t.checkNewCommits(ctx, host); err != nil {
		return err
	}
	for _, base := range t.bases {
		if err := t.findBase(ctx, host, base); err != nil {
			return err
		}
	}
	if err := t.reportOwn(ctx); err != nil {
		return err
	}
	return t.checkExternal(ctx)
}

// reportOwn reports commits that carry a fence, and that this process did not make.
func (t *commitAttempt) reportOwn(ctx context.Context) error {
	var ours []git.Commit
	for _, c := range t.newCommits {
		if fenceOf(c).Shard != "" {
			ours = append(ours, c)
		}
	}
	if t.onOwnCommits == nil || len(ours) == 0 || t.reportedOwn == t.queue.head {
		return nil
	}
	err := t.onOwnCommits(ctx, ours)
	if err == nil {
		t.reportedOwn = t.queue.head
	}
	return err
}

// checkExternal reports the commits of others, and refuses to write over those of their edits that
// must be kept.
func (t *commitAttempt) checkExternal(ctx context.Context) error {
	var theirs []git.Commit
	for _, c := range t.newCommits {
		if fenceOf(c).Shard == "" && c.Trailer(git.SourceTrailer) == "" {
			theirs = append(theirs, c)
		}
	}
	if t.onExternalEdits == nil || len(theirs) == 0 || t.reportedHead == t.queue.head {
		return nil
	}
	keep, err := t.onExternalEdits(ctx, theirs)
	if err != nil {
		return err
	}
	for _, path := range keep {
		if slices.ContainsFunc(t.edits, func(e git.Edit) bool { return git.Inside(e.Path, path) || git.Inside(path, e.Path) }) {
			return errs.E(errs.Forbidden, "write", t.repo.URL, &git.PathError{Path: path, Err: ErrExternalEdit})
		}
	}
	t.reportedHead = t.queue.head
	return nil
}

// checkNewCommits reads the commits since the last checked head, and fails if a later owner made
// one of them.
func (t *commitAttempt) checkNewCommits(ctx context.Context, host git.LogReader) error {
	p, head := &t.queue.history, t.queue.head
	if p.checkedUpTo == head {
		return nil
	}
	seen := p.checkedUpTo
	if seen == "" || head == "" {
		*p = branchHistory{checkedUpTo: head}
		return nil
	}
	log, err := t.since(ctx, host, seen)
	if err != nil {
		return err
	}
	if err := t.fence.checkOverrun(log.Commits); err != nil {
		return err
	}
	if log.Grown {
		p.advance(head)
	} else {
		*p = branchHistory{checkedUpTo: head}
	}
	return nil
}

// findBase fails unless a commit is in the history of the head.
func (t *commitAttempt) findBase(ctx context.Context, host git.LogReader, base git.Hash) error {
	q := t.queue
	grown := q.history.contains[base] || base == q.head
	if !grown && q.head != "" {
		log, err := t.since(ctx, host, base)
		if err != nil {
			return err
		}
		grown = log.Grown
	}
	if !grown {
		return errs.E(errs.Forbidden, "write", t.repo.URL, &RewrittenError{Branch: q.key.branch, Base: base, Head: q.head})
	}
	q.history.add(base)
	return nil
}

// since reads a log and keeps its commits. A log that is too long counts as one that does not hold
// the base.
func (t *commitAttempt) since(ctx context.Context, host git.LogReader, base git.Hash) (git.Log, error) {
	log, err := host.Since(ctx, t.repo, t.queue.head, base)
	if errs.Is(err, errs.TooLarge) {
		return git.Log{}, nil
	}
	t.newCommits = log.Commits
	return log, err
}

// ownCommit returns the newest commit of this shard among the new ones; it holds what the shard
// wrote.
func (t *commitAttempt) ownCommit() (git.Hash, bool) {
	for _, c := range t.newCommits {
		if f := fenceOf(c); f.Shard != "" && f.Shard == t.fence.Shard {
			return c.ID, true
		}
	}
	return "", false
}
