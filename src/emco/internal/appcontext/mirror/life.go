package mirror

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
)

// LastSign is the last sign of life of a cluster's agent: a report, or the message that
// nothing has changed. All entries of the cluster share it, and it advances under their readers.
type LastSign struct {
	last atomic.Pointer[agents.Agent]
}

func (l *LastSign) set(a *agents.Agent) {
	if a != nil {
		a.Tokens = nil // no reader needs them
	}
	l.last.Store(a)
}

// At is its time; the zero time if there was none, and for a nil LastSign.
func (l *LastSign) At() time.Time {
	if l == nil {
		return time.Time{}
	}
	if a := l.last.Load(); a != nil {
		return a.At
	}
	return time.Time{}
}

// Heard is when the cluster last confirmed the report: with the report, or with a later sign
// of life.
func (e *Entry) Heard() time.Time {
	if e.Report == nil {
		return time.Time{}
	}
	if at := e.LastSign.At(); e.Report.Seq > 0 && at.After(e.Report.At) {
		return at
	}
	return e.Report.At
}

// lastSigns returns the last signs of life, by cluster.
func lastSigns(agents []agents.Agent) map[v2.ClusterKey]*LastSign {
	out := make(map[v2.ClusterKey]*LastSign, len(agents))
	for _, a := range agents {
		out[a.Cluster] = new(LastSign)
		out[a.Cluster].set(&a)
	}
	return out
}

// agentListener is a consumer of Agents.
type agentListener struct {
	dirty map[v2.ClusterKey]bool // clusters whose agents changed; guarded by Mirror.mu
	wake  chan struct{}          // holds an element while dirty is not empty
}

func (l *agentListener) mark(cluster v2.ClusterKey) {
	l.dirty[cluster] = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Agents yields all agents that have reported, and each again when it has reported more;
// several reports in a row are one. It ends only when ctx ends. Tokens are left out.
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

func (m *Mirror) listen() *agentListener {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &agentListener{dirty: map[v2.ClusterKey]bool{}, wake: make(chan struct{}, 1)}
	m.listeners[l] = true
	if m.index != nil {
		m.index.markAll(l)
	}
	return l
}

func (m *Mirror) leave(l *agentListener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, l)
}

// dirty takes the changed agents of a listener.
func (m *Mirror) dirty(l *agentListener) (out []agents.Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cluster := range l.dirty {
		if m.index == nil {
			break // the next index marks all agents
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

// LastSequence returns the sequence of the last report of a cluster's agent that etcd holds; 0 if none
// is known. It may be a moment old.
func (m *Mirror) LastSequence(cluster v2.ClusterKey) uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return 0
	}
	if l := m.index.lives[cluster]; l != nil {
		if a := l.last.Load(); a != nil {
			return a.Seq
		}
	}
	return 0
}
