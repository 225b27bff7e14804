package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// jobRequest is a job with the way back to its caller.
type jobRequest struct {
	job      Job
	ctx      context.Context // of the caller; no commit is made for one that ended
	answer   chan jobAnswer  // buffered for one
	queued   time.Time
	answered atomic.Bool
}

type jobAnswer struct {
	commit git.Hash
	err    error
}

// branchQueue is the queue of one branch and the state of the goroutine that empties it. Only that
// goroutine uses the fields from head on.
type branchQueue struct {
	owner   *Writers
	key     branchKey
	wake    chan struct{} // holds a token after pending or closed changed
	pending []*jobRequest // guarded by owner.mu

	head        git.Hash      // of the branch, as far as known
	headKnown   bool          // head was read or written by us, and was not found stale since
	history     branchHistory // of the branch up to head
	windowEnd   time.Time     // the end of the window after the last commit
	lastCallers int           // callers of the last commit
}

// wakeUp wakes the goroutine if it waits.
func (q *branchQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run commits batches until the branch is idle or Writers is closed.
func (q *branchQueue) run() {
	for q.awaitWork() {
		q.awaitWindow()
		if reqs := q.takeBatch(); len(reqs) > 0 {
			q.process(reqs)
			q.startWindow(reqs[0].job.Repo, len(reqs))
		}
	}
}

// awaitWork waits for jobs. It returns false after it has removed the queue from Writers, so that
// the next job starts a new one.
func (q *branchQueue) awaitWork() bool {
	idle := time.NewTimer(q.owner.opt.Idle)
	defer idle.Stop()
	for expired := false; ; {
		if work, end := q.hasWork(expired); work || end {
			return work
		}
		select {
		case <-q.wake:
		case <-idle.C:
			expired = true
		}
	}
}

// hasWork reports whether jobs wait. Without any, an idle or closed queue ends: it is removed under
// the same lock under which jobs are added, so that no job is lost.
func (q *branchQueue) hasWork(expired bool) (work, end bool) {
	w := q.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(q.pending) > 0 {
		return true, false
	}
	if end = expired || w.closed; end {
		delete(w.queues, q.key)
	}
	return false, end
}

func (q *branchQueue) closing() bool {
	q.owner.mu.Lock()
	defer q.owner.mu.Unlock()
	return q.owner.closed
}

// sharesCommit reports whether two jobs may share a commit, as far as credentials, fences and
// proposals matter.
func (j Job) sharesCommit(other Job) bool {
	return j.Repo == other.Repo && j.Propose == other.Propose && j.Fence.Shard == other.Fence.Shard && j.Fence.Token == other.Fence.Token
}

// takeBatch removes the jobs of one commit from the queue: as many as share credentials and fence,
// have no overlapping paths but equal ones, and fit the limits. Jobs whose callers have left are
// dropped.
func (q *branchQueue) takeBatch() []*jobRequest {
	w := q.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	m := newEditSet()
	var taken []*jobRequest
	rest := urgentFirst(q.pending)
	for len(rest) > 0 {
		r := rest[0]
		if err := r.ctx.Err(); err != nil {
			q.reply(r, jobAnswer{err: err})
			rest = rest[1:]
			continue
		}
		if len(taken) > 0 && (!r.job.sharesCommit(taken[0].job) || !m.fits(r.job.Edits, w.opt)) {
			break
		}
		m.add(r.job.Edits)
		taken = append(taken, r)
		rest = rest[1:]
	}
	q.pending = append([]*jobRequest(nil), rest...)
	return taken
}

// reply answers a caller, once, and frees its slot.
func (q *branchQueue) reply(r *jobRequest, a jobAnswer) {
	if r.answered.CompareAndSwap(false, true) {
		r.answer <- a
		<-q.owner.slots
	}
}
