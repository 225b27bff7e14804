package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// jobRequest is a job that waits for its answer.
type jobRequest struct {
	job      Job
	ctx      context.Context // the caller's; one that ended is not worth a commit
	answer   chan jobAnswer  // takes one without blocking
	answered atomic.Bool
}

type jobAnswer struct {
	commit git.Hash
	err    error
}

// branchQueue is the queue of one branch and the goroutine that empties it.
type branchQueue struct {
	owner *Writers
	key   branchKey
	wake  chan struct{} // holds a token when the queue or the closing changed
	queue []*jobRequest // guarded by the owner's lock

	head        git.Hash      // where the branch is, as far as we know; only the goroutine's
	headKnown   bool          // head was read or written by us and not found stale since
	history     branchHistory // what is known of how the branch got there
	windowEnd   time.Time     // the end of the window after the last commit
	lastCallers int           // callers that shared the last commit
}

// wakeUp wakes the goroutine if it waits.
func (l *branchQueue) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run makes batches until there is no work for a while, or no more to come.
func (l *branchQueue) run() {
	for l.awaitWork() {
		l.awaitWindow()
		if reqs := l.takeBatch(); len(reqs) > 0 {
			l.process(reqs)
			l.startWindow(reqs[0].job.Repo, len(reqs))
		}
	}
}

// awaitWork waits for work. It returns false after it took the line out of the map,
// so that the next job starts a new one.
func (l *branchQueue) awaitWork() bool {
	idle := time.NewTimer(l.owner.opt.Idle)
	defer idle.Stop()
	for expired := false; ; {
		if work, end := l.hasWork(expired); work || end {
			return work
		}
		select {
		case <-l.wake:
		case <-idle.C:
			expired = true
		}
	}
}

// hasWork says whether there is work, or else whether the line ended.
func (l *branchQueue) hasWork(expired bool) (work, end bool) {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(l.queue) > 0 {
		return true, false
	}
	if end = expired || w.closed; end {
		delete(w.queues, l.key)
	}
	return false, end
}

func (l *branchQueue) closing() bool {
	l.owner.mu.Lock()
	defer l.owner.mu.Unlock()
	return l.owner.closed
}

// sharesCommit says whether jobs may share a commit, apart from what they write.
func (j Job) sharesCommit(other Job) bool {
	return j.Repo == other.Repo && j.Propose == other.Propose && j.Fence.Shard == other.Fence.Shard && j.Fence.Token == other.Fence.Token
}

// takeBatch removes from the queue what one commit can hold: the longest run of jobs
// with the same credentials and fence, whose paths do not overlap but where they are
// equal, within the caps. Jobs whose callers are gone are dropped.
func (l *branchQueue) takeBatch() []*jobRequest {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	m := newEditSet()
	var taken []*jobRequest
	rest := urgentFirst(l.queue)
	for len(rest) > 0 {
		r := rest[0]
		if err := r.ctx.Err(); err != nil {
			l.reply(r, jobAnswer{err: err})
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
	l.queue = append([]*jobRequest(nil), rest...)
	return taken
}

// reply answers a caller, once, and makes room for another.
func (l *branchQueue) reply(r *jobRequest, a jobAnswer) {
	if r.answered.CompareAndSwap(false, true) {
		r.answer <- a
		<-l.owner.slots
	}
}
