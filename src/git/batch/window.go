package batch

import (
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// pause waits for those who are likely to come, so that they share the next commit: until
// as many callers wait as the last commit had, and not longer than its window. A caller
// who is alone does not wait. The window of a hosted repository holds whoever waits.
// Closing cuts it short.
func (l *line) pause() {
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
func (l *line) window() time.Duration {
	w := l.owner
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	wait := l.quiet.Sub(now)
	switch {
	case len(l.queue) == 0:
		return wait
	case !w.opt.Hosted(l.queue[0].job.Repo):
		if len(l.queue) >= l.crowd {
			return 0
		}
		return wait
	}
	wait = max(wait, w.quiet[l.key.url].Sub(now))
	switch {
	case wait > 0:
		return wait
	case !urgent(l.queue) && w.urgentBeside(l):
		return w.opt.HostedWindow / 10
	}
	w.quiet[l.key.url] = now.Add(w.opt.HostedWindow)
	return 0
}

// urgentBeside says whether another branch of the repository waits with something urgent.
func (w *Writers) urgentBeside(l *line) bool {
	for k, other := range w.lines {
		if other != l && k.url == l.key.url && urgent(other.queue) {
			return true
		}
	}
	return false
}

func urgent(queue []*request) bool {
	for _, r := range queue {
		if r.job.Urgent {
			return true
		}
	}
	return false
}

// close begins the window after a commit for so many callers.
func (l *line) close(r git.Repo, callers int) {
	w, now := l.owner, time.Now()
	l.quiet, l.crowd = now.Add(w.opt.Window), callers
	if !w.opt.Hosted(r) {
		return
	}
	l.quiet = now.Add(w.opt.HostedWindow)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet[l.key.url] = l.quiet
	for url, end := range w.quiet {
		if end.Before(now) {
			delete(w.quiet, url)
		}
	}
}

// urgentFirst puts urgent requests before the others. Those that were there before them
// and share their paths stay before them: the later one wins.
func urgentFirst(queue []*request) []*request {
	if !urgent(queue) {
		return queue
	}
	first := make([]bool, len(queue))
	m := newMerge()
	for i := len(queue) - 1; i >= 0; i-- {
		edits := queue[i].job.Edits
		if first[i] = queue[i].job.Urgent || m.touches(edits); first[i] {
			m.add(edits)
		}
	}
	out := make([]*request, 0, len(queue))
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
func (m *merge) touches(edits []git.Edit) bool {
	for _, e := range edits {
		if _, same := m.edits[e.Path]; same || m.clashes(e.Path) {
			return true
		}
	}
	return false
}
