package rsync

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// registered reads the ids of the registrations of a wish's clusters; those that are not
// registered are left out.
func (d *dispatcher) registered(ctx context.Context, w pair.Desired) (map[string]string, error) {
	trip, out := d.gateway.Lookup(), make(map[string]string, len(w.Places))
	for cluster := range w.Places {
		doc, err := trip.Registration(ctx, cluster)
		switch {
		case err == nil:
			out[cluster] = doc.UID
		case !errs.Is(err, errs.NotFound):
			return nil, err
		}
	}
	return out, nil
}
