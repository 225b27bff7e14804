package appcontext

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// shortWatcher is a watcher whose watches end after one response.
type shortWatcher struct{ clientv3.Watcher }

func (w shortWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan clientv3.WatchResponse, 1)
	go func() {
		defer close(first)
		defer cancel()
		if r, ok := <-w.Watcher.Watch(ctx, key, opts...); ok {
			first <- r
		}
	}()
	return first
}

// newCutStore returns a store whose watches can be cut.
func newCutStore(t *testing.T) (*Store, *etcdtest.CutWatcher) {
	t.Helper()
	c, w := etcdtest.WithCutWatcher(t.Context(), etcd)
	return New(c, etcdtest.Prefix(t)), w
}

// compact drops etcd's whole history.
func compact(t testing.TB) {
	t.Helper()
	r, err := etcd.Get(t.Context(), "x")
	must(t, err)
	_, err = etcd.Compact(t.Context(), r.Header.Revision)
	if err != nil && !errs.Is(etcdkv.Classify("compact", "", err), errs.Internal) { // another test was faster
		t.Fatal(err)
	}
}

// started runs a sequence in a goroutine that the test waits for.
func started[T any](t *testing.T, seq func(ctx context.Context) func(yield func(T, error) bool)) <-chan T {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan T), make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range seq(ctx) {
			if err != nil {
				t.Error(err)
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); etcdtest.Receive(t, done, "the end of the watch") })
	return events
}

func watchHeads(t *testing.T, s *Store) <-chan HeadEvent {
	t.Helper()
	return started(t, func(ctx context.Context) func(func(HeadEvent, error) bool) { return s.WatchHeads(ctx) })
}

func TestWatchHeadsListsThenFollows(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	create(t, s, "1")
	create(t, s, "2")
	events := watchHeads(t, s)
	for _, uid := range []HeadID{"1", "2"} {
		if e := etcdtest.Receive(t, events, string(uid)); e.Head.UID != uid || e.Head.Mod == 0 || e.Synced || e.Deleted {
			t.Errorf("event %+v, want deployment %s", e, uid)
		}
	}
	if e := etcdtest.Receive(t, events, "synced"); !e.Synced {
		t.Errorf("event %+v, want synced", e)
	}
	h := create(t, s, "3")
	if e := etcdtest.Receive(t, events, "3"); e.Head.UID != "3" || e.Head.Mod != h.Mod {
		t.Errorf("event %+v, want deployment 3", e)
	}
	must(t, s.Delete(ctx, "1"))
	if e := etcdtest.Receive(t, events, "deletion"); e.Head.UID != "1" || !e.Deleted || e.Head.Mod <= h.Mod {
		t.Errorf("event %+v, want that 1 is deleted", e)
	}
}

func TestWatchHeadsSurvivesCompaction(t *testing.T) {
	t.Parallel()
	s, w := newCutStore(t)
	kept, changed := create(t, s, "kept"), create(t, s, "changed")
	create(t, s, "gone")
	events := watchHeads(t, s)
	for !etcdtest.Receive(t, events, "synced").Synced {
	}
	w.Lose(func() {
		_, err := s.ChangeHead(t.Context(), changed, Head{UID: "changed", State: Approved}, nil, nil)
		must(t, err)
		must(t, s.Delete(t.Context(), "gone"))
		create(t, s, "new")
		compact(t)
	})
	want := []string{"changed Approved false", "new Created false", "gone Created true"}
	for _, text := range want {
		e := etcdtest.Receive(t, events, text)
		if got := fmt.Sprint(e.Head.UID, " ", e.Head.State, " ", e.Deleted); got != text {
			t.Errorf("event %q, want %q", got, text)
		}
	}
	next, err := s.ChangeHead(t.Context(), kept, kept, nil, nil)
	must(t, err)
	if e := etcdtest.Receive(t, events, "kept"); e.Head.Mod != next.Mod {
		t.Errorf("event %+v, want %+v", e, next)
	}
}

