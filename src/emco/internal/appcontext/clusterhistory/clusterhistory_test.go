package clusterhistory_test

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

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

// newStore is the store of a process that has stored nothing yet.
func newStore(prefix string) *clusterhistory.Store {
	return clusterhistory.New(etcdkv.New(etcd, prefix, etcdkv.Options{}), clusterhistory.NewLists(1<<20))
}

func all(t *testing.T, s *clusterhistory.Store, id v2.DeploymentID) (out []clusterhistory.Entry) {
	t.Helper()
	return read(t, s.ClusterHistory(t.Context(), id))
}

func read(t *testing.T, entries iter.Seq2[clusterhistory.Entry, error]) (out []clusterhistory.Entry) {
	t.Helper()
	for e, err := range entries {
		must(t, err)
		out = append(out, e)
	}
	return out
}

// What is stored comes back, of few clusters and of many; an entry of very many is split.
func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	prefix := etcdtest.Prefix(t)
	s := newStore(prefix)
	few, many, most := entry(1, "b1", clusters(3)...), entry(2, "b2", clusters(100)...), entry(3, "b3", clusters(4500)...)
	must(t, s.AddClusterHistory(t.Context(), few, many))
	must(t, s.AddClusterHistory(t.Context(), most))
	got := all(t, s, "7")
	for i := range got {
		if got[i].Seq == 0 {
			t.Errorf("entry %d has no place in the order", i)
		}
		got[i].Seq = 0
	}
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
	_, err := etcd.Put(t.Context(), prefix+"/clusterhistory/7/nonsense", "{}")
	must(t, err)
	if n := len(all(t, s, "7")); n != 5 {
		t.Errorf("beside a key that cannot be read, %d entries come back", n)
	}
	must(t, s.TrimClusterHistory(t.Context(), func(v2.DeploymentID) bool { return true }, noon))
	if other := all(t, s, "70"); len(other) != 0 {
		t.Errorf("another deployment has %d entries", len(other))
	}
	bad := entry(4, "b4", "edge+a")
	bad.Deployment = "a/b"
	if err := s.AddClusterHistory(t.Context(), bad); err == nil {
		t.Error("a deployment whose name is no part of a key was stored")
	}
}

// storedLists returns how many lists of clusters are stored.
func storedLists(t *testing.T, prefix string) int {
	t.Helper()
	r, err := etcd.Get(t.Context(), prefix+"/clusterlist/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return int(r.Count)
}

// A fleet that changes again is a list of names once, also from another process.
func TestListsAreShared(t *testing.T) {
	t.Parallel()
	prefix := etcdtest.Prefix(t)
	one, other := newStore(prefix), newStore(prefix)
	fleet := clusters(500)
	for i, s := range []*clusterhistory.Store{one, one, other} {
		must(t, s.AddClusterHistory(t.Context(), entry(i, "b", fleet...), entry(i+10, "b", fleet[:100]...)))
	}
	if n := storedLists(t, prefix); n != 2 {
		t.Errorf("%d lists are stored", n)
	}
	r, err := etcd.Get(t.Context(), prefix+"/clusterhistory/", clientv3.WithPrefix())
	must(t, err)
	for _, kv := range r.Kvs {
		if size := len(kv.Key) + len(kv.Value); size > 300 {
			t.Errorf("an entry of many clusters takes %d bytes: %s", size, kv.Value)
		}
	}
	for _, e := range all(t, newStore(prefix), "7") {
		if n := len(e.Clusters); n != 500 && n != 100 || !slices.Equal(e.Clusters, fleet[:n]) {
			t.Errorf("%d clusters come back", n)
		}
	}
}

// A deployment keeps a bounded number of entries, fewer of those with many clusters; one that was deleted keeps them for a time.
// Lists go with the last entry that names them, unless a process may be about to name them again.
func TestOldEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	prefix := etcdtest.Prefix(t)
	s := newStore(prefix)
	var every []clusterhistory.Entry
	for i := range 1005 {
		every = append(every, entry(i, "b", "edge+a"))
	}
	fleet := clusters(1060)
	for i := range 60 {
		large, same := entry(i, "b", fleet[i:i+1000]...), entry(i, "b", fleet[:1000]...)
		large.Deployment, same.Deployment = "8", "same"
		every = append(every, large, same)
	}
	gone := entry(1, "b", fleet[:30]...)
	gone.Deployment = "9"
	must(t, s.AddClusterHistory(t.Context(), append(every, gone)...))
	exists := func(id v2.DeploymentID) bool { return id != "9" }
	trim := func(before time.Time, lists int, want map[v2.DeploymentID]int) {
		t.Helper()
		must(t, s.TrimClusterHistory(t.Context(), exists, before))
		n, oldest := map[v2.DeploymentID]int{}, map[v2.DeploymentID]time.Time{}
		fresh := newStore(prefix)
		for _, e := range slices.Concat(all(t, fresh, "7"), all(t, fresh, "8"), all(t, fresh, "same"), all(t, fresh, "9")) {
			if n[e.Deployment]++; n[e.Deployment] == 1 {
				oldest[e.Deployment] = e.At
			}
		}
		if !reflect.DeepEqual(n, want) || !oldest["7"].Equal(every[5].At) {
			t.Errorf("%v are kept, the oldest from %v; want %v", n, oldest, want)
		}
		if got := storedLists(t, prefix); got != lists {
			t.Errorf("%d lists are kept, want %d", got, lists)
		}
	}
	trim(noon, 47+1+1, map[v2.DeploymentID]int{"7": 1000, "8": 47, "same": 60, "9": 1})
	trim(noon.Add(time.Hour), 47+1, map[v2.DeploymentID]int{"7": 1000, "8": 47, "same": 60})

	now := entry(1, "b", fleet[:30]...)
	now.Deployment, now.At = "9", time.Now()
	must(t, newStore(prefix).AddClusterHistory(t.Context(), now))
	trim(time.Now().Add(time.Minute), 47+2, map[v2.DeploymentID]int{"7": 1000, "8": 47, "same": 60})
}

