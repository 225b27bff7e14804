package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/etcd"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// requests is a driver each of whose calls is a request with a read point of its own.
type requests struct{ *etcd.Driver }

func (r requests) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	return r.Driver.Get(readpoint.With(ctx), k)
}

func (r requests) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return r.Driver.List(readpoint.With(ctx), under, q)
}

func (r requests) GetEach(ctx context.Context, keys []store.Key) iter.Seq2[store.Doc, error] {
	return r.Driver.GetEach(readpoint.With(ctx), keys)
}

func (r requests) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	return r.Driver.Changes(readpoint.With(ctx), mark)
}

// The contract holds for reads from the cache: for requests of one call each, and for one request that makes all of them, also if
// the cache holds next to nothing.
func TestTheContractHoldsWithReadPoints(t *testing.T) {
	t.Parallel()
	for _, size := range []int{8 << 20, 4 << 10} {
		client := start(t)
		driver := func() *etcd.Driver {
			d := etcd.NewSmall(etcdkv.New(client, prefix, etcdkv.Options{}), size)
			d.AwaitWatch(t.Context())
			return d
		}
		if err := storetest.Check(t.Context(), func() (store.Driver, error) { return requests{driver()}, nil }); err != nil {
			t.Errorf("a request for each call, %d bytes: %v", size, err)
		}
		client = start(t)
		if err := storetest.Check(readpoint.With(t.Context()), func() (store.Driver, error) { return driver(), nil }); err != nil {
			t.Errorf("one request, %d bytes: %v", size, err)
		}
	}
}

// What a request reads a second time, or another request has read before, costs one round trip in all. A write by another process counts.
func TestReadsOfARequestShareARoundTrip(t *testing.T) {
	t.Parallel()
	client := start(t)
	other := open(t, client)
	for i := range 20 {
		put(t, other, store.Doc{Key: store.Key(fmt.Sprint("apps/a", i)), Tag: 1, Body: []byte("old")}, 0)
	}
	d, want := counted(t, client)
	read := func(body string, n int) func() {
		return func() {
			ctx := readpoint.With(t.Context())
			for range 2 {
				for i := range 20 {
					if doc, err := d.Get(ctx, store.Key(fmt.Sprint("apps/a", i))); err != nil || i == 7 && string(doc.Body) != body {
						t.Errorf("document %d is %q, %v, want %q", i, doc.Body, err, body)
					}
				}
				if _, err := d.Get(ctx, "apps/none"); !errs.Is(err, errs.NotFound) {
					t.Errorf("a document that does not exist: %v", err)
				}
				found := 0
				for doc, err := range d.List(ctx, "apps", store.Query{Depth: 1}) {
					if found++; err != nil || doc.Key == "apps/a7" && string(doc.Body) != body {
						t.Errorf("the list has %s with %q, %v, want %q", doc.Key, doc.Body, err, body)
					}
				}
				if got, err := d.Changes(ctx, 0); err != nil || found != n || got.Mark == 0 {
					t.Errorf("the list has %d documents, the mark is %d, %v, want %d", found, got.Mark, err, n)
				}
			}
		}
	}
	want("the first request", read("old", 20), 22, 0)
	want("the second request", read("old", 20), 1, 0)
	put(t, other, store.Doc{Key: "apps/a7", Tag: 2, Body: []byte("new")}, 1)
	want("a request after a change", read("new", 20), 2, 0) // the list is read again
	put(t, other, store.Doc{Key: "apps/none/child", Tag: 1}, 0)
	want("a request after a change elsewhere", read("new", 20), 1, 0)
	put(t, d, store.Doc{Key: "apps/b", Tag: 1}, 0)
	want("a request after a new document", read("new", 21), 2, 0)
}

// Requests at the same moment share the question for the last write, and none takes an answer from before it asked.
func TestQuestionsAtTheSameMomentAreOne(t *testing.T) {
	t.Parallel()
	client := start(t)
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	client.KV = slowKV{client.KV, func(key string) {
		if strings.HasSuffix(key, "doc/last") {
			held <- struct{}{}
			<-hold
		}
	}}
	asked := 0 // by send, one at a time
	d := etcd.New(etcdkv.New(client, prefix, etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "get" {
			asked++
		}
	}}))
	t.Cleanup(func() { _ = d.Close() })
	<-held // the watch begins
	var g errgroup.Group
	ask := func(ctx context.Context) { g.Go(func() error { _, err := d.Changes(ctx, 0); return err }) }
	hold <- struct{}{}
	d.AwaitWatch(t.Context())
	ask(t.Context())
	<-held // the first question is under way
	var waiting sync.WaitGroup
	for range 50 {
		waiting.Add(1)
		ask(waitingContext{t.Context(), sync.OnceFunc(waiting.Done)})
	}
	waiting.Wait() // they share the next question
	go func() {
		for {
			select {
			case hold <- struct{}{}:
			case <-held:
			case <-t.Context().Done():
				return
			}
		}
	}()
	if err := g.Wait(); err != nil || asked != 3 { // the watch, and two questions
		t.Errorf("51 questions took %d requests, %v", asked-1, err)
	}
}

