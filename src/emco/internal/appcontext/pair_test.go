package appcontext

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func pairKeyOf(i int) PairKey {
	return PairKey{Cluster: v2.ClusterKey(fmt.Sprintf("p+c%04d", i/10)), Deployment: "7", App: fmt.Sprintf("app-%d", i%10)}
}

// It runs alone: other tests drop the history of the etcd that they share, and a list of many pages begins again then.
func TestPairsTakeFewRequests(t *testing.T) {
	var requests atomic.Int64
	s := newStore(t, WithOnOp(func(string, int) { requests.Add(1) }))
	ctx := t.Context()
	const n = 10000
	put, keys := make([]Pair, n), make([]PairKey, n)
	for i := range put {
		keys[i] = pairKeyOf(i)
		put[i] = Pair{Key: keys[i], Rev: 3, Phase: Pending, Desired: Digest(strings.Repeat("d", 64)), Error: fmt.Sprint(i)}
	}
	must(t, s.PutPairs(ctx, Fence{}, put, nil))
	if got := requests.Swap(0); got != 79 {
		t.Errorf("%d requests for %d pairs, want 79", got, n)
	}
	all := collect(t, s.Pairs(ctx))
	if len(all) != n || all[42].Key != put[42].Key || all[42].Error != "42" || all[42].Phase != Pending {
		t.Errorf("Pairs returned %d, and %+v; want %d and %+v", len(all), all[42], n, put[42])
	}
	if got := requests.Swap(0); got > 20 {
		t.Errorf("%d requests to list %d pairs, want at most 20", got, n)
	}
	at, err := s.PairsAt(ctx, append([]PairKey{{Cluster: "p+none", Deployment: "7", App: "a"}}, keys...))
	must(t, err)
	if len(at) != n || at[n-1].Error != fmt.Sprint(n-1) || at[n-1].Key != keys[n-1] {
		t.Errorf("PairsAt returned %d, want %d in the order asked", len(at), n)
	}
	if got := requests.Swap(0); got != 81 { // the revision, the tables, and the records
		t.Errorf("%d requests to read %d pairs, want 81", got, n)
	}
	must(t, s.PutPairs(ctx, Fence{}, nil, keys))
	if left := keysBelow(t, s, "pair/"); len(left) != 0 {
		t.Errorf("%d keys are left", len(left))
	}
}

func TestPairsComeBackWhole(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	want := Pair{
		Key: pairKeyOf(1), Rev: 2, Desired: "d", Held: []Digest{"c", "d"}, Applied: "c", Commit: "abc",
		Phase: Retrying, Attempt: 4, NextRetry: at, Error: "no route", At: at,
	}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: want.Key, Rev: 1}, want}, []PairKey{want.Key}))
	got, err := s.PairsAt(ctx, []PairKey{want.Key})
	must(t, err)
	if len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("PairsAt = %+v, want the last one put, %+v", got, want)
	}
}

func TestPairsRefuseWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	for _, k := range []PairKey{{}, {Cluster: "p+c", Deployment: "7"}, {Cluster: "p/c", Deployment: "7", App: "a"}, {Cluster: "p+c", Deployment: "7", App: "a/b"}, {Cluster: "p+c", Deployment: "7\n", App: "a"}} {
		wantKind(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: k}}, nil), errs.Invalid)
	}
	wantKind(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: pairKeyOf(1), Error: strings.Repeat("x", etcdkv.MaxValue)}}, nil), errs.TooLarge)
	if keys := keysBelow(t, s, ""); len(keys) != 0 {
		t.Errorf("keys %q were written", keys)
	}
}

func TestLargePairsAreCutIntoTransactions(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	var put []Pair
	for i := range 20 {
		put = append(put, Pair{Key: pairKeyOf(i), Error: strings.Repeat("x", 200<<10)})
	}
	must(t, s.PutPairs(ctx, Fence{}, put, nil))
	if all := collect(t, s.Pairs(ctx)); len(all) != 20 || len(all[19].Error) != 200<<10 {
		t.Errorf("%d pairs came back, want 20", len(all))
	}
}

