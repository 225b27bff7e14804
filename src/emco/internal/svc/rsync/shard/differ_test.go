package shard

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"pgregory.net/rapid"
)

// history is a deployment whose revisions are reconciled one after the other.
type history struct {
	*testing.T
	*Shard
	contexts *appcontext.Store
	db       *store.DB
	head     appcontext.Head
	narrowed int
}

var fields = []v2.ClusterKey{"edge+c0", "edge+c1", "edge+c2", "edge+c3", "edge+c4"}

// revise publishes a revision that wants the bundles on the clusters; 0 is none.
func (h *history) revise(bundles []int) {
	h.Helper()
	to := h.head
	to.UID, to.Document, to.LastRev, to.Gone = "7", "the group", h.head.LastRev+1, false
	to, err := h.contexts.ChangeHead(h.Context(), h.head, to, nil, &appcontext.Operation{ID: fmt.Sprint("op", to.LastRev), Rev: to.LastRev})
	if err != nil {
		h.Fatal(err)
	}
	var places []appcontext.Placement
	for i, b := range bundles {
		if b == 0 {
			continue
		}
		d, err := h.contexts.PutBundle(h.Context(), appcontext.Bundle{CRDs: []appcontext.Ref{{Digest: appcontext.Digest(fmt.Sprint(b))}}})
		if err != nil {
			h.Fatal(err)
		}
		places = append(places, appcontext.Placement{Cluster: fields[i], Apps: map[string]appcontext.Digest{"web": d}})
	}
	if h.head, err = h.contexts.Publish(h.Context(), to, appcontext.Revision{Number: to.LastRev}, slices.Values(places)); err != nil {
		h.Fatal(err)
	}
}

// reconcile reconciles the head, and checks that a comparison of everything finds no more to do.
func (h *history) reconcile() {
	h.Helper()
	last := h.reconciler.reconciled["7"]
	if h.reconciler.followsReconciled(pair.Desired{Deployment: "7", Rev: h.head.Rev}, last) {
		h.narrowed++
	}
	if _, err := h.reconciler.reconcileHead(h.Context(), appcontext.HeadEvent{Head: h.head}); err != nil {
		h.Fatal(err)
	}
	if h.reconciler.reconciled["7"].state == last.state { // nothing was asked for
		return
	}
	whole := pair.Desired{Deployment: "7", Head: "7", Rev: h.head.Rev, Removed: h.head.Gone}
	if !whole.Removed {
		if err := h.reconciler.allPlaces(h.Context(), &whole, appcontext.Revision{Number: whole.Rev}, false); err != nil {
			h.Fatal(err)
		}
	}
	var err error
	if whole.Registrations, err = h.reconciler.registrations(h.Context(), whole); err != nil {
		h.Fatal(err)
	}
	have := map[appcontext.PairKey]appcontext.Pair{}
	for _, t := range h.pairs.TargetsOf("7") {
		for _, p := range h.pairs.Of(t) {
			have[p.Key] = p
		}
	}
	for _, p := range pair.Diff(whole, slices.Collect(maps.Values(have)), time.Now()) {
		if !reflect.DeepEqual(p, have[p.Key]) {
			h.Fatalf("revision %d: a comparison of everything finds more to do: %+v", h.head.Rev, p)
		}
	}
}

// deliver records for each pair that is due, in turn, that it is Applied or failed. What was meant for
// an earlier registration of a cluster is refused, as by Shard.deliver.
func (h *history) deliver(arrives []bool) {
	h.Helper()
	var all []pair.Result
	lookup := h.Routes.Lookup()
	for i, t := range h.pairs.All() {
		if _, err := h.routeOf(h.Context(), lookup, t); err != nil {
			all = append(all, h.noRoute(t, err)...)
			continue
		}
		for _, p := range h.pairs.Of(t) {
			o := pair.Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev}
			if !arrives[i%len(arrives)] {
				o.Err = errs.New(errs.Unavailable, "away")
			}
			if pair.Deliverable(p) {
				all = append(all, o)
			}
		}
	}
	if err := h.pairs.Record(h.Context(), all); err != nil {
		h.Fatal(err)
	}
}

