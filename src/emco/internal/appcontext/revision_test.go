package appcontext

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func opPut(key, value string) clientv3.Op { return clientv3.OpPut(key, value) }

// places returns n clusters that hold one app each.
func places(n int, bundle Digest) []Placement {
	all := make([]Placement, n)
	for i := range all {
		all[i] = Placement{Cluster: v2.ClusterKey(fmt.Sprintf("p+c%05d", i)), Apps: map[string]Digest{"app": bundle}}
	}
	return all
}

func TestPublishMakesARevisionVisibleAtOnce(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "7")
	h, err := s.ChangeHead(ctx, h, Head{UID: "7", State: Instantiated, Gone: true, Failure: "before"}, nil, &Operation{ID: "o", Rev: 3})
	must(t, err)
	want := places(2*maxClusters+1, "d")
	next, err := s.Publish(ctx, h, Revision{Number: 3, Instance: "42", Apps: []App{{Name: "app", Bundles: []Digest{"d"}}}}, slices.Values(want))
	must(t, err)
	if next.Rev != 3 || next.LastRev != 3 || next.Op != nil || next.Failure != "" || next.Gone || next.State != Instantiated {
		t.Errorf("the head is %+v", next)
	}
	if got, err := s.Head(ctx, "7"); err != nil || got.Mod != next.Mod || got.Rev != 3 {
		t.Errorf("Head = %+v, %v; want %+v", got, err, next)
	}
	rev, err := s.Revision(ctx, "7", 3)
	must(t, err)
	if rev.Chunks != 3 || rev.Instance != "42" || rev.Apps[0].Name != "app" {
		t.Errorf("Revision = %+v, want 3 chunks", rev)
	}
	got := placed(t)(s.Placements(ctx, "7", 3))
	if len(got) != len(want) || got[2*maxClusters].Cluster != want[2*maxClusters].Cluster || got[7].Apps["app"] != "d" {
		t.Errorf("%d placements came back, want %d in order", len(got), len(want))
	}
	if keys := keysBelow(t, s, "op/"); len(keys) != 0 {
		t.Errorf("operations %q are left", keys)
	}

	next, err = s.Publish(ctx, next, Revision{Number: 4}, slices.Values([]Placement(nil)))
	must(t, err)
	revs := collect(t, s.Revisions(ctx, "7"))
	if len(revs) != 2 || revs[0].Number != 3 || revs[1].Number != 4 || revs[1].Chunks != 0 {
		t.Errorf("Revisions = %+v, want 3 and 4", revs)
	}
	_, err = s.Publish(ctx, next, Revision{Number: 4}, slices.Values(want))
	wantKind(t, err, errs.Conflict) // a revision is written once
	_, err = s.Placements(ctx, "7", 9)
	wantKind(t, err, errs.NotFound)
}

// A revision that a head desires is read from etcd once. Whether another one is still kept is asked each time.
func TestADesiredRevisionIsReadOnce(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s := newStore(t, WithOnOp(func(string, int) { requests.Add(1) }))
	h, err := s.ChangeHead(t.Context(), create(t, s, "7"), Head{UID: "7", State: Instantiated}, nil, &Operation{ID: "o", Rev: 1})
	must(t, err)
	_, err = s.Publish(t.Context(), h, Revision{Number: 1, Apps: []App{{Name: "app"}}}, slices.Values(places(3, "d")))
	must(t, err)
	look := func(want int64) {
		t.Helper()
		requests.Store(0)
		rev, err := s.DesiredRevision(t.Context(), "7", 1)
		must(t, err)
		if at := placed(t)(s.DesiredPlacements(t.Context(), "7", 1)); rev.Number != 1 || rev.Apps[0].Name != "app" || len(at) != 3 {
			t.Errorf("revision %+v places %d", rev, len(at))
		}
		if n := requests.Load(); n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	}
	look(2) // the revision and its placements; the list of clusters is in memory
	look(0)
	_, err = s.kv.Etcd().Delete(t.Context(), revisionKey(s.kv, "7", 1))
	must(t, err)
	_, err = s.Revision(t.Context(), "7", 1)
	wantKind(t, err, errs.NotFound)
	_, err = s.Placements(t.Context(), "7", 1)
	wantKind(t, err, errs.NotFound)
}

