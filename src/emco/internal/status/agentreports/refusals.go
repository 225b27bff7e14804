package agentreports

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

// RefusalStore stores what was refused.
type RefusalStore interface {
	AddRefusals(ctx context.Context, more map[v2.ClusterKey]agents.Refusals) error
}

const (
	refusalGap  = time.Second     // between two writes, however many documents are refused
	refusalLast = 2 * time.Second // that the last write of Run may take
	maxWhy      = 1 << 10         // bytes of a reason
)

// RefusalRecorder records which documents of registered clusters are refused, so that each process can show it. Make it with
// NewRefusalRecorder.
type RefusalRecorder struct {
	store RefusalStore
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	waiting map[v2.ClusterKey]agents.Refusals // to be added; guarded by mu
}

// NewRefusalRecorder returns a recorder that writes while Run runs.
func NewRefusalRecorder(s RefusalStore, log *slog.Logger) *RefusalRecorder {
	return &RefusalRecorder{store: s, log: log, wake: make(chan struct{}, 1), waiting: map[v2.ClusterKey]agents.Refusals{}}
}

// Name returns "refusals".
func (r *RefusalRecorder) Name() string { return "refusals" }

// Ready returns nil: what cannot be written waits.
func (r *RefusalRecorder) Ready() error { return nil }

// Add records the refusal of a document at the given time. It does not wait.
func (r *RefusalRecorder) Add(d intake.Document, err error, at time.Time) {
	why := err.Error()
	why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	r.add(d.Cluster, agents.Refusals{Count: 1, Result: intake.ResultOf(err), Why: why, Commit: d.Where, At: at.UTC()})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// add keeps the last refusal of a cluster, and the number of all.
func (r *RefusalRecorder) add(cluster v2.ClusterKey, more agents.Refusals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[cluster] = more.Add(r.waiting[cluster])
}

// Run writes what was recorded until ctx ends, and then once more what still waits.
func (r *RefusalRecorder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.wake:
			r.write(ctx)
			_ = pause.For(ctx, refusalGap)
		}
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), refusalLast)
	defer end()
	r.write(last)
	if n := r.lost(); n > 0 {
		r.log.Warn("refused reports not recorded before the end", "clusters", n)
	}
	return nil
}

// lost returns of how many clusters refusals wait.
func (r *RefusalRecorder) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// write adds what waits to the store; what cannot be added waits for the next write.
func (r *RefusalRecorder) write(ctx context.Context) {
	r.mu.Lock()
	more := r.waiting
	r.waiting = map[v2.ClusterKey]agents.Refusals{}
	r.mu.Unlock()
	if len(more) == 0 {
		return
	}
	err := r.store.AddRefusals(ctx, more)
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		r.log.Warn("refused reports not recorded; trying again", "clusters", len(more), "err", err)
	}
	for cluster, left := range more {
		r.add(cluster, left)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
