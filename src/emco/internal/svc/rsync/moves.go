package rsync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// moves knows how far clusters are on their way to other places in Git, for all shards of
// a process.
type moves struct {
	store *appcontext.Store
	log   *slog.Logger

	mu     sync.Mutex
	known  map[string]appcontext.Relocation // by cluster
	synced bool
	moved  chan struct{} // closed, and replaced, when something has changed
}

func newMoves(store *appcontext.Store, log *slog.Logger) *moves {
	return &moves{store: store, log: log, known: map[string]appcontext.Relocation{}, moved: make(chan struct{})}
}

// run follows what is known until ctx ends.
func (m *moves) run(ctx context.Context) {
	for e, err := range m.store.WatchRelocations(ctx) {
		if err != nil {
			m.log.Error("how far a move is cannot be read", "err", err)
			continue
		}
		m.take(e)
	}
}

func (m *moves) take(e appcontext.RelocationEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := e.Relocation.Cluster
	switch {
	case e.Synced:
		m.synced = true
	case e.Relocation.Mod <= m.known[at].Mod:
		return
	case e.Forgotten:
		delete(m.known, at)
	default:
		m.known[at] = e.Relocation
	}
	close(m.moved)
	m.moved = make(chan struct{})
}

// of returns how far the last move of a cluster is that anything is known of.
func (m *moves) of(ctx context.Context, cluster string) (appcontext.Relocation, error) {
	for {
		m.mu.Lock()
		synced, moved, r := m.synced, m.moved, m.known[cluster]
		m.mu.Unlock()
		if synced {
			return r, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return r, errs.E(errs.Unavailable, "read", "move of "+cluster, ctx.Err())
		}
	}
}

// underway returns the clusters that have not arrived, and what is closed when that changes.
func (m *moves) underway() (out []appcontext.Relocation, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.known {
		if r.Stage != appcontext.MoveDone {
			out = append(out, r)
		}
	}
	return out, m.moved
}

// reach writes down that a move has got further. What others wrote meanwhile counts: a
// stage is never left.
func (m *moves) reach(ctx context.Context, own appcontext.Fence, next appcontext.Relocation) error {
	for {
		r, err := m.store.Relocation(ctx, next.Cluster)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		if r.Of(next.Registration, next.Number+1) || r.Registration == next.Registration && r.Number == next.Number && after(r.Stage, next.Stage) {
			return nil
		}
		next.Mod = r.Mod
		if r.Registration == next.Registration && r.Number == next.Number {
			next.Written, next.Cleared, next.Finish = cmp.Or(next.Written, r.Written), cmp.Or(next.Cleared, r.Cleared), r.Finish
			if len(next.Deployments) == 0 {
				next.Deployments = r.Deployments
			}
		}
		stored, err := m.store.PutRelocation(ctx, own, next)
		if err == nil {
			m.take(appcontext.RelocationEvent{Relocation: stored})
		}
		if errors.Is(err, appcontext.ErrFenced) || !errs.Is(err, errs.Conflict) {
			return err
		}
	}
}

// after reports whether a stage comes after another one.
func after(a, b appcontext.MoveStage) bool {
	order := map[appcontext.MoveStage]int{appcontext.MoveAsked: 1, appcontext.MoveWritten: 2, appcontext.MoveTaken: 3, appcontext.MoveDone: 4, appcontext.MoveLeft: 5}
	return order[a] > order[b]
}