// waitingContext calls waits when somebody begins to wait for its end.
type waitingContext struct {
	context.Context
	waits func()
}

func (c waitingContext) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// slowKV calls a function before each read.
type slowKV struct {
	clientv3.KV
	before func(key string)
}

func (s slowKV) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	s.before(key)
	return s.KV.Get(ctx, key, o...)
}

// The cache keeps what was used last, within its size, and nothing that is large.
func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	client := start(t)
	d := etcd.NewSmall(etcdkv.New(client, prefix, etcdkv.Options{}), 256<<10)
	t.Cleanup(func() { _ = d.Close() })
	d.AwaitWatch(t.Context())
	ctx := readpoint.With(t.Context())
	get := func(k store.Key) {
		t.Helper()
		if _, err := d.Get(ctx, k); err != nil {
			t.Error(err)
		}
	}
	put(t, d, store.Doc{Key: "large", Tag: 1, Body: make([]byte, 100<<10)}, 0)
	put(t, d, store.Doc{Key: "used", Tag: 1}, 0)
	put(t, d, store.Doc{Key: "unused", Tag: 1}, 0)
	for i := range 200 {
		put(t, d, store.Doc{Key: store.Key(fmt.Sprint("many/", i)), Tag: 1, Body: bytes.Repeat([]byte("x"), 2<<10)}, 0)
		if i%10 == 0 {
			get("used")
			get("large")
		}
	}
	changes(t, d, changes(t, d, 0).Mark-1) // waits for the watch
	for key, want := range map[string]bool{"00/large": false, "00/used": true, "00/unused": false, "01/many/199": true, "01/many/0": false} {
		if got := d.Holds(prefix + "doc/d/" + key); got != want {
			t.Errorf("the cache has %s: %v, want %v", key, got, want)
		}
	}
	n := 0
	for _, err := range d.List(ctx, "many", store.Query{Depth: 1}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 200 || d.Holds(prefix+"doc/d/01/many/") {
		t.Errorf("the list has %d documents, and the cache keeps it: %v; want 200 and not", n, d.Holds(prefix+"doc/d/01/many/"))
	}
}

// A page of a list reads what it shows, however long the list is. Documents that are not confirmed yet do not count.
func TestAPageReadsWhatItShows(t *testing.T) {
	t.Parallel()
	client, bytesRead := start(t), 0
	d := etcd.New(etcdkv.New(client, prefix, etcdkv.Options{OnRequest: func(kind string, n int) {
		if kind == "list" || kind == "get" {
			bytesRead += n
		}
	}}))
	t.Cleanup(func() { _ = d.Close() })
	d.AwaitWatch(t.Context())
	const size = 10 << 10
	for i := range 300 {
		doc := store.Doc{Key: store.Key(fmt.Sprintf("many/%03d", i)), Tag: 1, Body: make([]byte, size)}
		if i%100 == 50 {
			doc.State = store.Pending
		}
		put(t, d, doc, 0)
	}
	db := store.New(d, nil, seal.New(seal.NewKey()))
	for _, ctx := range []context.Context{t.Context(), readpoint.With(t.Context())} {
		bytesRead = 0
		pages := db.List(ctx, "many", store.Query{Depth: 1, Limit: 100})
		for range 2 { // it can be read again
			n, last := 0, store.Key("")
			for doc, err := range pages {
				if err != nil {
					t.Fatal(err)
				}
				n, last = n+1, doc.Key
			}
			if n != 100 || last != "many/100" {
				t.Errorf("the page has %d documents and ends at %s, want 100 and many/100", n, last)
			}
		}
		if most := 2 * 140 * size; bytesRead > most {
			t.Errorf("two pages read %d bytes, want %d at most", bytesRead, most)
		}
	}
}

