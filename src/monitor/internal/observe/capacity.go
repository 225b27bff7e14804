package observe

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
)

const (
	capacityWindow   = 5               // reads; what became free is reported after it was free in all of them
	capacityFailures = 3               // in a row, after which nothing is known
	capacityShare    = 20              // the pause is at least this many times as long as the read
	capacityTimeout  = 2 * time.Minute // of a read
)

// watchCapacity reads what the nodes have free every Options.Capacity, until ctx ends. It reads because a watch of
// all pods would keep them in memory.
func (o *Observer) watchCapacity(ctx context.Context) {
	var window []capacity.Snapshot
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		s, err := o.readCapacity(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			window = append(window[max(0, len(window)+1-capacityWindow):], s)
			o.setCapacity(capacity.Least(window...).Capacity())
		default:
			if failures++; apierrors.IsForbidden(err) {
				failures = max(failures, capacityFailures)
			}
			if failures == capacityFailures {
				window = nil
				o.options.Log.Warn("free resources are not known", "err", err)
				o.setCapacity(status.Capacity{Problem: capacity.Problem(err)})
			}
			o.options.Log.Debug("free resources not read", "failures", failures, "err", err)
		}
		timer := time.NewTimer(max(o.options.Capacity, capacityShare*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (o *Observer) readCapacity(ctx context.Context) (capacity.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, capacityTimeout)
	defer cancel()
	return capacity.Read(ctx, o.clients.Dynamic)
}

// setCapacity stores what the nodes have free. The sender reports it if it has changed.
func (o *Observer) setCapacity(c status.Capacity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.capacity, o.capacityRead = c, true
	o.changedLocked()
}
