package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	awayPatience = 3 * time.Second // how long calls wait after the last server went out of reach
	probe        = time.Second     // of a call that begins later: in it the client looks for servers again
)

// errAway means that no server answers at all.
var errAway = errors.New("no server of MongoDB answers; start one, or check the network; EMCO goes on when one answers")

// reachability ends calls when all servers are away. It does not end those that wait while a replica set elects a primary: then the client knows
// other members. Its zero value is ready, and no server is away.
type reachability struct {
	mu   sync.Mutex
	away time.Time // since when; zero: a server is known; guarded by mu
}

// topologyChanged takes what the client knows about the servers.
func (r *reachability) topologyChanged(e *event.TopologyDescriptionChangedEvent) {
	known := slices.ContainsFunc(e.NewDescription.Servers, func(s event.ServerDescription) bool { return s.Kind != "Unknown" })
	r.mu.Lock()
	defer r.mu.Unlock()
	if known {
		r.away = time.Time{}
	} else if r.away.IsZero() {
		r.away = time.Now()
	}
}

// given reports whether calls need not wait any longer.
func (r *reachability) given() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.away.IsZero() && time.Since(r.away) >= awayPatience
}

// within makes a call, and ends it if all servers are away: Unavailable.
func (r *reachability) within(ctx context.Context, op, of string, call func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(probe, func() { r.look(ctx, cancel) }).Stop()
	err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errAway) && !errors.Is(err, errAway) {
		err = errs.E(errs.Unavailable, op, of, fmt.Errorf("%w (%w)", errAway, err))
	}
	return err
}

// look cancels a call if all servers are away, or looks again later, until the call is over.
func (r *reachability) look(ctx context.Context, cancel context.CancelCauseFunc) {
	switch {
	case ctx.Err() != nil:
	case r.given():
		cancel(errAway)
	default:
		time.AfterFunc(probe/4, func() { r.look(ctx, cancel) })
	}
}
