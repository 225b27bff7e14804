package mirror

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
)

// Life is what the agent of a cluster last said, be it that all is as it was. It is shared
// by all that is known of the cluster, and goes on while that is looked at.
type Life struct {
	last atomic.Pointer[agents.Agent]
}

func (l *Life) set(a *agents.Agent) {
	if a != nil {
		a.Tokens = nil // they are nobody's business here
	}
	l.last.Store(a)
}

// At is when that was; the zero time if it never did, and for no Life.
func (l *Life) At() time.Time {
	if l == nil {
		return time.Time{}
	}
	if a := l.last.Load(); a != nil {
		return a.At
	}
	return time.Time{}
}

// Heard is when the cluster last said that things are as the report has them: with the
// report, or later with a sign of life.
func (e *Entry) Heard() time.Time {
	if e.Report == nil {
		return time.Time{}
	}
	if at := e.Life.At(); e.Report.Seq > 0 && at.After(e.Report.At) {
		return at
	}
	return e.Report.At
}

// lives reads the signs of life of clusters from etcd.
func lives(agents []agents.Agent) map[string]*Life {
	out := make(map[string]*Life, len(agents))
	for _, a := range agents {
		out[a.Cluster] = new(Life)
		out[a.Cluster].set(&a)
	}
	return out
}

// listener is somebody who follows what agents say.
type listener struct {
	dirty map[string]bool // clusters
	wake  chan struct{}
}

func (l *listener) mark(cluster string) {
	l.dirty[cluster] = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Agents yields all agents that have said something, and each again when it has said
// something more; several times in a row are one. It ends only when ctx ends. Tokens are
// left out.
func (m *Mirror) Agents(ctx context.Context) iter.Seq[agents.Agent] {
	return func(yield func(agents.Agent) bool) {
		l := m.listen()
		defer m.leave(l)
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			}
			for _, a := range m.dirty(l) {
				if ctx.Err() != nil || !yield(a) {
					return
				}
			}
		}
	}
}

func (m *Mirror) listen() *listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &listener{dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
	m.listeners[l] = true
	if m.index != nil {
		m.index.markAll(l)
	}
	return l
}

func (m *Mirror) leave(l *listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, l)
}

// dirty takes what a listener is to be told.
func (m *Mirror) dirty(l *listener) (out []agents.Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cluster := range l.dirty {
		if m.index == nil {
			break // all is told when there is one
		}
		if life := m.index.lives[cluster]; life != nil {
			if a := life.last.Load(); a != nil {
				out = append(out, *a)
			}
		}
	}
	clear(l.dirty)
	return out
}
