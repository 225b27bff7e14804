package batch

import (
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// Lane is what is known of a branch that was written since the start: the jobs that wait, and
// the outcome of the last batch.
type Lane struct {
	URL, Branch  string
	Repo         git.Repo  // as it was reached last
	Queued       int       // jobs that wait
	Oldest       time.Time // when the first of them was queued; zero without one
	Pushed       time.Time // the last commit; zero if there was none
	Commit       git.Hash  // that commit
	Err          error     // of the last batch; nil if it succeeded
	Since        time.Time // when Err began, or when it ended
	CoolingUntil time.Time // the end of the repository's cooldown; zero if it has none
}

// maxLanes bounds the lanes that are remembered.
const maxLanes = 10_000

// laneRecord is the outcome of the last batch of a branch; guarded by Writers.mu.
type laneRecord struct {
	repo   git.Repo
	pushed time.Time
	commit git.Hash
	err    error
	since  time.Time
}

// noteLane records the outcome of a batch.
func (w *Writers) noteLane(k branchKey, repo git.Repo, written git.Hash, err error) {
	if errors.Is(err, ErrFenced) {
		return // another process writes the branch now
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lanes[k]
	if l == nil {
		if len(w.lanes) >= maxLanes {
			return
		}
		l = &laneRecord{since: now}
		w.lanes[k] = l
	}
	if (l.err == nil) != (err == nil) {
		l.since = now
	}
	l.repo, l.err = repo, err
	if err == nil && written != "" {
		l.pushed, l.commit = now, written
	}
}

// Lanes returns the branches that were written since the start, or that jobs wait for, in no
// order.
func (w *Writers) Lanes() []Lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Lane, 0, len(w.lanes)+len(w.queues))
	for k, l := range w.lanes {
		out = append(out, Lane{
			URL: k.url, Branch: k.branch, Repo: l.repo, Pushed: l.pushed, Commit: l.commit, Err: l.err, Since: l.since, CoolingUntil: w.cooldowns.Until(l.repo),
		}.with(w.queues[k]))
	}
	for k, q := range w.queues {
		if w.lanes[k] == nil {
			out = append(out, Lane{URL: k.url, Branch: k.branch}.with(q))
		}
	}
	return out
}

// with adds the jobs that wait. The caller holds Writers.mu.
func (l Lane) with(q *branchQueue) Lane {
	if q == nil {
		return l
	}
	l.Queued = len(q.pending)
	if l.Queued > 0 {
		l.Repo = q.pending[0].job.Repo
	}
	for _, r := range q.pending {
		if l.Oldest.IsZero() || r.queued.Before(l.Oldest) {
			l.Oldest = r.queued
		}
	}
	return l
}