func TestPublishThatLosesLeavesNothing(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "7")
	_, err := s.ChangeHead(ctx, h, h, nil, nil) // someone else
	must(t, err)
	_, err = s.NoteProgress(ctx) // as a start does
	must(t, err)
	before := keysBelow(t, s, "")
	_, err = s.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(2000, "d")))
	wantKind(t, err, errs.Conflict)
	if keys := keysBelow(t, s, "dep/7/place/"); len(keys) > 0 {
		t.Errorf("placements %q are left", keys)
	}
	sweepAll(t, s, 1) // of content, such as the list of clusters
	if after := keysBelow(t, s, ""); !slices.Equal(before, after) {
		t.Errorf("keys are %q after the conflict, want %q", after, before)
	}
	_, err = s.Revision(ctx, "7", 1)
	wantKind(t, err, errs.NotFound)
}

func TestPublishersOfOneRevisionDoNotMix(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "7")
	// The second one publishes while the first one is still writing.
	first := func(yield func(Placement) bool) {
		for i, p := range places(3*maxClusters, "first") {
			if i == 2*maxClusters+1 {
				_, err := s.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(maxClusters+1, "second")))
				must(t, err)
			}
			if !yield(p) {
				return
			}
		}
	}
	_, err := s.Publish(ctx, h, Revision{Number: 1}, first)
	wantKind(t, err, errs.Conflict)
	got := placed(t)(s.Placements(ctx, "7", 1))
	if len(got) != maxClusters+1 || got[0].Apps["app"] != "second" || got[maxClusters].Apps["app"] != "second" {
		t.Errorf("%d placements, the last is %+v; want %d of the second", len(got), got[len(got)-1], maxClusters+1)
	}
	if keys := keysBelow(t, s, "dep/7/place/"); len(keys) != 2 {
		t.Errorf("placement keys are %q, want only the two of the second", keys)
	}
}

func TestPublishInterruptedIsNotSeen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	h := create(t, s, "7")
	ctx, cancel := context.WithCancel(t.Context())
	cut := func(yield func(Placement) bool) {
		for i, p := range places(3*maxClusters, "d") {
			if i == 2*maxClusters+1 {
				cancel()
			}
			if !yield(p) {
				return
			}
		}
	}
	_, err := s.Publish(ctx, h, Revision{Number: 1}, cut)
	wantKind(t, err, errs.Unavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the reason", err)
	}
	if keys := keysBelow(t, s, "dep/7/place/"); len(keys) != 0 {
		t.Errorf("%d keys are left", len(keys))
	}
	if got, err := s.Head(t.Context(), "7"); err != nil || got.Mod != h.Mod {
		t.Errorf("Head = %+v, %v; want it unchanged", got, err)
	}
}

func TestPublishRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "7")
	many := Placement{Cluster: "p+c", Apps: map[string]Digest{}}
	for i := range 4000 {
		many.Apps[fmt.Sprintf("app%d", i)] = Digest(strings.Repeat("f", 64))
	}
	tests := []struct {
		name  string
		head  Head
		rev   Revision
		place Placement
		want  errs.Kind
	}{
		{"a head that was never read", Head{UID: "7"}, Revision{Number: 1}, Placement{Cluster: "p+c"}, errs.Invalid},
		{"no number", h, Revision{}, Placement{Cluster: "p+c"}, errs.Invalid},
		{"a cluster with a slash", h, Revision{Number: 1}, Placement{Cluster: "p/c"}, errs.Invalid},
		{"a cluster with too many apps", h, Revision{Number: 1}, many, errs.TooLarge},
		{"a revision above 256 KiB", h, Revision{Number: 1, Author: strings.Repeat("x", etcdkv.MaxValue)}, Placement{Cluster: "p+c"}, errs.TooLarge},
	}
	for _, test := range tests {
		_, err := s.Publish(ctx, test.head, test.rev, slices.Values([]Placement{test.place}))
		if !errs.Is(err, test.want) {
			t.Errorf("%s: got %v, want kind %q", test.name, err, test.want)
		}
	}
	if keys := keysBelow(t, s, "dep/7/place/"); len(keys) != 0 {
		t.Errorf("%d keys are left", len(keys))
	}
}

