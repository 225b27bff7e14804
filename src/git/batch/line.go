package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// request is a job that waits for its answer.
type request struct {
	job      Job
	ctx      context.Context // the caller's; one that ended is not worth a commit
	answer   chan answer     // takes one without blocking
	answered atomic.Bool
}

type answer struct {
	commit git.Hash
	err    error
}

// line is the queue of one branch and the goroutine that empties it.
type line struct {
	owner *Writers
	key   key
	wake  chan struct{} // holds a token when the queue or the closing changed
	queue []*request    // guarded by the owner's lock

	head  git.Hash  // where the branch is, as far as we know; only the goroutine's
	known bool      // head was read or written by us and not found stale since
	past  past      // what is known of how the branch got there
	quiet time.Time // the end of the window after the last commit
	crowd int       // callers that shared the last commit
}

// nudge wakes the goroutine if it waits.
func (l *line) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run makes batches until there is no work for a while, or no more to come.
func (l *line) run() {
	for l.await() {
		l.pause()
		if reqs := l.take(); len(reqs) > 0 {
			l.settle(reqs)
			l.close(reqs[0].job.Repo, len(reqs))
		}
	}
}

// await waits for work. It returns false after it took the line out of the map,
// so that the next job starts a new one.
func (l *line) await() bool {
	idle := time.NewTimer(l.owner.opt.Idle)
	defer idle.Stop()
	for expired := false; ; {
		if work, end := l.look(expired); work || end {
			return work
		}
		select {
		case <-l.wake:
		case <-idle.C:
			expired = true
		}
	}
}

// look says whether there is work, or else whether the line ended.
func (l *line) look(expired bool) (work, end bool) {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(l.queue) > 0 {
		return true, false
	}
	if end = expired || w.closed; end {
		delete(w.lines, l.key)
	}
	return false, end
}

func (l *line) closing() bool {
	l.owner.mu.Lock()
	defer l.owner.mu.Unlock()
	return l.owner.closed
}

// goesWith says whether jobs may share a commit, apart from what they write.
func (j Job) goesWith(other Job) bool {
	return j.Repo == other.Repo && j.Propose == other.Propose && j.Fence.Shard == other.Fence.Shard && j.Fence.Token == other.Fence.Token
}

// take removes from the queue what one commit can hold: the longest run of jobs
// with the same credentials and fence, whose paths do not overlap but where they are
// equal, within the caps. Jobs whose callers are gone are dropped.
func (l *line) take() []*request {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	m := newMerge()
	var taken []*request
	rest := urgentFirst(l.queue)
	for len(rest) > 0 {
		r := rest[0]
		if err := r.ctx.Err(); err != nil {
			l.reply(r, answer{err: err})
			rest = rest[1:]
			continue
		}
		if len(taken) > 0 && (!r.job.goesWith(taken[0].job) || !m.fits(r.job.Edits, w.opt)) {
			break
		}
		m.add(r.job.Edits)
		taken = append(taken, r)
		rest = rest[1:]
	}
	l.queue = append([]*request(nil), rest...)
	return taken
}

// reply answers a caller, once, and makes room for another.
func (l *line) reply(r *request, a answer) {
	if r.answered.CompareAndSwap(false, true) {
		r.answer <- a
		<-l.owner.slots
	}
}
