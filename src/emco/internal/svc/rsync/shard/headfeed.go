package shard

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// headWatcher is where heads are watched.
type headWatcher interface {
	WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error]
}

// HeadFeed watches the heads in etcd once for all shards of a process. It keeps the newest
// state of each, so a shard that is slow, or starts late, misses none.
type HeadFeed struct {
	log *slog.Logger

	mu      sync.Mutex                            // guards the fields below
	heads   map[appcontext.HeadID]appcontext.Head // by id
	synced  bool                                  // all heads of the start are known
	inboxes map[*inbox]bool
}

// inbox holds the heads that a shard must look at. The feed's mu guards dirty.
type inbox struct {
	dirty map[appcontext.HeadID]bool // ids of heads
	wake  chan struct{}              // holds a token when dirty, or synced, has changed
}

// NewHeadFeed returns a feed that is empty until Run.
func NewHeadFeed(log *slog.Logger) *HeadFeed {
	return &HeadFeed{log: log, heads: map[appcontext.HeadID]appcontext.Head{}, inboxes: map[*inbox]bool{}}
}

// Run watches heads until ctx ends.
func (f *HeadFeed) Run(ctx context.Context, store headWatcher) {
	for e, err := range store.WatchHeads(ctx) {
		if err != nil {
			f.log.Error("head not readable", "deployment", e.Head.UID, "err", err)
			continue
		}
		f.handle(e)
	}
}

func (f *HeadFeed) handle(e appcontext.HeadEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.Synced:
		f.synced = true
	case e.Deleted:
		delete(f.heads, e.Head.UID)
	default:
		f.heads[e.Head.UID] = e.Head
	}
	for in := range f.inboxes {
		if !e.Synced {
			in.dirty[e.Head.UID] = true
		}
		in.signal()
	}
}

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// Recheck has all shards look at a head again.
func (f *HeadFeed) Recheck(id appcontext.HeadID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for in := range f.inboxes {
		in.dirty[id] = true
		in.signal()
	}
}

// HeadsOf returns the heads that a deployment belongs to, or belonged to.
func (f *HeadFeed) HeadsOf(deployment v2.DeploymentID) (ids []appcontext.HeadID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, h := range f.heads {
		if h.Deployment() == deployment {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Head returns the newest known state of a head, or NotFound.
func (f *HeadFeed) Head(_ context.Context, id appcontext.HeadID) (appcontext.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, known := f.heads[id]
	if !known {
		return h, errs.New(errs.NotFound, "no deployment "+string(id))
	}
	return h, nil
}

// WatchHeads yields every head, then an event that is Synced, then changes, as the store
// does; of several changes of a head it yields the last one. It yields no errors and ends
// only when ctx ends.
func (f *HeadFeed) WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error] {
	return func(yield func(appcontext.HeadEvent, error) bool) {
		in := f.subscribe()
		defer f.unsubscribe(in)
		for synced := false; ctx.Err() == nil; {
			events, all := f.drain(in)
			for _, e := range events {
				if ctx.Err() != nil || !yield(e, nil) {
					return
				}
			}
			if all && !synced {
				synced = true
				if !yield(appcontext.HeadEvent{Synced: true}, nil) {
					return
				}
			}
			select {
			case <-in.wake:
			case <-ctx.Done():
			}
		}
	}
}

// subscribe returns an inbox with all known heads.
func (f *HeadFeed) subscribe() *inbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := &inbox{dirty: map[appcontext.HeadID]bool{}, wake: make(chan struct{}, 1)}
	for id := range f.heads {
		in.dirty[id] = true
	}
	f.inboxes[in] = true
	return in
}

func (f *HeadFeed) unsubscribe(in *inbox) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inboxes, in)
}

// drain empties an inbox, in order of id. It also reports whether all heads of the start
// are known.
func (f *HeadFeed) drain(in *inbox) (events []appcontext.HeadEvent, synced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(in.dirty)) {
		h, known := f.heads[id]
		h.UID = id
		events = append(events, appcontext.HeadEvent{Head: h, Deleted: !known})
	}
	clear(in.dirty)
	return events, f.synced
}
