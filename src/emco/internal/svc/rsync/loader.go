package rsync

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// loader reads all pairs for the shards of a process that begin at about the same time.
type loader struct {
	pairs  func(ctx context.Context) iter.Seq2[appcontext.Pair, error]
	shards func(ctx context.Context, clusters []string) (map[string]int, error)
	turn   chan struct{} // held by the one who reads

	mu   sync.Mutex
	next *reading // that has not begun
}

// reading is all pairs, by shard.
type reading struct {
	done chan struct{} // closed when it is over
	by   map[string][]appcontext.Pair
	err  error
}

func newLoader(contexts *appcontext.Store, g *route.Resolver) *loader {
	return &loader{pairs: contexts.Pairs, shards: g.Shards, turn: make(chan struct{}, 1)}
}

// load returns the pairs of a shard. They were read after the call began, so whatever
// the shard's last owner has written is among them.
func (l *loader) load(ctx context.Context, shard string) ([]appcontext.Pair, error) {
	for {
		r, mine := l.join()
		if mine {
			l.read(ctx, r)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, errs.E(errs.Unavailable, "read", "pairs", ctx.Err())
		}
		if r.err == nil || mine {
			return r.by[shard], r.err
		} // else whoever read may have been stopped
	}
}

// join returns the reading that begins next, and whether the caller has to do it.
func (l *loader) join() (r *reading, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next, mine = &reading{done: make(chan struct{})}, true
	}
	return l.next, mine
}

// together is how long a reading waits for shards that begin at the same time.
const together = 50 * time.Millisecond

// read reads when nobody else does.
func (l *loader) read(ctx context.Context, r *reading) {
	defer close(r.done)
	queue.Pause(ctx, together)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.next = nil // whoever comes now needs a later one
	l.mu.Unlock()
	if ctx.Err() != nil {
		r.err = errs.E(errs.Unavailable, "read", "pairs", ctx.Err())
		return
	}
	r.by, r.err = l.sort(ctx)
}

// sort reads all pairs and parts them by shard. One that names none is where its cluster
// is now.
func (l *loader) sort(ctx context.Context) (map[string][]appcontext.Pair, error) {
	by, strays := map[string][]appcontext.Pair{}, []appcontext.Pair(nil)
	known := shardNames()
	for p, err := range l.pairs(ctx) {
		if err != nil {
			return nil, err
		}
		if known[p.Shard] {
			by[p.Shard] = append(by[p.Shard], p)
		} else {
			strays = append(strays, p)
		}
	}
	shards, err := l.shards(ctx, clustersOf(strays))
	if err != nil {
		return nil, err
	}
	for _, p := range strays {
		name := route.Group.Shard(shards[p.Key.Cluster])
		by[name] = append(by[name], p)
	}
	return by, nil
}

// clustersOf returns the clusters of pairs, each once.
func clustersOf(pairs []appcontext.Pair) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range pairs {
		if !seen[p.Key.Cluster] {
			seen[p.Key.Cluster] = true
			out = append(out, p.Key.Cluster)
		}
	}
	return out
}

func shardNames() map[string]bool {
	names := make(map[string]bool, route.Group.Shards)
	for n := range route.Group.Shards {
		names[route.Group.Shard(n)] = true
	}
	return names
}
