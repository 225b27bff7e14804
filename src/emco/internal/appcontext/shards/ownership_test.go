package shards

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func own(t testing.TB, kv *etcdkv.Client, holder string, ttl time.Duration) *Ownership {
	t.Helper()
	o, err := Own(t.Context(), kv, "all", holder, ttl)
	must(t, err)
	t.Cleanup(func() { must(t, o.Release(context.Background())) })
	return o
}

func TestOwnershipPassesOnRelease(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	first := own(t, kv, "first", time.Minute)
	next := make(chan *Ownership)
	go func() {
		o, err := Own(t.Context(), kv, "all", "second", time.Minute)
		if err != nil {
			t.Error(err)
		}
		next <- o
	}()
	must(t, write(t.Context(), kv, first.Fence(), fmt.Sprint(1), 1))
	select {
	case <-next:
		t.Fatal("two own the same shard")
	case <-first.Lost():
		t.Fatal("the ownership was lost without reason")
	default:
	}
	must(t, first.Release(t.Context()))
	must(t, first.Release(t.Context()))
	etcdtest.Receive(t, first.Lost(), "the loss")
	second := etcdtest.Receive(t, next, "the second owner")
	defer second.Release(t.Context())
	wantFenced(t, write(t.Context(), kv, first.Fence(), fmt.Sprint(2), 1))
	must(t, write(t.Context(), kv, second.Fence(), fmt.Sprint(3), 1))
	if got := etcdtest.KeysBelow(t, kv, "work/"); !slices.Equal(got, []string{"work/1", "work/3"}) {
		t.Errorf("keys are %q, want those of the owners", got)
	}
}

func TestOwnershipPassesWhenTheLeaseExpires(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	dead := own(t, kv, "dead", time.Second)
	dead.lease.cancel() // as if the process were killed
	etcdtest.Receive(t, dead.Lost(), "the loss")
	next := own(t, kv, "next", time.Minute)
	wantFenced(t, write(t.Context(), kv, dead.Fence(), fmt.Sprint(1), 1))
	must(t, write(t.Context(), kv, next.Fence(), fmt.Sprint(1), 1))
}

func TestRestartedHolderNeedNotWait(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	before := own(t, kv, "only", 5*time.Second)
	after := own(t, kv, "only", time.Hour)
	wantFenced(t, write(t.Context(), kv, before.Fence(), fmt.Sprint(1), 1))
	must(t, write(t.Context(), kv, after.Fence(), fmt.Sprint(1), 1))
	etcdtest.Receive(t, before.Lost(), "the loss")
	select {
	case <-after.Lost():
		t.Error("the new ownership was lost with the old one")
	default:
	}

	// A key without a lease, which an operator may leave behind, does not block either.
	must(t, after.Release(t.Context()))
	_, err := etcd.Put(t.Context(), kv.Key("own", "all"), "only")
	must(t, err)
	own(t, kv, "only", time.Minute)
}

func TestOwnEndsWithItsContext(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	own(t, kv, "first", time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Own(ctx, kv, "all", "second", time.Minute)
	wantKind(t, err, errs.Unavailable)
	_, err = Own(t.Context(), kv, "a/b", "second", time.Minute)
	wantKind(t, err, errs.Invalid)
	_, err = Own(t.Context(), kv, "a", "", time.Minute)
	wantKind(t, err, errs.Invalid)
}

func TestOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	var inside, turns atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 3 {
				o, err := Own(t.Context(), kv, "all", fmt.Sprint("holder-", i), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d owners at a time", n)
				}
				if err := write(t.Context(), kv, o.Fence(), fmt.Sprint(i), 1); err != nil {
					t.Error(err)
				}
				turns.Add(1)
				inside.Add(-1)
				if err := o.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if turns.Load() != 24 {
		t.Errorf("%d turns, want 24", turns.Load())
	}
}

// An owner that is put to sleep in the middle of a batch finds itself fenced when it
// continues: none of its transactions reaches the new owner's state.
func TestAStaleOwnerIsFencedInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	stale := own(t, kv, "stale", time.Minute)
	var once sync.Once
	var successor atomic.Int64
	slow := etcdkv.New(etcd, kv.Key(), etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "txn" {
			once.Do(func() {
				must(t, revoke(t.Context(), kv, "", stale.lease.id)) // its lease expires
				successor.Store(own(t, kv, "new", time.Minute).Fence().Token())
			})
		}
	}})
	ops := map[string]clientv3.Op{}
	for i := range 3 * etcdkv.Writers * etcdkv.MaxOps {
		key := kv.Key("work", strconv.Itoa(i))
		ops[key] = clientv3.OpPut(key, "")
	}
	wantFenced(t, slow.Fenced(stale.Fence()).WriteSorted(t.Context(), "work", ops))
	written := 0
	for pair, err := range kv.List(t.Context(), etcdkv.Scan{Prefix: kv.Key("work") + "/"}) {
		must(t, err)
		if written++; pair.ModRevision > successor.Load() {
			t.Fatalf("%s was written at revision %d, after the new owner at %d", pair.Key, pair.ModRevision, successor.Load())
		}
	}
	if written == 0 || written == len(ops) {
		t.Errorf("%d of %d keys were written, want some", written, len(ops))
	}
}

// An ownership on a shared lease removes its own key alone: after it lost the shard, Release
// must not remove the key of its successor.
func TestReleaseLeavesTheKeyOfASuccessor(t *testing.T) {
	t.Parallel()
	kv, ctx := newKV(t), t.Context()
	l, err := grantLease(ctx, kv, "test", time.Minute)
	must(t, err)
	c := claim{kv: kv, shard: "test-00", holder: "a", lease: l}
	lost, err := c.acquire(ctx, l)
	must(t, err)
	_, err = etcd.Delete(ctx, c.key()) // as an operator may do
	must(t, err)
	next, err := Own(ctx, kv, "test-00", "b", time.Minute)
	must(t, err)
	must(t, lost.Release(ctx))
	must(t, c.drop(ctx)) // what a member does when its assignment ends
	must(t, kv.Holds(ctx, next.Fence()))
	must(t, next.Release(ctx))
	must(t, l.end(ctx))
}

func TestOwnersNamesTheHoldersOfAGroup(t *testing.T) {
	t.Parallel()
	kv, g := newKV(t), Group{Kind: "work", Shards: 3}
	for n, holder := range map[int]string{0: "ann", 2: "bob"} {
		o, err := Own(t.Context(), kv, g.Shard(n), holder, time.Minute)
		must(t, err)
		t.Cleanup(func() { must(t, o.Release(context.Background())) })
	}
	other, err := Own(t.Context(), kv, "workers-01", "eve", time.Minute)
	must(t, err)
	defer func() { must(t, other.Release(context.Background())) }()
	got, err := Owners(t.Context(), kv, g)
	if err != nil || fmt.Sprint(got) != "map[0:ann 2:bob]" {
		t.Errorf("the owners are %v, %v", got, err)
	}
}
