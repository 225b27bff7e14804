package rsync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// moves knows how far clusters are on their way to other places in Git, for all shards of
// a process.
type moves struct {
	*followed[string, appcontext.Relocation] // by cluster
	store                                    *appcontext.Store
	log                                      *slog.Logger
}

func newMoves(store *appcontext.Store, log *slog.Logger) *moves {
	return &moves{newFollowed[string](func(r appcontext.Relocation) int64 { return r.Mod }), store, log}
}

// run follows what is known until ctx ends.
func (m *moves) run(ctx context.Context) {
	for e, err := range m.store.WatchRelocations(ctx) {
		switch {
		case err != nil:
			m.log.Error("how far a move is cannot be read", "err", err)
		case e.Synced:
			m.complete()
		case e.Forgotten:
			m.drop(e.Relocation.Cluster, e.Relocation)
		default:
			m.keep(e.Relocation.Cluster, e.Relocation)
		}
	}
}

// Of returns how far the last move of a cluster is that anything is known of.
func (m *moves) Of(ctx context.Context, cluster string) (appcontext.Relocation, error) {
	r, err := m.get(ctx, cluster)
	if err != nil {
		return r, errs.E(errs.Unavailable, "read", "move of "+cluster, err)
	}
	return r, nil
}

// underway returns the clusters that have not arrived, and what is closed when that changes.
func (m *moves) underway() (out []appcontext.Relocation, changed <-chan struct{}) {
	return m.all(func(r appcontext.Relocation) bool { return r.Stage != appcontext.MoveDone })
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
			m.keep(stored.Cluster, stored)
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