// T6a: one version, another, and the first again are three intervals. What is said twice began once, and what was removed holds nothing.
// Entries are in the order in which they were written, whatever the clocks say.
func TestIntervals(t *testing.T) {
	t.Parallel()
	s := newStore(etcdtest.Prefix(t))
	entries := []clusterhistory.Entry{
		entry(1, "v1", "edge+a", "edge+b"), entry(2, "v2", "edge+a"), entry(3, "v2", "edge+a"), entry(4, "v1", "edge+a"),
		entry(5, "", "edge+b"), entry(6, "", "edge+b"), entry(7, "v2", "edge+b"),
	}
	entries[1].At = noon // of a process whose clock is behind
	for _, e := range entries {
		must(t, s.AddClusterHistory(t.Context(), e))
	}
	everywhere := func(v2.ClusterKey) bool { return true }
	intervals, err := clusterhistory.Fold(s.ClusterHistory(t.Context(), "7"), everywhere)
	must(t, err)
	var got []string
	for _, i := range intervals {
		to := "now"
		if !i.To.IsZero() {
			to = i.To.Format("15:04")
		}
		got = append(got, fmt.Sprintf("%s %s %d %s-%s", i.Cluster, i.Bundle, i.Rev, i.From.Format("15:04"), to))
	}
	want := []string{
		"edge+a v1 1 12:01-12:00", "edge+a v2 2 12:00-12:04", "edge+a v1 4 12:04-now",
		"edge+b v1 1 12:01-12:05", "edge+b v2 7 12:07-now",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	onB, err := clusterhistory.Fold(s.ClusterHistory(t.Context(), "7"), func(c v2.ClusterKey) bool { return c == "edge+b" })
	if must(t, err); len(onB) != 2 || onB[0].Cluster != "edge+b" {
		t.Errorf("of one cluster, %v came", onB)
	}
	broken := errors.New("it breaks off")
	ended := func(yield func(clusterhistory.Entry, error) bool) {
		if yield(entries[0], nil) {
			yield(clusterhistory.Entry{}, broken)
		}
	}
	if part, err := clusterhistory.Fold(ended, everywhere); !errors.Is(err, broken) || part != nil {
		t.Errorf("of entries that break off, %v came, and the error %v", part, err)
	}
}

// The entries of one cluster come from all deployments, without the clusters that changed alike, whether a list names them or not.
func TestEntriesOfOneCluster(t *testing.T) {
	t.Parallel()
	s := newStore(etcdtest.Prefix(t))
	of := func(id v2.DeploymentID, e clusterhistory.Entry) clusterhistory.Entry { e.Deployment = id; return e }
	for _, e := range []clusterhistory.Entry{
		of("7", entry(1, "b1", "edge+store-00001")), of("7", entry(2, "b2", clusters(100)...)), of("7", entry(3, "b3", "edge+store-000010")),
		of("8", entry(1, "b1", "edge+store-00001", "edge+store-00002")), of("9", entry(1, "b1", "edge+store-00002")), of("9", entry(2, "b2", clusters(100)[50:]...)),
	} {
		must(t, s.AddClusterHistory(t.Context(), e))
	}
	var got []string
	for _, e := range read(t, s.ClusterHistoryOn(t.Context(), "edge+store-00001")) {
		got = append(got, fmt.Sprint(e.Deployment, e.Apps[0].Bundle, e.Clusters))
	}
	if want := []string{"7b1[edge+store-00001]", "7b2[edge+store-00001]", "8b1[edge+store-00001]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
