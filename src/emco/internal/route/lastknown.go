package route

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
	"unique"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// LastKnown remembers, in memory alone, the routes that lookups for deliveries read last. They use these while
// the documents are away, so what is desired already is delivered. It is safe for concurrent use; a nil
// LastKnown knows nothing.
type LastKnown struct {
	log *slog.Logger

	mu     sync.Mutex
	routes map[v2.ClusterKey]lastRoute // at most maxLastKnown; guarded by mu
	epoch  int                         // rises when routes are forgotten; guarded by mu
	away   bool                        // the documents did not answer when they were asked last; guarded by mu
	used   bool                        // since the documents are away; guarded by mu
}

// lastRoute is how a cluster was registered and reached.
type lastRoute struct {
	gitops unique.Handle[v2.GitOps]
	route  Route // without its move
}

const (
	maxLastKnown = 10_000          // clusters; the rest waits for the documents
	awayPatience = 2 * time.Second // for a read of documents that did not answer when they were asked last
)

// NewLastKnown returns a memory of routes that is empty.
func NewLastKnown(log *slog.Logger) *LastKnown {
	return &LastKnown{log: log, routes: map[v2.ClusterKey]lastRoute{}}
}

// DocumentsAsked notes whether the documents answered a question: err is nil if they did.
func (k *LastKnown) DocumentsAsked(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away = errs.Is(err, errs.Unavailable); k.away {
		return
	}
	if k.used {
		k.log.Info("the documents answer again; deliveries read settings and credentials from them")
	}
	k.used = false
}

// Forget drops the routes that changed documents may change.
func (k *LastKnown) Forget(changes store.Changes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	providers := map[string]bool{}
	for _, key := range changes.Keys {
		if provider, ok := SyncObjectProvider(key); ok {
			providers[provider] = true
		} else if cluster, ok := v2.ClusterOf(string(key)); ok {
			k.epoch++
			delete(k.routes, cluster)
		}
	}
	if !changes.All && len(providers) == 0 {
		return
	}
	k.epoch++
	for cluster := range k.routes {
		if changes.All || providers[cluster.Provider()] {
			delete(k.routes, cluster)
		}
	}
}

// Away reports whether the documents did not answer when they were asked last.
func (k *LastKnown) Away() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}

// Used reports whether the documents are away, and a delivery used a remembered route since.
func (k *LastKnown) Used() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

func (k *LastKnown) now() (epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// keep remembers a route that a lookup read, unless routes were forgotten since the lookup began.
func (k *LastKnown) keep(cluster v2.ClusterKey, r lastRoute, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.routes[cluster]; epoch == k.epoch && (known || len(k.routes) < maxLastKnown) {
		k.routes[cluster] = r
	}
}

// drop forgets the route of a cluster.
func (k *LastKnown) drop(cluster v2.ClusterKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.routes, cluster)
}

// recall returns a remembered route, if there is one and the documents are away. err is why the route cannot be read.
func (k *LastKnown) recall(cluster v2.ClusterKey, err error) (r lastRoute, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.away {
		return lastRoute{}, false
	}
	if r, ok = k.routes[cluster]; ok && !k.used {
		k.used = true
		k.log.Warn("the documents are away; deliveries use the settings and credentials that were read last", "err", err)
	}
	return r, ok
}

// DeliveryLookup returns a lookup for deliveries: while the documents are away, its routes are those that other
// such lookups read last.
func (r *Resolver) DeliveryLookup() *Lookup {
	l := r.Lookup()
	if l.known = r.LastKnown; l.known != nil {
		l.epoch = l.known.now()
	}
	return l
}

// reach returns how a cluster is registered and its route as they are now, or as they were last if the documents are away.
func (l *Lookup) reach(ctx context.Context, cluster v2.ClusterKey) (v2.GitOps, Route, error) {
	if l.known == nil {
		return l.read(ctx, cluster)
	}
	if l.away != nil {
		return l.recall(ctx, cluster, l.away)
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if l.known.Away() {
		bounded, cancel = context.WithTimeout(ctx, awayPatience)
	}
	defer cancel()
	g, r, err := l.read(bounded, cluster)
	switch {
	case err == nil:
		l.known.keep(cluster, lastRoute{unique.Make(g), r}, l.epoch)
	case ctx.Err() != nil: // the caller ends
	case errs.Is(err, errs.Unavailable):
		if l.known.Away() {
			l.away = err // the next clusters need no question
		}
		return l.recall(ctx, cluster, err)
	default:
		l.known.drop(cluster)
	}
	return g, r, err
}

// recall returns how a cluster was registered and its route as they were last. It returns err, which is why they cannot be read, if nothing
// is known or if the cluster was moved since.
func (l *Lookup) recall(ctx context.Context, cluster v2.ClusterKey, err error) (v2.GitOps, Route, error) {
	last, ok := l.known.recall(cluster, err)
	if !ok {
		return v2.GitOps{}, Route{}, err
	}
	gitops := last.gitops.Value()
	if l.Moves != nil {
		move, unread := l.Moves.Of(ctx, cluster)
		if unread != nil {
			return v2.GitOps{}, Route{}, errors.Join(err, unread)
		}
		if move.Registration == last.route.Registration && move.Number > gitops.Moved.Number {
			return v2.GitOps{}, Route{}, err
		}
	}
	last.route.Recalled = true
	return gitops, last.route, nil
}
