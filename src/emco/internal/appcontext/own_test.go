package appcontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func own(t testing.TB, s *Store, holder string, ttl time.Duration) *Ownership {
	t.Helper()
	o, err := s.Own(t.Context(), "all", holder, ttl)
	must(t, err)
	t.Cleanup(func() { must(t, o.Release(context.Background())) })
	return o
}

func wantFenced(t testing.TB, err error) {
	t.Helper()
	wantKind(t, err, errs.Conflict)
	if !errors.Is(err, ErrFenced) {
		t.Fatalf("got %v, want it fenced", err)
	}
}

func TestOwnershipPassesOnRelease(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := own(t, s, "first", time.Minute)
	next := make(chan *Ownership)
	go func() {
		o, err := s.Own(t.Context(), "all", "second", time.Minute)
		if err != nil {
			t.Error(err)
		}
		next <- o
	}()
	must(t, s.PutPairs(t.Context(), first.Fence(), []Pair{{Key: pairKeyOf(1)}}, nil))
	select {
	case <-next:
		t.Fatal("two own the same shard")
	case <-first.Lost():
		t.Fatal("the ownership was lost without reason")
	default:
	}
	must(t, first.Release(t.Context()))
	must(t, first.Release(t.Context()))
	wait(t, first.Lost(), "the loss")
	second := wait(t, next, "the second owner")
	defer second.Release(t.Context())
	wantFenced(t, s.PutPairs(t.Context(), first.Fence(), []Pair{{Key: pairKeyOf(2)}}, nil))
	must(t, s.PutPairs(t.Context(), second.Fence(), []Pair{{Key: pairKeyOf(3)}}, nil))
	if pairs := collect(t, s.Pairs(t.Context())); len(pairs) != 2 || pairs[1].Key != pairKeyOf(3) {
		t.Errorf("pairs are %+v, want those of the owners", pairs)
	}
}

func TestOwnershipPassesWhenTheLeaseRunsOut(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dead := own(t, s, "dead", time.Second)
	dead.lease.cancel() // as if the process had been killed
	wait(t, dead.Lost(), "the loss")
	next := own(t, s, "next", time.Minute)
	wantFenced(t, s.PutReports(t.Context(), dead.Fence(), []Report{{Key: pairKeyOf(1)}}, nil))
	must(t, s.PutReports(t.Context(), next.Fence(), []Report{{Key: pairKeyOf(1)}}, nil))
}

func TestRestartedHolderNeedNotWait(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before := own(t, s, "only", 5*time.Second)
	after := own(t, s, "only", time.Hour)
	wantFenced(t, s.PutPairs(t.Context(), before.Fence(), nil, []PairKey{pairKeyOf(1)}))
	must(t, s.PutPairs(t.Context(), after.Fence(), nil, []PairKey{pairKeyOf(1)}))
	wait(t, before.Lost(), "the loss")
	select {
	case <-after.Lost():
		t.Error("the new ownership was lost with the old one")
	default:
	}

	// A key without a lease, as somebody's hand may leave it, does not block either.
	must(t, after.Release(t.Context()))
	_, err := etcd.Put(t.Context(), s.key("own", "all"), "only")
	must(t, err)
	own(t, s, "only", time.Minute)
}

func TestOwnEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	own(t, s, "first", time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Own(ctx, "all", "second", time.Minute)
	wantKind(t, err, errs.Unavailable)
	_, err = s.Own(t.Context(), "a/b", "second", time.Minute)
	wantKind(t, err, errs.Invalid)
	_, err = s.Own(t.Context(), "a", "", time.Minute)
	wantKind(t, err, errs.Invalid)
}

func TestOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var inside, turns atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 3 {
				o, err := s.Own(t.Context(), "all", fmt.Sprint("holder-", i), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d owners at a time", n)
				}
				if err := s.PutPairs(t.Context(), o.Fence(), []Pair{{Key: pairKeyOf(i)}}, nil); err != nil {
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

// An owner that is put to sleep in the middle of a write finds itself fenced when it
// goes on: no transaction of its reaches the new owner's state.
func TestStaleOwnerIsFencedInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	stale := own(t, s, "stale", time.Minute)
	var once sync.Once
	var successor atomic.Int64
	slow := New(etcd, s.prefix, WithOnOp(func(kind string, _ int) {
		if kind == "txn" {
			once.Do(func() {
				must(t, s.revoke(t.Context(), "", stale.lease.id)) // its time is over
				successor.Store(own(t, s, "new", time.Minute).Fence().Token())
			})
		}
	}))
	var put []Pair
	for i := range 3 * writers * maxOps {
		put = append(put, Pair{Key: pairKeyOf(i)})
	}
	wantFenced(t, slow.PutPairs(t.Context(), stale.Fence(), put, nil))
	written := 0
	for kv, err := range s.list(t.Context(), &scan{prefix: s.key("pair") + "/"}) {
		must(t, err)
		if written++; kv.ModRevision > successor.Load() {
			t.Fatalf("%s was written at revision %d, and the new owner came at %d", kv.Key, kv.ModRevision, successor.Load())
		}
	}
	if written == 0 || written == len(put) {
		t.Errorf("%d of %d pairs were written, want some", written, len(put))
	}
}

func TestEveryWriteOfAFencedStoreIsFenced(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "1")
	b, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	o := own(t, s, "old", time.Minute)
	view := s.Fenced(o.Fence())
	h, err = view.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(1, b)))
	must(t, err)
	must(t, view.PutBlobs(ctx, content("old")))
	must(t, view.Sweep(ctx, 1))
	must(t, o.Release(ctx))
	must(t, s.PutBlobs(ctx, content("garbage")))
	before := keysBelow(t, s, "")

	_, stepped := view.Step(ctx, h, h, nil, nil)
	_, published := view.Publish(ctx, h, Revision{Number: 2}, slices.Values(places(3, b)))
	for name, err := range map[string]error{
		"Step": stepped, "Publish": published, "Delete": view.Delete(ctx, "1"), "Remove": view.Remove(ctx, h), "Sweep": view.Sweep(ctx, 1),
		"RecordCommit": view.RecordCommit(ctx, "1", 1, RevisionCommit{}), "AddEvents": view.AddEvents(ctx, Event{UID: "1"}),
		"PutBlobs": view.PutBlobs(ctx, content("new")), "PutPairs": view.PutPairs(ctx, Fence{}, []Pair{{Key: pairKeyOf(1)}}, nil),
	} {
		if !errors.Is(err, ErrFenced) || !errs.Is(err, errs.Conflict) {
			t.Errorf("%s: got %v, want it fenced", name, err)
		}
	}
	if after := keysBelow(t, s, ""); !slices.Equal(before, after) {
		t.Errorf("keys are %q, want %q", after, before)
	}
	if s.Fenced(Fence{}) != s {
		t.Error("the zero fence makes another store")
	}
}
