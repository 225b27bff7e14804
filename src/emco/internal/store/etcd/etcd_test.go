package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/etcd"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

const prefix = "/emco/"

// start returns the client of an embedded etcd.
func start(t *testing.T) *clientv3.Client {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.Client()
}

func open(t *testing.T, client *clientv3.Client) *etcd.Driver {
	t.Helper()
	d := etcd.New(etcdkv.New(client, prefix, etcdkv.Options{}))
	t.Cleanup(func() { _ = d.Close() })
	d.AwaitWatch(t.Context())
	return d
}

// keys returns the keys of etcd below a part of the prefix.
func keys(t *testing.T, client *clientv3.Client, below string) (out []string) {
	t.Helper()
	r, err := client.Get(t.Context(), prefix+below, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		out = append(out, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return out
}

func put(t *testing.T, d *etcd.Driver, doc store.Doc, at int64) {
	t.Helper()
	if err := d.Put(t.Context(), doc, at); err != nil {
		t.Fatalf("put %s: %v", doc.Key, err)
	}
}

// The contract holds on three members, each handle with a client of its own.
func TestTheContractHoldsOnThreeMembers(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3, etcdtest.Options{})
	if err := storetest.Check(t.Context(), func() (store.Driver, error) { return open(t, cluster.Client()), nil }); err != nil {
		t.Error(err)
	}
	if err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) {
		return etcd.NewBlobs(etcdkv.New(cluster.Client(), prefix, etcdkv.Options{})), nil
	}); err != nil {
		t.Error(err)
	}
}

// A large document leaves none of its chunks behind, whether it is replaced, removed or refused.
func TestLargeDocumentsLeaveNoChunks(t *testing.T) {
	t.Parallel()
	client := start(t)
	d := open(t, client)
	large := func(tag int64) store.Doc {
		return store.Doc{Key: "a/b", Tag: tag, Body: bytes.Repeat([]byte("x"), 3<<20), Secret: []byte("secret")}
	}
	want := func(what string, chunks int) {
		t.Helper()
		if got := keys(t, client, "doc/c/"); len(got) != chunks {
			t.Errorf("after %s: %d chunks, want %d: %q", what, len(got), chunks, got)
		}
	}
	put(t, d, large(1), 0)
	want("a creation", 7)
	put(t, d, large(2), 1)
	want("a replacement", 7)
	if err := d.Put(t.Context(), large(3), 1); !errs.Is(err, errs.Conflict) {
		t.Errorf("put at an old tag: %v", err)
	}
	want("a refusal", 7)
	got, err := d.Get(t.Context(), "a/b")
	if err != nil || len(got.Body) != 3<<20 || string(got.Secret) != "secret" || got.Tag != 2 {
		t.Errorf("got %d bytes, secret %q, tag %d, %v", len(got.Body), got.Secret, got.Tag, err)
	}
	leases, err := client.Leases(t.Context())
	if err != nil || len(leases.Leases) > 0 {
		t.Errorf("leases %v, %v: want none, or the document would disappear", leases, err)
	}
	put(t, d, store.Doc{Key: "a/b", Tag: 4, Body: []byte("{}")}, 2)
	want("a replacement by a small one", 0)
	put(t, d, large(5), 4)
	if err := d.Remove(t.Context(), "a/b", 5); err != nil {
		t.Error(err)
	}
	want("a removal", 0)
}

// A write that ends between its chunks and its document leaves chunks with a lease.
func TestChunksOfAnUnfinishedWriteHaveALease(t *testing.T) {
	t.Parallel()
	client := start(t)
	cut := errors.New("cut")
	client.KV = failingKV{client.KV, func(key string) error {
		if strings.Contains(key, "/doc/d/") {
			return cut
		}
		return nil
	}}
	d := open(t, client)
	if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 1, Body: make([]byte, 1<<20)}, 0); !errors.Is(err, cut) {
		t.Fatalf("put: %v", err)
	}
	r, err := client.Get(t.Context(), prefix+"doc/c/", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 2 {
		t.Fatalf("chunks: %v, %v", r, err)
	}
	for _, kv := range r.Kvs {
		if kv.Lease == 0 {
			t.Errorf("%s has no lease", kv.Key)
		}
	}
}