// An etcd that was restored from a backup has an earlier last write than the watch has brought. The cache is emptied, and the watch
// begins anew, also if it was interrupted before: whoever notices it, a question, a read of one or of several documents, a list or a write.
func TestARestoredStoreIsReadAnew(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(ctx context.Context, d *etcd.Driver, mark int64) error{
		"a question": func(ctx context.Context, d *etcd.Driver, mark int64) error {
			got, err := d.Changes(ctx, mark)
			if err == nil && !got.All {
				err = fmt.Errorf("changes since the mark of a store that is gone: %+v", got)
			}
			return err
		},
		"a read": func(ctx context.Context, d *etcd.Driver, _ int64) error {
			if _, err := d.Get(ctx, "none"); !errs.Is(err, errs.NotFound) {
				return fmt.Errorf("a document that does not exist: %w", err)
			}
			return nil
		},
		"a write": func(ctx context.Context, d *etcd.Driver, _ int64) error {
			return d.Put(ctx, store.Doc{Key: "b", Tag: 1}, 0)
		},
		"a read of several": func(ctx context.Context, d *etcd.Driver, _ int64) error {
			for doc, err := range d.GetEach(ctx, []store.Key{"none", "nothing"}) {
				return fmt.Errorf("documents that do not exist: %s, %w", doc.Key, err)
			}
			return nil
		},
		"a read of several by a request that began before": func(ctx context.Context, d *etcd.Driver, mark int64) error {
			p := readpoint.Of(ctx)
			_, turn := p.At()
			p.Take(mark, turn)
			var got []string
			for doc, err := range d.GetEach(ctx, []store.Key{"a", "none"}) {
				if err != nil {
					return err
				}
				got = append(got, string(doc.Body))
			}
			if !slices.Equal(got, []string{"backup"}) {
				return fmt.Errorf("it sees %q", got)
			}
			return nil
		},
		"a list of those that refer to a document": func(ctx context.Context, d *etcd.Driver, _ int64) error {
			for doc, err := range d.List(ctx, "", store.Query{Refers: "b"}) {
				return fmt.Errorf("nothing refers to it: %s, %w", doc.Key, err)
			}
			return nil
		},
	} {
		for _, interrupted := range []bool{false, true} {
			fails := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s, interrupted before: %v: %s", name, interrupted, fmt.Sprintf(format, args...))
			}
			backup := start(t)
			put(t, open(t, backup), store.Doc{Key: "a", Tag: 2, Body: []byte("backup")}, 0)
			client := start(t)
			servers := &restoredServer{KV: client.KV, Watcher: client.Watcher}
			client.KV, client.Watcher = servers, servers
			d := open(t, client)
			for i := range 10 {
				put(t, d, store.Doc{Key: "a", Tag: int64(i + 1), Body: []byte("old")}, int64(i))
			}
			mark := changes(t, d, changes(t, d, 0).Mark-1).Mark
			if interrupted {
				d.Interrupt()
				d.Resume()
			}
			servers.backup.Store(backup)
			ctx := readpoint.With(t.Context())
			if err := notice(ctx, d, mark); err != nil {
				fails("%v", err)
			}
			if doc, err := d.Get(ctx, "a"); err != nil || string(doc.Body) != "backup" {
				fails("the request sees %q, %v", doc.Body, err)
			}
			eventually, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			if !d.AwaitWatch(eventually) {
				fails("the watch does not begin anew")
			}
			put(t, open(t, backup), store.Doc{Key: "a", Tag: 3, Body: []byte("new")}, 2)
			if doc, err := d.Get(readpoint.With(t.Context()), "a"); err != nil || doc.Tag != 3 {
				fails("after a change: %+v, %v", doc, err)
			}
		}
	}
}

// restoredServer is etcd, and later one that was restored from a backup: watches of the first one bring nothing more.
type restoredServer struct {
	clientv3.KV
	clientv3.Watcher
	backup atomic.Pointer[clientv3.Client]
}

func (r *restoredServer) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if b := r.backup.Load(); b != nil {
		return b.Get(ctx, key, o...)
	}
	return r.KV.Get(ctx, key, o...)
}

func (r *restoredServer) Txn(ctx context.Context) clientv3.Txn {
	if b := r.backup.Load(); b != nil {
		return b.Txn(ctx)
	}
	return r.KV.Txn(ctx)
}

func (r *restoredServer) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	if b := r.backup.Load(); b != nil {
		return b.Watch(ctx, key, o...)
	}
	return r.Watcher.Watch(ctx, key, o...)
}

