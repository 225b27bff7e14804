package etcdkv

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Change is one thing that happened in a range of keys. KV is set, or one of the last
// three.
type Change struct {
	KV      *mvccpb.KeyValue // key and revision alone if Deleted
	Deleted bool
	Synced  bool  // comes once, after all that was there at the start
	Restart bool  // forget everything: all records follow again
	UpTo    int64 // all changes up to this revision of etcd have been yielded
}

// Watch yields what is below a prefix, then a change that is Synced, then changes, until
// ctx ends. A change may be skipped only if a later one of the same key follows. After a
// lost connection it continues; after a compaction it lists again and yields differences.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq[Change] {
	return c.watch(ctx, watcher{from: prefix, end: clientv3.GetPrefixRangeEnd(prefix)})
}

// WatchRange yields what is in a range of keys, and then every change in write order.
// Each list begins with a Restart; UpTo comes after each list and after each revision.
func (c *Client) WatchRange(ctx context.Context, from, end string) iter.Seq[Change] {
	return c.watch(ctx, watcher{from: from, end: end, ordered: true})
}

// streamKey is the metadata that names the stream of a watch.
const streamKey = "emco-watch"

// OwnStream returns a context whose watches, and requests for progress, use the stream of a name: etcd answers a request for
// progress only when all watches of its stream are up to date.
func OwnStream(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, streamKey, name)
}

// Stream is etcd's own Watch of keys, which ends when the member that serves it has no leader. Unless ctx is one of OwnStream,
// it has a stream to etcd that no other watch has. etcd's client sends the watches with equal metadata over one stream, and
// an etcd in the same process blocks that stream for good when many watches begin and end at once: each side waits until
// the other one takes an answer.
func (c *Client) Stream(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	if sent, _ := metadata.FromOutgoingContext(ctx); len(sent.Get(streamKey)) == 0 {
		ctx = OwnStream(ctx, rand.Text())
	}
	return c.etcd.Watch(clientv3.WithRequireLeader(ctx), key, options...)
}

// watcher is one iteration of Watch or WatchRange; only its goroutine uses it.
//
//	list ──► Synced ──► watch ──► compacted: list again, yield the difference
//	                      └─────► lost: watch again from the next revision
type watcher struct {
	c         *Client
	from, end string // end is exclusive
	ordered   bool   // yield lists whole, after a Restart, and UpTo
	yield     func(Change) bool
	known     map[string]int64 // key -> revision that was yielded last; unused if ordered
	next      int64            // revision to watch from; 0: list first
	listed    int64            // revision of the newest page of the last list
	synced    bool
}

var errStopped = errors.New("the consumer has stopped")

// The bounds of the wait before an interrupted watch goes on.
const (
	minWait = 50 * time.Millisecond
	maxWait = 5 * time.Second
)

func (c *Client) watch(ctx context.Context, w watcher) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := w
		w.c, w.yield, w.known = c, yield, map[string]int64{}
		for wait := minWait; ; wait = min(2*wait, maxWait) {
			before := w.next
			err := w.run(ctx)
			if errors.Is(err, errStopped) || ctx.Err() != nil {
				return
			}
			c.o.Log.Warn("a watch of etcd was interrupted", "from", w.from, "err", err)
			if w.next > before {
				wait = minWait
			}
			if errors.Is(err, rpctypes.ErrCompacted) {
				w.next = 0
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait/2 + mathrand.N(wait/2+1)):
			}
		}
	}
}

// run lists, if that is needed, and watches until that fails.
func (w *watcher) run(ctx context.Context) error {
	if w.next == 0 {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	return w.follow(ctx)
}

// list yields all that is there and not known, and what is known and no longer there.
func (w *watcher) list(ctx context.Context) error {
	p := &pager{from: w.from, end: w.end}
	seen := map[string]bool{}
	if err := w.emit(Change{Restart: true}); err != nil {
		return err
	}
	for kv, err := range w.c.list(ctx, p) {
		if err != nil {
			return err
		}
		if !w.ordered {
			seen[string(kv.Key)] = true
			if w.known[string(kv.Key)] == kv.ModRevision {
				continue
			}
		}
		if err := w.emit(Change{KV: kv}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		if seen[key] {
			continue
		}
		gone := &mvccpb.KeyValue{Key: []byte(key), ModRevision: p.first}
		if err := w.emit(Change{KV: gone, Deleted: true}); err != nil {
			return err
		}
	}
	w.next, w.listed = p.first+1, p.rev
	if err := w.emit(Change{UpTo: p.first}); err != nil || w.synced {
		return err
	}
	w.synced = true
	return w.emit(Change{Synced: true})
}

// emit yields a change. Restart and UpTo are for ordered watches; UpTo is left out while
// parts of the list are newer than it.
func (w *watcher) emit(c Change) error {
	switch {
	case c.Restart && !w.ordered, c.UpTo > 0 && (!w.ordered || c.UpTo < w.listed):
		return nil
	case c.KV == nil || w.ordered:
	case c.Deleted:
		delete(w.known, string(c.KV.Key))
	default:
		w.known[string(c.KV.Key)] = c.KV.ModRevision
	}
	if !w.yield(c) {
		return errStopped
	}
	return nil
}

func (w *watcher) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range w.c.Stream(ctx, w.from, clientv3.WithRange(w.end), clientv3.WithRev(w.next)) {
		if err := r.Err(); err != nil {
			return err
		}
		bytes, upTo := 0, int64(0)
		for _, e := range r.Events {
			bytes += len(e.Kv.Key) + len(e.Kv.Value)
			if err := w.emit(Change{KV: e.Kv, Deleted: e.Type == mvccpb.Event_DELETE}); err != nil {
				return err
			}
			upTo = e.Kv.ModRevision
		}
		w.c.o.OnRequest("watch", bytes)
		// The header may be ahead of the events while a watch catches up.
		if r.IsProgressNotify() {
			upTo = r.Header.Revision
		}
		if upTo == 0 {
			continue
		}
		w.next = upTo + 1
		if err := w.emit(Change{UpTo: upTo}); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}