// failingKV fails transactions that write some key.
type failingKV struct {
	clientv3.KV
	fail func(key string) error
}

func (f failingKV) Txn(ctx context.Context) clientv3.Txn { return failingTxn{f.KV.Txn(ctx), f, nil} }

type failingTxn struct {
	clientv3.Txn
	f   failingKV
	err error
}

func (t failingTxn) If(c ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(c...); return t }

func (t failingTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		if err := t.f.fail(string(op.KeyBytes())); err != nil && op.IsPut() {
			t.err = err
		}
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t failingTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t failingTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.err != nil {
		return nil, t.err
	}
	return t.Txn.Commit()
}

// Documents with many references are found by them, in order with others, and no longer once they have
// fewer or other ones.
func TestDocumentsWithManyReferences(t *testing.T) {
	t.Parallel()
	client := start(t)
	d := open(t, client)
	many := func(n int) (out []store.Key) {
		for i := range n {
			out = append(out, store.Key(fmt.Sprintf("t/%04d", i)))
		}
		return out
	}
	put(t, d, store.Doc{Key: "h/b", Tag: 1, Refs: many(300)}, 0)
	put(t, d, store.Doc{Key: "h/a", Tag: 1, Refs: many(50)}, 0)
	put(t, d, store.Doc{Key: "h/c", Tag: 1, Refs: many(1)}, 0)
	wantHolders := func(target store.Key, want ...store.Key) {
		t.Helper()
		var got []store.Key
		for doc, err := range d.List(t.Context(), "h", store.Query{Refers: target}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, doc.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("holders of %s: %q, want %q", target, got, want)
		}
	}
	wantHolders("t/0000", "h/a", "h/b", "h/c")
	wantHolders("t/0299", "h/b")
	put(t, d, store.Doc{Key: "h/b", Tag: 2, Refs: many(2)}, 1)
	put(t, d, store.Doc{Key: "h/a", Tag: 2, Refs: many(100)}, 1)
	wantHolders("t/0299")
	wantHolders("t/0099", "h/a")
	wantHolders("t/0001", "h/a", "h/b")
	for _, k := range []store.Key{"h/a", "h/b"} {
		if err := d.Remove(t.Context(), k, 2); err != nil {
			t.Error(err)
		}
	}
	if left := append(keys(t, client, "doc/r/"), keys(t, client, "doc/w/")...); len(left) != 1 {
		t.Errorf("%q is left, want the reference of h/c", left)
	}
}

func TestTooDeepKeysAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, start(t))
	deep := store.Key(strings.Repeat("a/", 40) + "a")
	if err := d.Put(t.Context(), store.Doc{Key: deep, Tag: 1}, 0); !errs.Is(err, errs.Invalid) {
		t.Errorf("put = %v", err)
	}
	if _, err := d.Get(t.Context(), deep); !errs.Is(err, errs.NotFound) {
		t.Errorf("get = %v", err)
	}
}

