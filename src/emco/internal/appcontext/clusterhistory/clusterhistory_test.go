package clusterhistory_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// clusters returns n keys, in order.
func clusters(n int) (out []v2.ClusterKey) {
	for i := range n {
		out = append(out, v2.ClusterKey(fmt.Sprintf("edge+store-%05d", i)))
	}
	return out
}

// entry is a change of one app some minutes after noon; without a bundle the app is removed.
func entry(minutes int, bundle manifest.Digest, on ...v2.ClusterKey) clusterhistory.Entry {
	a := clusterhistory.AppChange{App: "web", Change: pairstore.Upgrade, Rev: int64(minutes), Bundle: bundle, Commit: "c0ffee"}
	if bundle == "" {
		a = clusterhistory.AppChange{App: "web", Change: pairstore.Remove}
	}
	return clusterhistory.Entry{Deployment: "7", At: noon.Add(time.Duration(minutes) * time.Minute), Document: "projects/p/x", Apps: []clusterhistory.AppChange{a}, Clusters: on}
}

func all(t *testing.T, s *clusterhistory.Store, id v2.DeploymentID) (out []clusterhistory.Entry) {
	t.Helper()
	for e, err := range s.ClusterHistory(t.Context(), id) {
		must(t, err)
		out = append(out, e)
	}
	return out
}

// What is stored comes back, of few clusters and of many; an entry of very many is split.
func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	s := clusterhistory.New(etcdkv.New(etcd, etcdtest.Prefix(t), etcdkv.Options{}))
	few, many, most := entry(1, "b1", clusters(3)...), entry(2, "b2", clusters(100)...), entry(3, "b3", clusters(4500)...)
	must(t, s.AddClusterHistory(t.Context(), few, many))
	must(t, s.AddClusterHistory(t.Context(), most))
	got := all(t, s, "7")
	if len(got) != 5 || !reflect.DeepEqual(got[0], few) || !reflect.DeepEqual(got[1], many) {
		t.Fatalf("%d entries, the first are %+v", len(got), got[:min(2, len(got))])
	}
	var names []v2.ClusterKey
	for _, e := range got[2:] {
		names = append(names, e.Clusters...)
	}
	if slices.Sort(names); !slices.Equal(names, most.Clusters) {
		t.Errorf("the parts of a large entry have %d clusters, want %d", len(names), len(most.Clusters))
	}
	if other := all(t, s, "70"); len(other) != 0 {
		t.Errorf("another deployment has %d entries", len(other))
	}
	bad := entry(4, "b4", "edge+a")
	bad.Deployment = "a/b"
	if err := s.AddClusterHistory(t.Context(), bad); err == nil {
		t.Error("a deployment whose name is no part of a key was stored")
	}
}

// A deployment keeps a bounded number of entries, fewer of those with many clusters; one that was deleted keeps them for a time.
func TestOldEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	s := clusterhistory.New(etcdkv.New(etcd, etcdtest.Prefix(t), etcdkv.Options{}))
	var small, large []clusterhistory.Entry
	for i := range 1005 {
		small = append(small, entry(i, "b", "edge+a"))
	}
	for i := range 60 {
		e := entry(i, "b", clusters(1000)...)
		e.Deployment = "8"
		large = append(large, e)
	}
	gone := entry(1, "b", "edge+a")
	gone.Deployment = "9"
	must(t, s.AddClusterHistory(t.Context(), slices.Concat(small, large, []clusterhistory.Entry{gone})...))
	exists := func(id v2.DeploymentID) bool { return id != "9" }
	must(t, s.TrimClusterHistory(t.Context(), exists, noon))
	counts := func() (n map[v2.DeploymentID]int, oldest map[v2.DeploymentID]time.Time) {
		n, oldest = map[v2.DeploymentID]int{}, map[v2.DeploymentID]time.Time{}
		for _, e := range all(t, s, "") {
			if n[e.Deployment]++; n[e.Deployment] == 1 {
				oldest[e.Deployment] = e.At
			}
		}
		return n, oldest
	}
	n, oldest := counts()
	if want := (map[v2.DeploymentID]int{"7": 1000, "8": 47, "9": 1}); !reflect.DeepEqual(n, want) || !oldest["7"].Equal(small[5].At) {
		t.Errorf("%v are kept, the oldest from %v; want %v", n, oldest, want)
	}
	must(t, s.TrimClusterHistory(t.Context(), exists, noon.Add(time.Hour)))
	if n, _ = counts(); n["9"] != 0 || n["7"] != 1000 {
		t.Errorf("%v are kept an hour later", n)
	}
}

// T6a: one version, another, and the first again are three intervals. What is said twice began once, and what was removed holds nothing.
func TestIntervals(t *testing.T) {
	t.Parallel()
	entries := []clusterhistory.Entry{
		entry(1, "v1", "edge+a", "edge+b"), entry(2, "v2", "edge+a"), entry(3, "v2", "edge+a"), entry(4, "v1", "edge+a"),
		entry(5, "", "edge+b"), entry(6, "", "edge+b"), entry(7, "v2", "edge+b"),
	}
	slices.Reverse(entries) // in any order
	var got []string
	for _, i := range clusterhistory.Fold(entries, func(_ v2.ClusterKey, app string) bool { return app == "web" }) {
		to := "now"
		if !i.To.IsZero() {
			to = i.To.Format("15:04")
		}
		got = append(got, fmt.Sprintf("%s %s %d %s-%s", i.Cluster, i.Bundle, i.Rev, i.From.Format("15:04"), to))
	}
	want := []string{
		"edge+a v1 1 12:01-12:02", "edge+a v2 2 12:02-12:04", "edge+a v1 4 12:04-now",
		"edge+b v1 1 12:01-12:05", "edge+b v2 7 12:07-now",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if none := clusterhistory.Fold(entries, func(v2.ClusterKey, string) bool { return false }); len(none) != 0 {
		t.Errorf("nothing was asked for, and %v came", none)
	}
}
