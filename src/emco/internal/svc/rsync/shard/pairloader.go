package shard

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
)

// PairLoader reads all pairs once for the shards of a process that start at about the same
// time.
type PairLoader struct {
	contents func(ctx context.Context) (map[string]*pairstore.Contents, error)
	shards   func(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error)
	reading  chan struct{} // holds a token while a read is in progress

	mu   sync.Mutex
	next *pairRead // has not begun; guarded by mu
}

// pairRead is one read of all pairs. Its result is set before done is closed.
type pairRead struct {
	shards  int // that wait for it; guarded by PairLoader.mu
	done    chan struct{}
	byShard map[string]*pairstore.Contents
	err     error
}

// A read waits for shards that start at about the same time: until none has come for gatherTime, at most maxGather.
const (
	gatherTime = 50 * time.Millisecond
	maxGather  = time.Second
)

// NewPairLoader returns a loader of the pairs of an AppContext.
func NewPairLoader(contexts *appcontext.Store, routes *route.Resolver) *PairLoader {
	return &PairLoader{contents: contexts.PairStore.Contents, shards: routes.Shards, reading: make(chan struct{}, 1)}
}

// load returns the pairs of a shard. They are read after the call begins, so they include
// all that the shard's last owner has written.
func (l *PairLoader) load(ctx context.Context, shard string) (*pairstore.Contents, error) {
	for {
		r, own := l.join()
		if own {
			l.read(ctx, r)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, errs.E(errs.Unavailable, "read", "pairs", ctx.Err())
		}
		if r.err == nil || own {
			if stored := r.byShard[shard]; stored != nil || r.err != nil {
				return stored, r.err
			}
			return pairstore.NewContents(shard), nil
		} // else the shard that read may have been stopped
	}
}

// join returns the read that begins next, and whether the caller must do it.
func (l *PairLoader) join() (r *pairRead, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next, own = &pairRead{done: make(chan struct{})}, true
	}
	l.next.shards++
	return l.next, own
}

// gather waits for the shards that start together.
func (l *PairLoader) gather(ctx context.Context, r *pairRead) {
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return r.shards
	}
	for begun, n := time.Now(), 0; waiting() > n && time.Since(begun) < maxGather && ctx.Err() == nil; {
		n = waiting()
		_ = pause.For(ctx, gatherTime)
	}
}

// read does a read when none is in progress.
func (l *PairLoader) read(ctx context.Context, r *pairRead) {
	defer close(r.done)
	l.gather(ctx, r)
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.next = nil // a shard that starts from here on needs a later read
	l.mu.Unlock()
	if ctx.Err() != nil {
		r.err = errs.E(errs.Unavailable, "read", "pairs", ctx.Err())
		return
	}
	r.byShard, r.err = l.readAll(ctx)
}

// readAll reads all pairs by shard. A pair that names no shard belongs to the one that its
// cluster's route names.
func (l *PairLoader) readAll(ctx context.Context) (map[string]*pairstore.Contents, error) {
	out, err := l.contents(ctx)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for n := range route.Group.Shards {
		named[route.Group.Shard(n)] = true
	}
	var unnamed []appcontext.Pair
	var reports []appcontext.PairKey // the same for all shards
	for name, c := range out {
		reports = c.Reports
		if !named[name] {
			unnamed = append(unnamed, c.Records...)
			delete(out, name)
		}
	}
	clusters := map[v2.ClusterKey]bool{}
	for _, p := range unnamed {
		clusters[p.Key.Cluster] = true
	}
	shards, err := l.shards(ctx, slices.Collect(maps.Keys(clusters)))
	if err != nil {
		return nil, err
	}
	for _, p := range unnamed {
		name := route.Group.Shard(shards[p.Key.Cluster])
		if out[name] == nil {
			out[name] = pairstore.NewContents(name)
			out[name].Reports = reports
		}
		out[name].Records = append(out[name].Records, p)
	}
	return out, nil
}
