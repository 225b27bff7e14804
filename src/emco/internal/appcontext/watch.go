package appcontext

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// HeadEvent says that a deployment is there, was changed, or is gone.
type HeadEvent struct {
	Head    Head // only UID and Mod if Deleted; nothing if Synced
	Deleted bool
	Synced  bool // comes once, after every head that was there at the start
}

// WatchHeads yields every head, then an event that is Synced, then changes, each at
// least once and in order for each deployment; a change may be skipped only if a later
// one of the same deployment follows. It ends only when ctx ends: lost connections and
// compactions are made good by listing again. An error stands for one head that cannot
// be read (UID and Mod are set); the iteration goes on.
func (s *Store) WatchHeads(ctx context.Context) iter.Seq2[HeadEvent, error] {
	return func(yield func(HeadEvent, error) bool) {
		for c := range s.follow(ctx, s.key("head")+"/") {
			var err error
			e := HeadEvent{Synced: c.synced, Deleted: c.deleted}
			switch {
			case c.deleted:
				e.Head = Head{UID: s.split(c.kv.Key)[1], Mod: c.kv.ModRevision}
			case !c.synced:
				e.Head, err = s.parseHead(c.kv)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// WatchOperations yields the operations that wait, then new and replaced ones, each at
// least once. It ends only when ctx ends. An error stands for one operation that cannot
// be read (UID and ID are set); the iteration goes on.
func (s *Store) WatchOperations(ctx context.Context) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		for c := range s.follow(ctx, s.key("op")+"/") {
			if c.synced || c.deleted {
				continue
			}
			if !yield(s.parseOperation(c.kv)) {
				return
			}
		}
	}
}

// change is one thing that happened in a key space.
type change struct {
	kv      *mvccpb.KeyValue // nil if one of the last three is set
	deleted bool
	synced  bool
	begin   bool  // forget all: what there is will be told anew
	mark    int64 // all up to this revision of etcd has been told
}

// span is a range of keys that is followed.
type span struct {
	from, end string // end is not in it

	// whole makes each list begin with a change that says so, instead of telling what
	// differs from what was told before, and adds marks.
	whole bool
}

// follower keeps a span of keys in view.
//
//	list ──► synced ──► watch ──► compacted: list again, tell the difference
//	                      └─────► lost: watch again from the next revision
type follower struct {
	span
	s      *Store
	yield  func(change) bool
	known  map[string]int64 // key -> revision that was told last; unused if whole
	next   int64            // revision to watch from; 0: list first
	listed int64            // revision of the newest page of the last list
	synced bool
}

var errStopped = errors.New("the consumer has stopped")

// follow yields what is below prefix, and what happens there, until ctx ends.
func (s *Store) follow(ctx context.Context, prefix string) iter.Seq[change] {
	return s.followSpan(ctx, span{from: prefix, end: clientv3.GetPrefixRangeEnd(prefix)})
}

func (s *Store) followSpan(ctx context.Context, keys span) iter.Seq[change] {
	return func(yield func(change) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := &follower{span: keys, s: s, yield: yield, known: map[string]int64{}}
		for wait := minWait; ; wait = min(2*wait, maxWait) {
			before := f.next
			err := f.run(ctx)
			if errors.Is(err, errStopped) || ctx.Err() != nil {
				return
			}
			s.log.Warn("watch was interrupted", "from", keys.from, "err", err)
			if f.next > before {
				wait = minWait
			}
			if errors.Is(err, rpctypes.ErrCompacted) {
				f.next = 0
			}
			pause(ctx, wait)
		}
	}
}

// The bounds of the wait before a lost watch is taken up again.
const (
	minWait = 50 * time.Millisecond
	maxWait = 5 * time.Second
)

// pause waits between half of d and d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// run lists, if need be, and watches until that fails.
func (f *follower) run(ctx context.Context) error {
	if f.next == 0 {
		if err := f.list(ctx); err != nil {
			return err
		}
	}
	return f.watch(ctx)
}

// list tells all that is there and is not known, and what is known and not there.
func (f *follower) list(ctx context.Context) error {
	sc := &scan{prefix: f.from, end: f.end}
	seen := map[string]bool{}
	if err := f.tell(change{begin: true}); err != nil {
		return err
	}
	for kv, err := range f.s.list(ctx, sc) {
		if err != nil {
			return err
		}
		if !f.whole {
			seen[string(kv.Key)] = true
			if f.known[string(kv.Key)] == kv.ModRevision {
				continue
			}
		}
		if err := f.tell(change{kv: kv}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.known)) {
		if seen[key] {
			continue
		}
		gone := &mvccpb.KeyValue{Key: []byte(key), ModRevision: sc.first}
		if err := f.tell(change{kv: gone, deleted: true}); err != nil {
			return err
		}
	}
	f.next, f.listed = sc.first+1, sc.rev
	if err := f.tell(change{mark: sc.first}); err != nil || f.synced {
		return err
	}
	f.synced = true
	return f.tell(change{synced: true})
}

// tell hands a change on. Beginnings and marks are for those who take lists as a whole;
// a mark is no news while parts of a list are newer than it.
func (f *follower) tell(c change) error {
	switch {
	case c.begin && !f.whole, c.mark > 0 && (!f.whole || c.mark < f.listed):
		return nil
	case c.kv == nil || f.whole:
	case c.deleted:
		delete(f.known, string(c.kv.Key))
	default:
		f.known[string(c.kv.Key)] = c.kv.ModRevision
	}
	if !f.yield(c) {
		return errStopped
	}
	return nil
}

func (f *follower) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range f.s.c.Watch(ctx, f.from, clientv3.WithRange(f.end), clientv3.WithRev(f.next)) {
		if err := r.Err(); err != nil {
			return err
		}
		bytes, upTo := 0, int64(0)
		for _, e := range r.Events {
			bytes += len(e.Kv.Key) + len(e.Kv.Value)
			if err := f.tell(change{kv: e.Kv, deleted: e.Type == mvccpb.Event_DELETE}); err != nil {
				return err
			}
			upTo = e.Kv.ModRevision
		}
		f.s.onOp("watch", bytes)
		// The header may be ahead of the events when a watch is catching up.
		if r.IsProgressNotify() {
			upTo = r.Header.Revision
		}
		if upTo == 0 {
			continue
		}
		f.next = upTo + 1
		if err := f.tell(change{mark: upTo}); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}
