package route_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

const provider = "cluster-providers/edge"

// clusterFixture holds the documents of provider "edge".
type clusterFixture struct {
	*testing.T
	db *store.DB
}

func newFleet(t *testing.T) clusterFixture {
	t.Helper()
	f := clusterFixture{t, resourcetest.DB(t)}
	f.put(provider, v2.Named{}, "")
	return f
}

func (f clusterFixture) put(key store.Key, doc any, secret string) {
	f.Helper()
	resourcetest.Put(f, f.db, key, doc, secret)
}

// register registers a cluster; one without settings is reached directly.
func (f clusterFixture) register(name string, g v2.GitOps, kubeconfig string) {
	f.Helper()
	c := v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: name}}}
	c.Spec.GitOps = g
	f.put(store.Key(provider+"/clusters/"+name), c, kubeconfig)
}

// syncObject stores a sync object that names a repository.
func (f clusterFixture) syncObject(name, url, branch string) {
	f.Helper()
	f.put(store.Key(provider+"/cluster-sync-objects/"+name), nil, syncObject(name, url, branch))
}

func syncObject(name, url, branch string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"kv":[{"url":%q},{"branch":%q},{"userName":"emco"},{"gitToken":"secret"}]}}`, name, url, branch)
}

func (f clusterFixture) resolver() *route.Resolver {
	return &route.Resolver{DB: f.db, Rules: syncobjects.Rules{}, Backends: backends.Backends()}
}

// Registrations that are read together are the same as if each had been read alone.
func TestPrefetchedRegistrationsAreTheSame(t *testing.T) {
	t.Parallel()
	const many = 500
	f := newFleet(t)
	clusters := make([]v2.ClusterKey, many)
	for i := range clusters {
		name := fmt.Sprintf("c%03d", i)
		clusters[i] = v2.ClusterKey("edge+" + name)
		f.register(name, v2.GitOps{Type: "git", Reference: "one", Shard: name}, "")
	}
	r := f.resolver()
	want, err := r.Lookup().Registration(t.Context(), clusters[7])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{many - 1, many} {
		l := r.Lookup()
		l.Prefetch(t.Context(), slices.Values(clusters[:n]))
		got, err := l.Registration(t.Context(), clusters[7])
		if err != nil || !reflect.DeepEqual(got, want) || got.GitOps.Shard != "c007" {
			t.Errorf("after %d were prefetched: got %+v, %v; want %+v", n, got, err, want)
		}
		if _, err := l.Registration(t.Context(), "edge+missing"); !errs.Is(err, errs.NotFound) {
			t.Errorf("after %d were prefetched: a cluster that is not registered: got %v", n, err)
		}
	}
}

// Clusters on one branch are in one shard, whatever their sync objects are called; each
// directly reached cluster has its own, and so has one that cannot be resolved.
func TestShards(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.syncObject("one", "https://git.example/fleet", "main")
	f.syncObject("two", "https://git.example/fleet", "main")
	f.syncObject("other", "https://git.example/fleet", "side")
	f.register("a", v2.GitOps{Type: "git", Reference: "one"}, "")
	f.register("b", v2.GitOps{Type: "git", Reference: "two"}, "")
	f.register("c", v2.GitOps{Type: "git", Reference: "other"}, "")
	f.register("lost", v2.GitOps{Type: "git", Reference: "missing"}, "")
	f.register("direct", v2.GitOps{}, "kubeconfig")
	got, err := f.resolver().Shards(t.Context(), []v2.ClusterKey{"edge+a", "edge+b", "edge+c", "edge+lost", "edge+direct", "edge+unregistered"})
	if err != nil {
		t.Fatal(err)
	}
	main, side := route.Branch{URL: "https://git.example/fleet", Name: "main"}, route.Branch{URL: "https://git.example/fleet", Name: "side"}
	want := map[v2.ClusterKey]int{
		"edge+a": main.Shard(), "edge+b": main.Shard(), "edge+c": side.Shard(),
		"edge+lost": route.Group.Of("kube edge+lost"), "edge+direct": route.Group.Of("kube edge+direct"), "edge+unregistered": route.Group.Of("kube edge+unregistered"),
	}
	for c, n := range want {
		if got[c] != n {
			t.Errorf("%s is in shard %d, want %d", c, got[c], n)
		}
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.syncObject("repo", "https://git.example/fleet", "main")
	f.register("fed", v2.GitOps{Type: "git", Reference: "repo"}, "")
	f.register("lost", v2.GitOps{Type: "git", Reference: "missing"}, "")
	f.register("direct", v2.GitOps{}, "kubeconfig")
	f.register("bare", v2.GitOps{}, "")
	l := f.resolver().Lookup()
	fed, err := l.Route(t.Context(), "edge+fed")
	if want := (route.Branch{URL: "https://git.example/fleet", Name: "main"}); err != nil || fed.Backend == nil || fed.Branch() != want || fed.Registration == "" {
		t.Errorf("through Git: %+v, %v", fed, err)
	}
	direct, err := l.Route(t.Context(), "edge+direct")
	if err != nil || direct.Backend != nil || string(direct.Kubeconfig) != "kubeconfig" || direct.Queue == fed.Queue {
		t.Errorf("directly: %+v, %v", direct, err)
	}
	for cluster, kind := range map[v2.ClusterKey]errs.Kind{"edge+lost": errs.Invalid, "edge+bare": errs.Invalid, "edge+unregistered": errs.NotFound} {
		if _, err := l.Route(t.Context(), cluster); !errs.Is(err, kind) {
			t.Errorf("%s: got %v, want it to be %v", cluster, err, kind)
		}
	}
	again, err := f.resolver().Lookup().Route(t.Context(), "edge+fed")
	if err != nil || again.Queue != fed.Queue {
		t.Errorf("another lookup: %+v, %v", again, err)
	}
}

// Clusters that are registered alike share their settings, which are worked out once. Clusters with another place in the
// repository, or with a branch of their own, do not.
func TestClustersThatAreAlikeShareSettings(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.syncObject("repo", "https://git.example/fleet", "main")
	at := func(mode, shard string) v2.GitOps {
		return v2.GitOps{Type: "git", Reference: "repo", RefMode: mode, Shard: shard}
	}
	f.register("a", at("shard", "s000"), "")
	f.register("b", at("shard", "s000"), "")
	f.register("other", at("shard", "s001"), "")
	f.register("own1", at("cluster", "s000"), "")
	f.register("own2", at("cluster", "s000"), "")
	l, settings := f.resolver().Lookup(), map[string]*syncobjects.Settings{}
	for cluster, branch := range map[string]string{"a": "main-s000", "b": "main-s000", "other": "main-s001", "own1": "main-s000", "own2": "main-s000"} {
		r, err := l.Route(t.Context(), v2.NewClusterKey("edge", cluster))
		if err != nil || r.Settings.Branch != branch {
			t.Fatalf("%s: %+v, %v; want branch %s", cluster, r, err, branch)
		}
		settings[cluster] = r.Settings
	}
	if settings["a"] != settings["b"] {
		t.Error("two clusters that are alike do not share settings")
	}
	if one, two := settings["own1"].DerivedBranch, settings["own2"].DerivedBranch; one == two || one == "" {
		t.Errorf("clusters with branches of their own read %q and %q", one, two)
	}
}

// A changed sync object is used instead of the stored one, in this lookup alone.
func TestReplace(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.syncObject("repo", "https://git.example/fleet", "main")
	changed, err := v2.Decode[v2.SyncObject]([]byte(syncObject("repo", "https://git.example/fleet", "next")), v2.Lenient)
	if err != nil {
		t.Fatal(err)
	}
	r := f.resolver()
	l := r.Lookup()
	l.Replace("edge", changed)
	g := v2.GitOps{Type: "git", Reference: "repo"}
	for want, l := range map[string]*route.Lookup{"next": l, "main": r.Lookup()} {
		if s, err := l.SharedSettings(t.Context(), "edge", g); err != nil || s.Branch != want {
			t.Errorf("branch %q, %v; want %q", s.Branch, err, want)
		}
	}
}
