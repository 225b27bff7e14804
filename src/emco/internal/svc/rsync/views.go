package rsync

import (
	"context"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Clusters may read branches of their own, which show their directories of the branch that
// is written. These views move with each commit. One that does not show what it should,
// because somebody else has moved it or a server could not move it along, is put right with
// the next commit for its cluster, or when it is looked at, whichever comes first.

// viewCheck is how long after a look at views the next one is.
const viewCheck = 5 * time.Minute

// keepViews looks at the views of the shard's clusters, now and then, until ctx ends. It
// costs nothing as long as there are none.
func (d *dispatcher) keepViews(ctx context.Context) {
	select {
	case <-d.viewed:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		d.lookAtViews(ctx)
		queue.Pause(ctx, viewCheck)
	}
}

// lookAtViews looks at all views once. Meanwhile no place is cleared that one might show.
func (d *dispatcher) lookAtViews(ctx context.Context) {
	d.still.Lock()
	defer d.still.Unlock()
	for at, album := range d.albums(ctx) {
		if err := d.mend(ctx, album); err != nil && ctx.Err() == nil {
			d.log.Warn("views cannot be looked at", "repo", at.URL, "branch", at.Name, "err", err)
		}
	}
}

// album is the views of a branch, and who reads them.
type album struct {
	job     batch.Job
	readers map[string][]pair.Target // by view
}

// albums returns the views of the shard's clusters by the branch that they show.
func (d *dispatcher) albums(ctx context.Context) map[route.Branch]album {
	trip, out := d.gateway.Lookup(), map[route.Branch]album{}
	for _, t := range d.ledger.All() {
		dest, err := trip.Route(ctx, t.Cluster)
		if err != nil || dest.Settings.View == "" || dest.Role(d.shard) != route.Deliver { // what cannot be found is not delivered to either
			continue
		}
		on := dest.Branch()
		a, known := out[on]
		if !known {
			a = album{job: batch.Job{Repo: dest.Settings.Repo, Branch: on.Name}, readers: map[string][]pair.Target{}}
		}
		view := dest.Settings.View
		if len(a.readers[view]) == 0 {
			a.job.Derived = append(a.job.Derived, dest.Settings.ViewOf(dest.Target(t.Cluster, t.UID).Root())...)
		}
		a.readers[view] = append(a.readers[view], t)
		out[on] = a
	}
	return out
}

// mend puts views right. Those who read one that had lost its history are looked at anew:
// the commit that was noted for them may be no part of it any more.
func (d *dispatcher) mend(ctx context.Context, a album) error {
	shown, _, err := d.git.submit(ctx, a.job)
	if err != nil {
		return err
	}
	mended := slices.Concat(shown.Created, shown.Diverged)
	if len(mended) == 0 {
		return nil
	}
	var readers []pair.Target
	for _, view := range mended {
		readers = append(readers, a.readers[view]...)
	}
	d.log.Warn("views that somebody else had changed or removed are put right", "repo", a.job.Repo.URL, "of", a.job.Branch, "views", len(mended), "first", mended[0])
	if err := d.ledger.MarkUndelivered(ctx, readers); err != nil {
		return errs.E(errs.Unavailable, "note", "views", err)
	}
	d.dispatch(ctx, readers)
	return nil
}
