package shard

import (
	"context"
	"slices"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// DocumentsChanged has the shard retry waiting targets at once if the registration or a sync object of
// their cluster is among the changes: what made them fail may be corrected.
func (s *Shard) DocumentsChanged(changes store.Changes) { s.changed.add(changes) }

// followDocuments tries targets again after changes of documents, until ctx ends.
func (s *Shard) followDocuments(ctx context.Context) {
	for {
		select {
		case <-s.changed.wake:
			changes := s.changed.take()
			s.retryNow(ctx, s.usersOf(ctx, s.retries.Waiting(), changes))
			s.reconnect(ctx, changes)
		case <-ctx.Done():
			return
		}
	}
}

// reconnect queues the targets of direct clusters whose registration has changed, also those
// without anything to deliver: their objects are watched with the new kubeconfig.
func (s *Shard) reconnect(ctx context.Context, changes store.Changes) {
	changed := clustersIn(changes.Keys)
	for _, cluster := range s.kube.Connected() {
		if changes.All || changed[cluster] {
			s.Requeue(ctx, s.pairs.On(cluster))
		}
	}
}

// documentInbox holds changes of documents that the shard has not looked at.
type documentInbox struct {
	wake chan struct{} // holds a token when there are changes

	mu      sync.Mutex
	changes store.Changes // guarded by mu
}

// maxChanges bounds the keys in an inbox; with more, everything may have changed.
const maxChanges = 10_000

func newDocumentInbox() *documentInbox { return &documentInbox{wake: make(chan struct{}, 1)} }

func (in *documentInbox) add(c store.Changes) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.changes.Keys = append(in.changes.Keys, c.Keys...)
	if in.changes.All = in.changes.All || c.All || len(in.changes.Keys) > maxChanges; in.changes.All {
		in.changes.Keys = nil
	}
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *documentInbox) take() store.Changes {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := in.changes
	in.changes = store.Changes{}
	return out
}

// documentMark returns the mark of the document store; 0 if it has none, or does not answer.
func (s *Shard) documentMark(ctx context.Context) int64 {
	if s.Routes.LastKnown.Away() {
		return 0
	}
	changes, err := s.Routes.DB.Changes(ctx, 0)
	if err != nil {
		return 0
	}
	return changes.Mark
}

// retryOvertaken tries failed targets again if their documents have changed since a mark of
// the document store: their delivery may have used the old ones.
func (s *Shard) retryOvertaken(ctx context.Context, mark int64, results []pair.Result) {
	var failed []pair.Result
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, r)
		}
	}
	if len(failed) == 0 || mark == 0 {
		return
	}
	changes, err := s.Routes.DB.Changes(ctx, mark)
	if err != nil || changes.All { // DocumentsChanged follows
		return
	}
	s.retryNow(ctx, s.usersOf(ctx, pair.TargetsOfResults(failed), changes))
}

// retryFailed tries again at once what failed on a cluster.
func (s *Shard) retryFailed(ctx context.Context, cluster v2.ClusterKey) {
	failed := func(p appcontext.Pair) bool { return p.Attempt > 0 && pair.Deliverable(p) }
	targets := slices.DeleteFunc(s.pairs.On(cluster), func(t pair.Target) bool { return !slices.ContainsFunc(s.pairs.Of(t), failed) })
	s.retryNow(ctx, targets)
}

// retryNow makes targets due now, and queues them.
func (s *Shard) retryNow(ctx context.Context, targets []pair.Target) {
	if len(targets) == 0 {
		return
	}
	if err := s.pairs.MakeDue(ctx, targets); err != nil {
		s.Log.Warn("pairs not made due; they wait for their retry", "err", err, "targets", len(targets))
		return
	}
	s.Requeue(ctx, targets)
}

// usersOf returns the targets whose routes are read from one of the changed documents.
func (s *Shard) usersOf(ctx context.Context, targets []pair.Target, changes store.Changes) []pair.Target {
	if changes.All {
		return targets
	}
	clusters, objects, providers := clustersIn(changes.Keys), map[store.Key]bool{}, map[string]bool{}
	for _, k := range changes.Keys {
		if provider, ok := route.SyncObjectProvider(k); ok {
			objects[k], providers[provider] = true, true
		}
	}
	if len(clusters)+len(objects) == 0 {
		return nil
	}
	lookup := s.Routes.Lookup()
	reads := func(cluster v2.ClusterKey) bool {
		if clusters[cluster] || !providers[cluster.Provider()] {
			return clusters[cluster]
		}
		return slices.ContainsFunc(lookup.SyncObjects(ctx, cluster), func(k store.Key) bool { return objects[k] })
	}
	return slices.DeleteFunc(targets, func(t pair.Target) bool { return !reads(t.Cluster) })
}