func TestReportsAreCutToFit(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	small := Report{Key: pairKeyOf(0), Resources: []ResourceStatus{{ID: manifest.ID{Kind: "Pod", Name: "p"}, Status: "Current"}}}
	large := Report{Key: pairKeyOf(1)}
	for i := range 20000 {
		r := ResourceStatus{ID: manifest.ID{Version: "v1", Kind: "Pod", Namespace: "ns", Name: fmt.Sprintf("pod-%05d", i)}, Status: "Current"}
		if i%1000 == 999 {
			r.Status, r.Reason = "Failed", strings.Repeat("é", 2000)
		}
		large.Resources = append(large.Resources, r)
	}
	must(t, s.PutReports(ctx, Fence{}, []Report{small, large}, nil))
	got, err := s.ReportsAt(ctx, []PairKey{large.Key, pairKeyOf(9), small.Key})
	must(t, err)
	if len(got) != 2 || got[1].Truncated != 0 || fmt.Sprint(got[1]) != fmt.Sprint(small) {
		t.Fatalf("ReportsAt = %+v, want both, the small one whole", got)
	}
	cut := got[0]
	if cut.Truncated == 0 || len(cut.Resources)+cut.Truncated != 20000 {
		t.Errorf("%d resources and %d left out, want 20000 in all", len(cut.Resources), cut.Truncated)
	}
	failed := slices.Collect(func(yield func(ResourceStatus) bool) {
		for _, r := range cut.Resources {
			if r.Status == "Failed" && !yield(r) {
				return
			}
		}
	})
	if len(failed) != 20 || len(failed[0].Reason) > 520 || !strings.HasPrefix(failed[0].Reason, "éé") {
		t.Errorf("%d failed resources are left, with reasons of %d bytes; want 20 and at most 520", len(failed), len(failed[0].Reason))
	}
	if len(large.Resources[999].Reason) != 4000 || large.Truncated != 0 {
		t.Error("the report given was changed")
	}
	must(t, s.PutReports(ctx, Fence{}, nil, []PairKey{large.Key, small.Key, pairKeyOf(9)}))
	if keys := keysBelow(t, s, "report/"); len(keys) != 0 {
		t.Errorf("keys %q are left", keys)
	}
}

func TestDeliveredAsksForProofOnOneCluster(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	must(t, s.PutPairs(ctx, Fence{}, []Pair{
		{Key: PairKey{Cluster: "edge+a", Deployment: "7", App: "web"}, Desired: "d", Held: []Digest{"d"}},
		{Key: PairKey{Cluster: "edge+ab", Deployment: "7", App: "web"}, Applied: "d"},
	}, nil))
	for cluster, want := range map[v2.ClusterKey]bool{"edge+a": false, "edge+ab": true, "edge+b": false} {
		if got, err := s.HasApplied(ctx, cluster); err != nil || got != want {
			t.Errorf("Delivered(%s) = %v, %v, want %v", cluster, got, err, want)
		}
	}
}

func TestReportedAsksOneCluster(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	must(t, s.PutReports(ctx, Fence{}, []Report{{Key: PairKey{Cluster: "edge+ab", Deployment: "7", App: "web"}}}, nil))
	for cluster, want := range map[v2.ClusterKey]bool{"edge+a": false, "edge+ab": true, "edge+b": false} {
		if got, err := s.Reported(ctx, cluster); err != nil || got != want {
			t.Errorf("Reported(%s) = %v, %v, want %v", cluster, got, err, want)
		}
	}
}

func TestRemainsAreFoundWhereverTheyAre(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	var put []Pair
	for i := range 30 {
		k := pairKeyOf(i)
		k.Deployment = []v2.DeploymentID{"7", "70", "8"}[i%3]
		put = append(put, Pair{Key: k, Rev: int64(i)})
	}
	must(t, s.PutPairs(ctx, Fence{}, put, nil))
	left, err := s.PairsOf(ctx, "7") // no revision names them
	must(t, err)
	if len(left) != 10 || left[1].Key != put[3].Key || left[1].Rev != 3 {
		t.Errorf("Remains = %+v, want the ten of 7 in order", left)
	}
	if left, err := s.PairsOf(ctx, "9"); err != nil || len(left) != 0 {
		t.Errorf("Remains of nothing = %+v, %v", left, err)
	}
}
