package statusview

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Waiting returns the head of a deployment, nil if there is none, and how many places rsync has not taken up yet:
// their pairs do not desire what the head does. While it is not zero, the pairs show an earlier revision. It makes
// nothing for each place: views ask it every second while something changes.
func (r *Reader) Waiting(ctx context.Context, id appcontext.HeadID) (head *appcontext.Head, n int, err error) {
	snap, err := r.mirror.Snapshot(ctx, id)
	if err != nil || snap.Head == nil {
		return nil, 0, err
	}
	desiring := 0 // pairs that desire something
	for _, e := range snap.Pairs.All() {
		if p := e.State.Common(); p != nil && p.Desired != "" {
			desiring++
		}
	}
	if snap.Head.Gone || snap.Head.Rev == 0 {
		return snap.Head, desiring, nil
	}
	placements, err := r.contexts.DesiredPlacements(ctx, snap.Head.UID, snap.Head.Rev)
	if err != nil {
		return nil, 0, err
	}
	for _, at := range placements {
		for app, bundle := range at.Apps {
			e := snap.Pairs.Of(app)[at.Cluster]
			if e == nil || e.State == nil || e.State.Common().Desired != bundle {
				n++
			}
			if e != nil && e.State != nil && e.State.Common().Desired != "" {
				desiring--
			}
		}
	}
	return snap.Head, n + desiring, nil
}