// A revision of 20,000 resources on 3,000 clusters must fit into etcd's limits and be
// invisible until it is complete.
func TestLargeRevisionStaysWithinLimits(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	var b Bundle
	blobs := map[Digest][]byte{}
	for i := range 20000 {
		text := fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"cm-%d"}}`, i)
		for d, c := range content(text) {
			blobs[d] = c
			ref := Ref{Digest: d}
			ref.Version, ref.Kind, ref.Name = "v1", "ConfigMap", fmt.Sprintf("cm-%d", i)
			b.Objects = append(b.Objects, ref)
		}
	}
	must(t, s.PutBlobs(ctx, blobs))
	d, err := s.PutBundle(ctx, b)
	must(t, err)
	h := create(t, s, "7")
	wide := places(3000, d)
	for i := range wide {
		wide[i].Apps = map[string]Digest{}
		for a := range 10 {
			wide[i].Apps[fmt.Sprintf("app-%d", a)] = d
		}
	}
	_, err = s.Publish(ctx, h, Revision{Number: 1}, slices.Values(wide))
	must(t, err)

	other := New(etcd, s.kv.Key()) // with an empty cache
	got, err := other.GetBundle(ctx, d)
	must(t, err)
	if len(got.Objects) != 20000 || got.Objects[19999] != b.Objects[19999] {
		t.Errorf("%d objects came back, want 20000", len(got.Objects))
	}
	n := 0
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key()}) {
		must(t, err)
		if n++; len(kv.Value) > etcdkv.MaxValue {
			t.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
		}
	}
	if rev, err := s.Revision(ctx, "7", 1); err != nil || rev.Chunks != 1 {
		t.Errorf("%d chunks, %v; want one: all clusters hold the same", rev.Chunks, err)
	}
}

// Clusters that hold much of their own fill many values; all come back, in order.
func TestPlacementsOfAllSortsComeBack(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	want := places(3000, "d")
	for i := range want {
		want[i].Apps = map[string]Digest{"own": manifest.DigestOf([]byte(want[i].Cluster)), fmt.Sprint("one of five ", i%5): "d", strings.Repeat("long", i%9): "e"}
	}
	_, err := s.Publish(ctx, create(t, s, "7"), Revision{Number: 1}, slices.Values(want))
	must(t, err)
	if got := placed(t)(uncached(s).Placements(ctx, "7", 1)); !reflect.DeepEqual(got, want) {
		t.Errorf("%d placements came back that differ from the %d", len(got), len(want))
	}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("dep", "7", "place") + "/"}) {
		must(t, err)
		if len(kv.Value) > etcdkv.MaxValue || len(kv.Value) < etcdkv.MaxValue/2 && string(kv.Key[len(kv.Key)-6:]) == "000000" {
			t.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
		}
	}
}

func TestPlacementsThatAreNotWholeAreRefused(t *testing.T) {
	t.Parallel()
	for _, l := range []placementChunk{
		{Clusters: []v2.ClusterKey{"p+c"}},
		{Clusters: []v2.ClusterKey{"p+c"}, Holds: []int{0}},
		{Sets: []map[string]Digest{{}}, Clusters: []v2.ClusterKey{"p+c"}, Holds: []int{-1}},
	} {
		wantKind(t, l.check(), errs.Internal)
	}
}