// A document of a later version is neither read nor written over.
func TestDocumentsOfLaterVersionsStay(t *testing.T) {
	t.Parallel()
	client := start(t)
	d := open(t, client)
	if _, err := client.Put(t.Context(), prefix+"doc/d/00/a", `{"v":2,"tag":1}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{d.Put(t.Context(), store.Doc{Key: "a", Tag: 2}, 1), d.Remove(t.Context(), "a", 1)} {
		if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "update this program") {
			t.Errorf("got %v", err)
		}
	}
}

// The answer for a mark that is too old, or later than what etcd holds, as after a restored
// backup, is that anything may have changed.
func TestMarksThatSayNothingAnyMore(t *testing.T) {
	t.Parallel()
	client := start(t)
	put(t, open(t, client), store.Doc{Key: "old", Tag: 1}, 0)
	old := changes(t, open(t, client), 0)
	d := open(t, client)
	if _, err := client.Put(t.Context(), prefix+"other", ""); err != nil {
		t.Fatal(err)
	}
	late := open(t, client) // its watch begins after the mark of the first write
	put(t, d, store.Doc{Key: "new", Tag: 1}, 0)
	if got := changes(t, late, old.Mark-1); !got.All {
		t.Errorf("changes since before the watch: %+v", got)
	}
	if got := changes(t, d, old.Mark+1_000_000); !got.All || got.Mark >= old.Mark+1_000_000 {
		t.Errorf("changes since a mark of the future: %+v", got)
	}
	now := changes(t, d, 0)
	put(t, d, store.Doc{Key: "new", Tag: 2}, 1)
	if got := changes(t, d, now.Mark); got.All || !slices.Equal(got.Keys, []store.Key{"new"}) {
		t.Errorf("changes since %d: %+v", now.Mark, got)
	}
}

// A compaction that overtakes a watch that was cut off makes no gap.
func TestACompactionMakesNoGap(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	d, other := open(t, cluster.Client()), open(t, cluster.Client())
	put(t, other, store.Doc{Key: "a", Tag: 1}, 0)
	mark := changes(t, d, 0).Mark
	put(t, other, store.Doc{Key: "b", Tag: 1}, 0)
	if got := changes(t, d, mark); got.All || !slices.Equal(got.Keys, []store.Key{"b"}) {
		t.Fatalf("changes: %+v", got)
	}
	mark = changes(t, d, 0).Mark
	d.Interrupt()
	for i := range 20 {
		put(t, other, store.Doc{Key: store.Key(fmt.Sprint("c", i)), Tag: 1}, 0)
	}
	r, err := cluster.Client().Get(t.Context(), "x")
	if err == nil {
		_, err = cluster.Client().Compact(t.Context(), r.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Resume()
	got := changes(t, d, mark)
	if !got.All && len(got.Keys) != 20 {
		t.Errorf("changes: %+v, want all or the 20 documents", got)
	}
	put(t, other, store.Doc{Key: "z", Tag: 1}, 0)
	if next := changes(t, d, got.Mark); !next.All && !slices.Contains(next.Keys, "z") {
		t.Errorf("changes: %+v", next)
	}
}

func changes(t *testing.T, d *etcd.Driver, mark int64) store.Changes {
	t.Helper()
	c, err := d.Changes(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A sweep removes chunks of uploads that a crash interrupted, and leaves those that are under way.
func TestSweepRemovesChunksWithoutAName(t *testing.T) {
	t.Parallel()
	client := start(t)
	b := etcd.NewBlobs(etcdkv.New(client, prefix, etcdkv.Options{}))
	if _, _, err := b.Put(t.Context(), strings.NewReader("kept"), 10); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, at := range []time.Time{now.Add(-2 * time.Hour), now} {
		if _, err := client.Put(t.Context(), fmt.Sprintf("%scontent/c/%013d-x/000000", prefix, at.UnixMilli()), "chunk"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Sweep(t.Context(), now.Add(-time.Hour), func(manifest.Digest) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if left := keys(t, client, "content/c/"); len(left) != 2 || strings.Contains(strings.Join(left, " "), fmt.Sprintf("%013d", now.Add(-2*time.Hour).UnixMilli())) {
		t.Errorf("chunks %q are left", left)
	}
}

// A new document costs one request, and so does another version of one that the watch has brought; a document that exists costs
// a read more.
func TestAWriteIsOneRequest(t *testing.T) {
	t.Parallel()
	d, want := counted(t, start(t))
	want("a new document", func() { put(t, d, store.Doc{Key: "a", Tag: 1}, 0) }, 0, 1)
	changes(t, d, changes(t, d, 0).Mark-1) // waits for the watch
	want("another version", func() { put(t, d, store.Doc{Key: "a", Tag: 2}, 1) }, 0, 1)
	want("a document that exists", func() {
		if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 3}, 0); !errs.Is(err, errs.Exists) {
			t.Errorf("error %v, want Exists", err)
		}
	}, 1, 1)
	want("an old tag", func() {
		if err := d.Put(t.Context(), store.Doc{Key: "a", Tag: 3}, 1); !errs.Is(err, errs.Conflict) {
			t.Errorf("error %v, want Conflict", err)
		}
	}, 1, 0)
}

// A creation that depends on other documents is one transaction: nothing is read if the cache has those, and each of the others takes a read.
func TestACreationIsOneTransaction(t *testing.T) {
	t.Parallel()
	client := start(t)
	d, want := counted(t, client)
	put(t, d, store.Doc{Key: "p", Tag: 1}, 0)
	put(t, d, store.Doc{Key: "t", Tag: 1}, 0)
	db := store.New(d, nil, seal.New(seal.NewKey()))
	ctx := readpoint.With(t.Context())
	for _, k := range []store.Key{"p", "t"} {
		if _, err := db.Get(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	create := func(w store.Write) func() {
		return func() {
			if _, err := db.Create(ctx, w); err != nil {
				t.Error(err)
			}
		}
	}
	want("a child that refers", create(store.Write{Key: "p/c/1", Parent: "p", Refs: []store.Ref{{Key: "t", Must: true}, {Key: "unique/1", Index: true}}}), 0, 1)
	want("a second one", create(store.Write{Key: "p/c/2", Parent: "p", Refs: []store.Ref{{Key: "t", Must: true}, {Key: "unique/2", Index: true}}}), 0, 1)
	want("who has a unique key", func() {
		n := 0
		for _, err := range db.List(ctx, "p", store.Query{Refers: "unique/1"}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d documents have it, want 1", n)
		}
	}, 1, 0)
	want("whether anyone has another one", func() {
		for doc, err := range db.List(ctx, "p", store.Query{Refers: "unique/3"}) {
			t.Errorf("%s has it, %v", doc.Key, err)
		}
	}, 1, 0)
}

// Many documents are read with few requests, and with none if the cache has them.
func TestManyDocumentsTakeFewReads(t *testing.T) {
	t.Parallel()
	client := start(t)
	other := open(t, client)
	var keys, there []store.Key
	for i := range 300 {
		k := store.Key(fmt.Sprintf("a/%03d", i))
		if keys = append(keys, k); i%3 > 0 {
			there = append(there, k)
			put(t, other, store.Doc{Key: k, Tag: 1}, 0)
		}
	}
	d, want := counted(t, client)
	read := func(ctx context.Context) func() {
		return func() {
			t.Helper()
			var got []store.Key
			for doc, err := range d.GetEach(ctx, keys) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, doc.Key)
			}
			if !slices.Equal(got, there) {
				t.Errorf("got %q, want %q", got, there)
			}
		}
	}
	want("without a read point", read(t.Context()), 3, 0)
	ctx := readpoint.With(t.Context())
	want("the first time", read(ctx), 3, 0)
	want("again", read(ctx), 0, 0)
	put(t, other, store.Doc{Key: "a/000", Tag: 2}, 0)
	there = append([]store.Key{"a/000"}, there...)
	want("by a request after a change", read(readpoint.With(t.Context())), 1, 0)
}

// counted opens a driver. The function it returns checks how many reads and transactions something takes.
func counted(t *testing.T, client *clientv3.Client) (*etcd.Driver, func(what string, f func(), gets, txns int)) {
	t.Helper()
	counts := map[string]int{} // the watch of changes counts too
	var mu sync.Mutex
	d := etcd.New(etcdkv.New(client, prefix, etcdkv.Options{OnRequest: func(kind string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		counts[kind]++
	}}))
	t.Cleanup(func() { _ = d.Close() })
	d.AwaitWatch(t.Context()) // it begins with a read
	return d, func(what string, f func(), gets, txns int) {
		t.Helper()
		mu.Lock()
		before := maps.Clone(counts)
		mu.Unlock()
		f()
		mu.Lock()
		defer mu.Unlock()
		g, x := counts["get"]+counts["list"]-before["get"]-before["list"], counts["txn"]-before["txn"]
		if g != gets || x != txns {
			t.Errorf("%s took %d reads and %d transactions, want %d and %d", what, g, x, gets, txns)
		}
	}
}