// Changes, lost watches and compactions in any order: in the end the watcher knows what
// is there.
func TestWatchHeadsMissesNothing(t *testing.T) {
	t.Parallel()
	s, w := newCutStore(t)
	events := watchHeads(t, s)
	known := map[HeadID]int64{}
	var mu sync.Mutex
	arrived := make(chan struct{}, 1)
	done, ctx := make(chan struct{}), t.Context()
	stop, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for {
			select {
			case e := <-events:
				mu.Lock()
				switch {
				case e.Deleted:
					delete(known, e.Head.UID)
				case !e.Synced:
					known[e.Head.UID] = e.Head.Mod
				}
				mu.Unlock()
				select {
				case arrived <- struct{}{}:
				default:
				}
			case <-stop.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()

	r := rand.New(rand.NewPCG(1, 2))
	heads := map[HeadID]Head{}
	change := func() {
		uid := HeadID(fmt.Sprint("d", r.IntN(10)))
		if h, ok := heads[uid]; ok && r.IntN(3) == 0 {
			must(t, s.Delete(ctx, uid))
			delete(heads, uid)
		} else if next, err := s.ChangeHead(ctx, h, Head{UID: uid}, nil, nil); err != nil {
			t.Fatal(err)
		} else {
			heads[uid] = next
		}
	}
	for i := range 400 {
		change()
		if i%50 == 49 {
			w.Lose(func() {
				for range r.IntN(20) {
					change()
				}
				if i%100 == 99 {
					compact(t)
				}
			})
		}
	}
	want := map[HeadID]int64{}
	for uid, h := range heads {
		want[uid] = h.Mod
	}
	agrees := func() bool { mu.Lock(); defer mu.Unlock(); return maps.Equal(known, want) }
	for !agrees() {
		etcdtest.Receive(t, arrived, fmt.Sprintf("the last of %v", want))
	}
}

// The watch must yield changes of heads that are listed already while the rest is being listed,
// even if history is dropped in between.
func TestWatchHeadsMissesNothingWhileItLists(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 200 {
		create(t, s, HeadID(fmt.Sprintf("d%03d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, told := Head{}, false
	for e, err := range s.WatchHeads(ctx) {
		must(t, err)
		if changed.Mod == 0 {
			changed, err = s.ChangeHead(ctx, e.Head, e.Head, nil, nil)
			must(t, err)
			compact(t)
		} else if told = e.Head.Mod == changed.Mod; told {
			break
		}
	}
	if !told {
		t.Errorf("the change of %s was never yielded", changed.UID)
	}
}

// A watch that lags gets what it missed in pieces of at most 1,000 revisions, and each piece
// claims to end at the present. Losing the connection between two pieces must not lose the
// second.
func TestWatchHeadsMissesNothingWhenItLags(t *testing.T) {
	t.Parallel()
	c := clientv3.NewCtxClient(context.WithoutCancel(t.Context()))
	c.KV, c.Watcher = etcd.KV, shortWatcher{etcd.Watcher}
	s, seen := New(c, etcdtest.Prefix(t)), map[HeadID]bool{}
	const n, later = 1500, "later"
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	for e, err := range s.WatchHeads(ctx) {
		must(t, err)
		if e.Synced { // the watch begins after this iteration
			for i := range n {
				create(t, s, HeadID(fmt.Sprint("d", i)))
			}
			h := create(t, s, later)
			wg.Go(func() { // a watch that has lost something arrives here all the same
				for ctx.Err() == nil {
					if next, err := s.ChangeHead(ctx, h, h, nil, nil); err == nil {
						h = next
					}
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
			continue
		}
		if e.Head.UID == later { // all others are older
			break
		}
		seen[e.Head.UID] = true
	}
	if len(seen) != n {
		t.Errorf("%d deployments were seen before a later one, want %d", len(seen), n)
	}
}

func TestWatchHeadsToldOfOneThatCannotBeReadGoesOn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := etcd.Put(t.Context(), headKey(s.kv, "1"), `{`)
	must(t, err)
	create(t, s, "2")
	var got []string
	for e, err := range s.WatchHeads(t.Context()) {
		got = append(got, fmt.Sprint(e.Head.UID, " ", e.Synced, " ", errs.Is(err, errs.Internal)))
		if e.Synced {
			break
		}
	}
	if want := []string{"1 false true", "2 false false", " true false"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestWatchOperationsListsThenFollows(t *testing.T) {
	t.Parallel()
	s, w := newCutStore(t)
	h := create(t, s, "1")
	h, err := s.ChangeHead(t.Context(), h, h, nil, &Operation{ID: "a", Kind: "instantiate"})
	must(t, err)
	ops := started(t, func(ctx context.Context) func(func(Operation, error) bool) { return s.WatchOperations(ctx) })
	if op := etcdtest.Receive(t, ops, "a"); op.ID != "a" || op.UID != "1" || op.Kind != "instantiate" {
		t.Errorf("operation %+v, want a", op)
	}
	h, err = s.ChangeHead(t.Context(), h, h, nil, &Operation{ID: "b"})
	must(t, err)
	if op := etcdtest.Receive(t, ops, "b"); op.ID != "b" {
		t.Errorf("operation %+v, want b", op)
	}
	w.Lose(func() {
		_, err = s.ChangeHead(t.Context(), h, h, nil, &Operation{ID: "c"})
		must(t, err)
		compact(t)
	})
	if op := etcdtest.Receive(t, ops, "c"); op.ID != "c" {
		t.Errorf("operation %+v, want c", op)
	}
}

func TestListsSurviveCompaction(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var put []Pair
	for i := range 200 {
		put = append(put, Pair{Key: pairKeyOf(i)})
	}
	must(t, s.PutPairs(t.Context(), Fence{}, put, nil))
	seen := 0
	for p, err := range s.Pairs(t.Context()) {
		must(t, err)
		if p.Key != put[seen].Key {
			t.Fatalf("pair %d is %v, want %v", seen, p.Key, put[seen].Key)
		}
		if seen++; seen == 1 {
			must(t, s.PutPairs(t.Context(), Fence{}, put[:1], nil))
			compact(t)
		}
	}
	if seen != 200 {
		t.Errorf("%d pairs, want 200", seen)
	}
}

func TestReadyAndDeadlines(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	must(t, s.Ready(t.Context()))
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := s.Head(ctx, "1")
	_, swept := s.Sweep(ctx, 1)
	for _, err := range []error{s.Ready(ctx), s.PutPairs(ctx, Fence{}, []Pair{{Key: pairKeyOf(1)}}, nil), s.Delete(ctx, "1"), swept, err} {
		wantKind(t, err, errs.Unavailable)
	}
	for range s.WatchHeads(ctx) {
		t.Error("a watch without time yields something")
	}
}

// Many watches that end at the same time, as they do when a program ends, do not hold each other up.
func TestWatchesThatEndAtOnce(t *testing.T) {
	kv := newStore(t).kv
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		var begun, ended sync.WaitGroup
		for i := range 64 {
			begun.Add(1)
			ended.Go(func() {
				for c := range kv.Watch(ctx, kv.Key(fmt.Sprint("watched-", i))) {
					if c.Synced {
						begun.Done()
					}
				}
			})
		}
		begun.Wait()
		all := make(chan struct{})
		go func() { ended.Wait(); close(all) }()
		cancel()
		etcdtest.Receive(t, all, "the end of all watches")
	}
}