// A request that has written, or tried to, sees afterwards what others wrote before that: its own document, and any other after a refusal or a
// write of something else. The watch is away, so the cache has only the past.
func TestAWriteMovesTheReadPointOn(t *testing.T) {
	t.Parallel()
	client := start(t)
	other, kv := open(t, client), etcdkv.New(client, prefix, etcdkv.Options{})
	for what, write := range map[string]func(ctx context.Context, d *etcd.Driver) error{
		"a refusal": func(ctx context.Context, d *etcd.Driver) error {
			if err := d.Put(ctx, store.Doc{Key: "a", Tag: 9}, 1); !errs.Is(err, errs.Conflict) {
				return fmt.Errorf("a put at an old tag: %w", err)
			}
			return nil
		},
		"a write of a document": func(ctx context.Context, d *etcd.Driver) error { return d.Put(ctx, store.Doc{Key: "b", Tag: 2}, 1) },
		"a removal":             func(ctx context.Context, d *etcd.Driver) error { return d.Remove(ctx, "b", 1) },
		"a write of something else": func(ctx context.Context, _ *etcd.Driver) error {
			_, _, err := kv.Commit(ctx, "x", nil, []clientv3.Op{clientv3.OpPut(prefix+"x", "")})
			return err
		},
		"a pause longer than a read point is used": func(context.Context, *etcd.Driver) error { time.Sleep(300 * time.Millisecond); return nil },
	} {
		put(t, other, store.Doc{Key: "a", Tag: 1}, 0)
		put(t, other, store.Doc{Key: "b", Tag: 1}, 0)
		d := open(t, client)
		ctx := readpoint.With(t.Context())
		tag := func(k store.Key) int64 {
			t.Helper()
			doc, err := d.Get(ctx, k)
			if err != nil && !errs.Is(err, errs.NotFound) {
				t.Fatal(err)
			}
			return doc.Tag
		}
		if a, b := tag("a"), tag("b"); a != 1 || b != 1 {
			t.Fatalf("the tags are %d and %d", a, b)
		}
		d.Interrupt()
		put(t, other, store.Doc{Key: "a", Tag: 2}, 1)
		if got := tag("a"); got != 1 {
			t.Errorf("before %s the request sees tag %d: the cache does not answer", what, got)
		}
		if err := write(ctx, d); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := tag("a"); got != 2 {
			t.Errorf("after %s the request sees tag %d, want 2", what, got)
		}
		want := map[string]int64{"a write of a document": 2, "a removal": 0}
		if b, ok := want[what]; ok && tag("b") != b {
			t.Errorf("after %s the request sees tag %d of its own document, want %d", what, tag("b"), b)
		}
		d.Resume()
		for _, k := range []store.Key{"a", "b"} {
			if doc, err := other.Get(t.Context(), k); err == nil {
				if err := other.Remove(t.Context(), k, doc.Tag); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A list that is read from etcd may show later writes than the read point. What the request reads after it is not older. The watch is away, so
// the cache has only the past.
func TestAListThatIsNotCachedMovesTheReadPointOn(t *testing.T) {
	t.Parallel()
	client := start(t)
	other := open(t, client)
	for i := range 40 {
		put(t, other, store.Doc{Key: store.Key(fmt.Sprintf("many/%02d", i)), Tag: 1, Refs: []store.Key{"many/00"}}, 0)
	}
	tag := int64(1)
	for what, q := range map[string]store.Query{
		"all depths": {}, "the holders of a reference": {Refers: "many/00", Depth: 1}, "the rest of a list": {After: "many/20", Depth: 1}, "a long list": {Depth: 1},
	} {
		d := open(t, client)
		ctx := readpoint.With(t.Context())
		if doc, err := d.Get(ctx, "many/39"); err != nil || doc.Tag != tag {
			t.Fatalf("%s: got tag %d, %v", what, doc.Tag, err)
		}
		d.Interrupt()
		put(t, other, store.Doc{Key: "many/39", Tag: tag + 1, Refs: []store.Key{"many/00"}}, tag)
		tag++
		listed := int64(0)
		for doc, err := range d.List(ctx, "many", q) {
			if err != nil {
				t.Fatal(err)
			}
			if doc.Key == "many/39" {
				listed = doc.Tag
			}
		}
		if doc, err := d.Get(ctx, "many/39"); err != nil || listed != tag || doc.Tag != tag {
			t.Errorf("%s: the list has tag %d, and a read after it %d, %v, want %d", what, listed, doc.Tag, err, tag)
		}
		d.Resume()
	}
}

// Several writers and readers, each with a cache, see in each request at least what was acknowledged before it began, and nothing older than
// they have seen in it; while watches are cut off and etcd compacts.
func TestRequestsSeeAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3, etcdtest.Options{})
	var drivers []*etcd.Driver
	for range 3 {
		drivers = append(drivers, open(t, cluster.Client()))
	}
	s := &storm{documents: map[store.Key]*versions{}}
	for i := range 4 {
		s.documents[store.Key(fmt.Sprint("reg/", i))] = &versions{}
	}
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	for i := range 9 {
		r := stormRequest{s, drivers[i%3], rand.New(rand.NewPCG(7, uint64(i)))}
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := r.make(readpoint.With(t.Context()), i%3 == i/3); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer stop()
		client := cluster.Client()
		for i := 0; ctx.Err() == nil && (i < 15 || !s.made(50, 500)); i++ {
			d := drivers[i%3]
			d.Interrupt()
			time.Sleep(time.Duration(i%4) * 20 * time.Millisecond) // writes go on
			if r, err := client.Get(t.Context(), "x"); err == nil && i%2 == 0 {
				_, _ = client.Compact(t.Context(), r.Header.Revision)
			}
			d.Resume()
			time.Sleep(100 * time.Millisecond) // the watch catches up, and the caches serve
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// storm is what is known of the documents of a test.
type storm struct {
	mu            sync.Mutex
	documents     map[store.Key]*versions // the map does not change; what versions count is guarded by mu
	writes, reads int                     // guarded by mu
}

// made reports whether so many writes and reads were made.
func (s *storm) made(writes, reads int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes >= writes && s.reads >= reads
}

// versions of a document count its writes. A removal is one.
type versions struct {
	acknowledged int        // the highest
	removed      int        // the highest of a removal that was tried
	life         sync.Mutex // held by who creates or removes the document: a creation is later than all removals
}

// stormRequest makes requests by one driver.
type stormRequest struct {
	*storm
	d      *etcd.Driver
	random *rand.Rand
}

// make reads all documents in one request, one by one and in a list, and may write one.
func (r stormRequest) make(ctx context.Context, writes bool) error {
	floor := map[store.Key]int{}
	r.mu.Lock()
	for k, v := range r.documents {
		floor[k] = v.acknowledged
	}
	r.mu.Unlock()
	for range 3 {
		for k := range floor {
			doc, err := r.d.Get(ctx, k)
			if err != nil && !errs.Is(err, errs.NotFound) {
				return err
			}
			if err := r.check(floor, k, doc); err != nil {
				return err
			}
			if writes && r.random.IntN(8) == 0 {
				if err := r.write(ctx, floor, k, doc); err != nil {
					return err
				}
			}
		}
		listed := map[store.Key]store.Doc{}
		for doc, err := range r.d.List(ctx, "reg", store.Query{Depth: 1}) {
			if err != nil {
				return err
			}
			listed[doc.Key] = doc
		}
		for k := range floor {
			if err := r.check(floor, k, listed[k]); err != nil {
				return fmt.Errorf("in a list: %w", err)
			}
		}
	}
	return nil
}

// check compares a document, the zero one if it does not exist, with what the request must see at least, and raises that.
func (r stormRequest) check(floor map[store.Key]int, k store.Key, doc store.Doc) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if doc.Tag == 0 {
		if r.documents[k].removed < floor[k] {
			return fmt.Errorf("%s does not exist for a request, which must see version %d", k, floor[k])
		}
		return nil
	}
	v, err := strconv.Atoi(string(doc.Body))
	if err != nil || v < floor[k] {
		return fmt.Errorf("a request sees version %q of %s, and must see %d", doc.Body, k, floor[k])
	}
	floor[k] = v
	return nil
}

// write writes the next version of a document, or removes it.
func (r stormRequest) write(ctx context.Context, floor map[store.Key]int, k store.Key, doc store.Doc) error {
	remove := doc.Tag != 0 && r.random.IntN(4) == 0
	if remove || doc.Tag == 0 {
		life := &r.documents[k].life
		life.Lock()
		defer life.Unlock()
	}
	r.mu.Lock()
	version := r.documents[k].removed + 1 // of a creation
	if doc.Tag != 0 {
		v, _ := strconv.Atoi(string(doc.Body))
		version = v + 1
	}
	if remove {
		r.documents[k].removed = max(r.documents[k].removed, version)
	}
	r.mu.Unlock()
	var err error
	if remove {
		err = r.d.Remove(ctx, k, doc.Tag)
	} else {
		err = r.d.Put(ctx, store.Doc{Key: k, Tag: 1 + r.random.Int64N(1<<62), Body: []byte(strconv.Itoa(version))}, doc.Tag)
	}
	switch {
	case errs.Is(err, errs.Conflict), errs.Is(err, errs.Exists):
		return nil
	case err != nil:
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	r.documents[k].acknowledged = max(r.documents[k].acknowledged, version)
	floor[k] = max(floor[k], version)
	return nil
}
