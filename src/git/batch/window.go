package batch

import (
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// awaitWindow collects jobs for one commit, until the number of waiting callers reaches that of
// the last commit, at most for its window. A single caller does not wait. The window of a hosted
// repository always lasts. Close cuts it short.
func (q *branchQueue) awaitWindow() {
	for wait := q.window(); wait > 0 && !q.closing(); wait = q.window() {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.wake:
		}
		timer.Stop()
	}
}

// window returns how long this queue still has to wait. A queue that need not, on a hosted
// repository, starts the window of all its branches.
func (q *branchQueue) window() time.Duration {
	w := q.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	wait := q.windowEnd.Sub(now)
	switch {
	case len(q.pending) == 0:
		return wait
	case !w.opt.Hosted(q.pending[0].job.Repo):
		if len(q.pending) >= q.lastCallers {
			return 0
		}
		return wait
	}
	wait = max(wait, w.hostedWindows[q.key.url].Sub(now))
	switch {
	case wait > 0:
		return wait
	case !urgent(q.pending) && w.urgentElsewhereLocked(q):
		return w.opt.HostedWindow / 10
	}
	w.hostedWindows[q.key.url] = now.Add(w.opt.HostedWindow)
	return 0
}

// urgentElsewhereLocked reports whether another branch of the repository has an urgent job.
func (w *Writers) urgentElsewhereLocked(q *branchQueue) bool {
	for k, other := range w.queues {
		if other != q && k.url == q.key.url && urgent(other.pending) {
			return true
		}
	}
	return false
}

func urgent(queue []*jobRequest) bool {
	for _, r := range queue {
		if r.job.Urgent {
			return true
		}
	}
	return false
}

// startWindow starts the window after a commit for so many callers.
func (q *branchQueue) startWindow(r git.Repo, callers int) {
	w, now := q.owner, time.Now()
	q.windowEnd, q.lastCallers = now.Add(w.opt.Window), callers
	if !w.opt.Hosted(r) {
		return
	}
	q.windowEnd = now.Add(w.opt.HostedWindow)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hostedWindows[q.key.url] = q.windowEnd
	for url, end := range w.hostedWindows {
		if end.Before(now) {
			delete(w.hostedWindows, url)
		}
	}
}

// urgentFirst moves urgent jobs to the front. Earlier jobs that share paths with them stay in front
// of them, since the later job wins.
func urgentFirst(queue []*jobRequest) []*jobRequest {
	if !urgent(queue) {
		return queue
	}
	first := make([]bool, len(queue))
	m := newEditSet()
	for i := len(queue) - 1; i >= 0; i-- {
		edits := queue[i].job.Edits
		if first[i] = queue[i].job.Urgent || m.touches(edits); first[i] {
			m.add(edits)
		}
	}
	out := make([]*jobRequest, 0, len(queue))
	for _, want := range []bool{true, false} {
		for i, r := range queue {
			if first[i] == want {
				out = append(out, r)
			}
		}
	}
	return out
}

// touches reports whether an edit is at, in or around a path of the set.
func (m *editSet) touches(edits []git.Edit) bool {
	for _, e := range edits {
		if _, same := m.edits[e.Path]; same || m.clashes(e.Path) {
			return true
		}
	}
	return false
}
