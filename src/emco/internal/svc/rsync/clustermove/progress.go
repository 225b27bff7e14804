package clustermove

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/watchcache"
)

// Progress is what is stored of the moves of clusters. The shards of a process share it.
type Progress struct {
	cache *watchcache.Cache[string, gitstate.Relocation] // by cluster
	store *appcontext.Store
	log   *slog.Logger
}

// NewProgress returns a progress that is empty until Run has read it.
func NewProgress(store *appcontext.Store, log *slog.Logger) *Progress {
	return &Progress{watchcache.New[string](func(r gitstate.Relocation) int64 { return r.Mod }), store, log}
}

// Run watches the stored moves until ctx ends.
func (p *Progress) Run(ctx context.Context) {
	for e, err := range p.store.WatchRelocations(ctx) {
		switch {
		case err != nil:
			p.log.Error("the progress of a move cannot be read", "err", err)
		case e.Synced:
			p.cache.MarkSynced()
		case e.Forgotten:
			p.cache.Delete(string(e.Relocation.Cluster), e.Relocation)
		default:
			p.cache.Put(string(e.Relocation.Cluster), e.Relocation)
		}
	}
}

// Of returns the last known move of a cluster.
func (p *Progress) Of(ctx context.Context, cluster v2.ClusterKey) (gitstate.Relocation, error) {
	r, err := p.cache.Get(ctx, string(cluster))
	if err != nil {
		return r, errs.E(errs.Unavailable, "read", "move of "+string(cluster), err)
	}
	return r, nil
}

// Underway returns the moves that are not done, and a channel that is closed with the next
// change.
func (p *Progress) Underway() (out []gitstate.Relocation, changed <-chan struct{}) {
	return p.cache.List(func(r gitstate.Relocation) bool { return r.Stage != gitstate.MoveDone })
}

// Advance stores the next stage of a move. It keeps what other shards wrote in the
// meantime, and never goes back to an earlier stage.
func (p *Progress) Advance(ctx context.Context, own appcontext.Fence, next gitstate.Relocation) error {
	for {
		r, err := p.store.Relocation(ctx, next.Cluster)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		same := r.Registration == next.Registration && r.Number == next.Number
		if r.IsAtLeast(next.Registration, next.Number+1) || same && stageOrder[r.Stage] > stageOrder[next.Stage] {
			return nil
		}
		next.Mod = r.Mod
		if same {
			next.Written, next.Cleared, next.Finish = cmp.Or(next.Written, r.Written), cmp.Or(next.Cleared, r.Cleared), r.Finish
			if len(next.Deployments) == 0 {
				next.Deployments = r.Deployments
			}
		}
		stored, err := p.store.PutRelocation(ctx, own, next)
		if err == nil {
			p.cache.Put(string(stored.Cluster), stored)
		}
		if errors.Is(err, appcontext.ErrFenced) || !errs.Is(err, errs.Conflict) {
			return err
		}
	}
}

var stageOrder = map[gitstate.MoveStage]int{
	gitstate.MoveAsked: 1, gitstate.MoveWritten: 2, gitstate.MoveTaken: 3, gitstate.MoveDone: 4, gitstate.MoveLeft: 5,
}
