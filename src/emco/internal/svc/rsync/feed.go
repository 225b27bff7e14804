package rsync

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// headStore is where heads are watched.
type headStore interface {
	WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error]
}

// feed follows the heads once for all shards of a process. It keeps the newest of each,
// so a shard that is slow, or begins late, misses none.
type feed struct {
	log *slog.Logger

	mu      sync.Mutex
	heads   map[string]appcontext.Head
	synced  bool
	inboxes map[*inbox]bool
}

// inbox holds which heads a shard has to look at.
type inbox struct {
	dirty map[string]bool // by uid
	wake  chan struct{}
}

func newFeed(log *slog.Logger) *feed {
	return &feed{log: log, heads: map[string]appcontext.Head{}, inboxes: map[*inbox]bool{}}
}

// run follows the heads until ctx ends.
func (f *feed) run(ctx context.Context, store headStore) {
	for e, err := range store.WatchHeads(ctx) {
		if err != nil {
			f.log.Error("head cannot be read", "deployment", e.Head.UID, "err", err)
			continue
		}
		f.take(e)
	}
}

func (f *feed) take(e appcontext.HeadEvent) {
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
		in.poke()
	}
}

func (in *inbox) poke() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// again has all shards look at a head again.
func (f *feed) again(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for in := range f.inboxes {
		in.dirty[uid] = true
		in.poke()
	}
}

// about returns the uids of the heads that a deployment belongs, or belonged, to.
func (f *feed) about(deployment string) (uids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, h := range f.heads {
		if h.Deployment() == deployment {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Head returns the newest head that is known, or NotFound.
func (f *feed) Head(_ context.Context, uid string) (appcontext.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, known := f.heads[uid]
	if !known {
		return h, errs.New(errs.NotFound, "no deployment "+uid)
	}
	return h, nil
}

// WatchHeads yields every head, then an event that is Synced, then changes, as the store
// does: of several changes of a head the last one. It ends only when ctx ends, and
// yields no errors.
func (f *feed) WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error] {
	return func(yield func(appcontext.HeadEvent, error) bool) {
		in := f.open()
		defer f.close(in)
		for told := false; ctx.Err() == nil; {
			events, all := f.empty(in)
			for _, e := range events {
				if ctx.Err() != nil || !yield(e, nil) {
					return
				}
			}
			if all && !told {
				told = true
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

// open makes an inbox in which all heads are that are known.
func (f *feed) open() *inbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := &inbox{dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
	for uid := range f.heads {
		in.dirty[uid] = true
	}
	f.inboxes[in] = true
	return in
}

func (f *feed) close(in *inbox) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inboxes, in)
}

// empty takes out what is in an inbox, in order of uid, and says whether that completes
// what there was at the start.
func (f *feed) empty(in *inbox) (events []appcontext.HeadEvent, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(in.dirty)) {
		h, known := f.heads[uid]
		h.UID = uid
		events = append(events, appcontext.HeadEvent{Head: h, Deleted: !known})
	}
	clear(in.dirty)
	return events, f.synced
}
