package batch

import (
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// awaitWindow waits for those who are likely to come, so that they share the next commit: until
// as many callers wait as the last commit had, and not longer than its window. A caller
// who is alone does not wait. The window of a hosted repository holds whoever waits.
// Closing cuts it short.
func (l *branchQueue) awaitWindow() {
	for wait := l.window(); wait > 0 && !l.closing(); wait = l.window() {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.wake:
		}
		timer.Stop()
	}
}

// window is how long this line has to wait still. When it need not, and the repository is
// hosted, the other lines of the repository have to.
func (l *branchQueue) window() time.Duration {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	wait := l.windowEnd.Sub(now)
	switch {
	case len(l.queue) == 0:
		return wait
	case !w.opt.Hosted(l.queue[0].job.Repo):
		if len(l.queue) >= l.lastCallers {
			return 0
		}
		return wait
	}
	wait = max(wait, w.hostedWindows[l.key.url].Sub(now))
	switch {
	case wait > 0:
		return wait
	case !urgent(l.queue) && w.urgentElsewhere(l):
		return w.opt.HostedWindow / 10
	}
	w.hostedWindows[l.key.url] = now.Add(w.opt.HostedWindow)
	return 0
}

// urgentElsewhere says whether another branch of the repository waits with something urgent.
func (w *Writers) urgentElsewhere(l *branchQueue) bool {
	for k, other := range w.queues {
		if other != l && k.url == l.key.url && urgent(other.queue) {
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

// startWindow begins the window after a commit for so many callers.
func (l *branchQueue) startWindow(r git.Repo, callers int) {
	w, now := l.owner, time.Now()
	l.windowEnd, l.lastCallers = now.Add(w.opt.Window), callers
	if !w.opt.Hosted(r) {
		return
	}
	l.windowEnd = now.Add(w.opt.HostedWindow)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hostedWindows[l.key.url] = l.windowEnd
	for url, end := range w.hostedWindows {
		if end.Before(now) {
			delete(w.hostedWindows, url)
		}
	}
}

// urgentFirst puts urgent requests before the others. Those that were there before them
// and share their paths stay before them: the later one wins.
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

// touches says whether one of the edits is at, in or around a path of the merge.
func (m *editSet) touches(edits []git.Edit) bool {
	for _, e := range edits {
		if _, same := m.edits[e.Path]; same || m.clashes(e.Path) {
			return true
		}
	}
	return false
}