// reregister has a cluster deleted and registered again.
func (h *history) reregister(cluster v2.ClusterKey) {
	h.Helper()
	key := store.Key(cluster.StoreKey())
	if err := h.db.Delete(h.Context(), key, nil); err != nil && !errs.Is(err, errs.NotFound) {
		h.Fatal(err)
	}
	register(h.T, h.db, cluster.Cluster(), "repo")
}

// Whatever changes from revision to revision, and whatever fails in between: comparing only
// what changed leaves nothing undone.
func TestComparingWhatChangedIsEnough(t *testing.T) {
	t.Parallel()
	s, contexts, db := newShard(t, 0, inFirst)
	h := &history{T: t, Shard: s, contexts: contexts, db: db}
	s.reconciler.proceed = func(context.Context, []pair.Target) {}
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		if cases++; raced && cases > 20 {
			return // of a hundred
		}
		s.reconciler.atOnce = rapid.SampledFrom([]int{1, 2, writtenAtOnce}).Draw(r, "clusters at once")
		for range rapid.IntRange(1, 3).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			case 0:
				h.reregister(rapid.SampledFrom(fields).Draw(r, "cluster")) // the next revision brings it to the shard
				continue
			case 1:
				h.head = change(t, contexts, h.head, func(to *appcontext.Head) { to.UID, to.Gone = "7", to.Rev > 0 })
			case 2:
				h.head = change(t, contexts, h.head, func(to *appcontext.Head) { to.UID, to.Stopped = "7", !to.Stopped })
			default:
				h.head = change(t, contexts, h.head, func(to *appcontext.Head) { to.UID, to.Stopped = "7", false })
				h.revise(rapid.SliceOfN(rapid.IntRange(0, 2), len(fields), len(fields)).Draw(r, "bundles"))
			}
			if !h.head.Stopped && h.head.Rev > 0 {
				h.reconcile()
			} else if _, err := h.reconciler.reconcileHead(t.Context(), appcontext.HeadEvent{Head: h.head}); err != nil && h.head.Rev > 0 {
				t.Fatal(err)
			}
			h.deliver(rapid.SliceOfN(rapid.Bool(), 1, 3).Draw(r, "arrives"))
		}
	})
	least := 20
	if raced {
		least = 1
	}
	if h.narrowed < least {
		t.Errorf("%d revisions were compared with the last one alone, want more", h.narrowed)
	}
}

// The first clusters of a large change are requeued while others are still written. Pairs that are equal are stored as if they
// were written together.
func TestALargeChangeIsRequeuedAsItIsWritten(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	var requeued []string
	s.reconciler.atOnce = 2
	s.reconciler.proceed = func(_ context.Context, due []pair.Target) {
		written := 0
		for _, target := range s.pairs.All() {
			written += len(s.pairs.Of(target))
		}
		requeued = append(requeued, fmt.Sprint(due, " of ", written))
	}
	head := publish(t, contexts, appcontext.Head{}, fields...)
	if due := reconcile(t, s, appcontext.HeadEvent{Head: head}); due != "[{edge+c4 7}]" {
		t.Errorf("the last part is %s, want cluster c4", due)
	}
	if want := []string{"[{edge+c0 7} {edge+c1 7}] of 2", "[{edge+c2 7} {edge+c3 7}] of 4"}; !slices.Equal(requeued, want) {
		t.Errorf("requeued %q, want %q", requeued, want)
	}
	all := s.pairs.Of(s.pairs.All()[0])
	for _, target := range s.pairs.All() {
		if p := s.pairs.Of(target)[0]; !p.At.Equal(all[0].At) {
			t.Errorf("%s is of %s, the first one of %s: equal pairs do not share a value", target.Name(), p.At, all[0].At)
		}
	}
}
