package gitwriter_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// fleet is a writer over a real repository, with clusters that are spread over shards.
type fleet struct {
	*testing.T
	server   *gittest.Server
	bare     gittest.Bare
	writer   *deliver.Writer
	pairs    fakePairs
	settings syncobjects.Settings
	backend  syncer.Backend
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, pairs: fakePairs{}}
	var err error
	if f.server, err = gittest.Serve(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.server.Close() })
	if f.bare, err = f.server.CreateRepo(t.Context(), "fleet", "main"); err != nil {
		t.Fatal(err)
	}
	if f.backend, err = backends.Backends().Open("fluxcd", nil); err != nil {
		t.Fatal(err)
	}
	writers := batch.New(plain.New(plain.Options{}), batch.Options{Window: time.Millisecond})
	t.Cleanup(writers.Close)
	stored := bundles{}
	stored.put("one", "one")
	stored.put("two", "two")
	reader := content.NewReader(stored)
	f.writer = &deliver.Writer{
		Commits: writers, Content: reader, Plans: content.NewStepPlans(reader), Pairs: f.pairs, Branches: fakeBranches{},
		Cancellations: queue.NewCancellations(t.Context()), Log: slog.New(slog.DiscardHandler),
	}
	f.settings = syncobjects.Settings{
		Repo: git.Repo{URL: f.server.URL("fleet")}, Branch: "main",
		Sharding: syncobjects.Sharding{Mode: syncobjects.RefCluster, DerivedPrefix: syncobjects.DefaultDerivedPrefix},
	}
	return f
}

// deliver delivers a bundle to the clusters from first to last, in shards of a size. It
// returns the results by cluster.
func (f *fleet) deliver(bundle appcontext.Digest, first, last, size int) map[v2.ClusterKey]pair.Result {
	f.Helper()
	byBranch, routes := f.due(bundle, first, last, size)
	out := map[v2.ClusterKey]pair.Result{}
	for _, due := range byBranch {
		f.writer.Deliver(f.Context(), due, routes, func(results []pair.Result) {
			for _, r := range results {
				if r.Err != nil {
					f.Fatal(r.Err)
				}
				out[r.Key.Cluster] = r
			}
		}, always)
	}
	return out
}

// due makes a bundle desired on clusters, and returns their targets by branch.
func (f *fleet) due(bundle appcontext.Digest, first, last, size int) (map[route.Branch][]pair.Target, map[pair.Target]route.Route) {
	byBranch, routes := map[route.Branch][]pair.Target{}, map[pair.Target]route.Route{}
	for i := first; i < last; i++ {
		name := fmt.Sprintf("edge+c%05d", i)
		t := pair.Target{Cluster: v2.ClusterKey(name), Deployment: "7"}
		slot := syncobjects.Slot{Mode: syncobjects.RefCluster, Shard: syncobjects.ShardName(i / size)}
		at := f.settings.At(name, slot)
		r := route.Route{Backend: f.backend, Settings: &at}
		f.pairs[t] = []appcontext.Pair{{Key: appcontext.PairKey{Cluster: v2.ClusterKey(name), Deployment: "7", App: "web"}, Desired: bundle, Phase: appcontext.Pending}}
		routes[t] = r
		byBranch[r.Branch()] = append(byBranch[r.Branch()], t)
	}
	return byBranch, routes
}

func (f *fleet) git(args ...string) string {
	f.Helper()
	out, err := f.bare.Git(f.Context(), "", args...)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// wantCommits compares the number of commits on shards and on branches of clusters, and
// the number of pushes so far.
func (f *fleet) wantCommits(what string, shards, clusters, pushes int) {
	f.Helper()
	onShards, onClusters := f.git("rev-list", "--count", "--glob=refs/heads/main-*"), f.git("rev-list", "--count", "--glob=refs/heads/clusters/*")
	if onShards != strconv.Itoa(shards) || onClusters != strconv.Itoa(clusters) {
		f.Errorf("%s: %s commits on shards and %s on branches of clusters, want %d and %d", what, onShards, onClusters, shards, clusters)
	}
	if _, n := f.server.Requests(); n != pushes {
		f.Errorf("%s: %d pushes, want %d", what, n, pushes)
	}
}

// H-56: 3,200 clusters are one commit and one push for each shard. A change of one cluster
// is one commit, whatever the size of the fleet, and moves no other cluster's branch.
func TestH56AFleetOfThousandsIsAFewPushes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	size := 800
	if raced {
		size = 80
	}
	one, all := size+size/4, 4*size
	first := f.deliver("one", 0, all, size)
	f.wantCommits("at first", 4, all, 4)
	changed := f.deliver("two", one, one+1, size)
	f.wantCommits("after one change", 5, all+1, 5)

	moved, other := fmt.Sprintf("edge+c%05d", one), fmt.Sprintf("edge+c%05d", 2*one)
	for cluster, result := range map[string]pair.Result{moved: changed[v2.ClusterKey(moved)], other: first[v2.ClusterKey(other)]} {
		if at := f.git("rev-parse", "clusters/"+cluster); at != result.Commit {
			t.Errorf("the result of %s is commit %s, its branch is at %s", cluster, result.Commit, at)
		}
	}
	pointer := f.git("cat-file", "blob", "clusters/"+moved+":clusters/"+moved+"/7.yaml")
	if !strings.Contains(pointer, "branch: clusters/"+moved+"\n") {
		t.Errorf("the pointer does not name the cluster's own branch:\n%s", pointer)
	}
	for _, dir := range []string{"main-s000:clusters", "main-s003:clusters"} {
		if n := strings.Count(f.git("ls-tree", dir)+"\n", "\n"); n > 3000 {
			t.Errorf("%s has %d entries", dir, n)
		}
	}
	again := f.deliver("two", one, one+1, size)
	if again[v2.ClusterKey(moved)].Commit != changed[v2.ClusterKey(moved)].Commit {
		t.Error("the same content again made another commit")
	}
	f.wantCommits("the same again", 5, all+1, 5)
}

// faultyBackend panics when it plans one cluster.
type faultyBackend struct {
	syncer.Backend
	cluster v2.ClusterKey
}

func (b faultyBackend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	if t.Cluster == b.cluster {
		panic("index out of range")
	}
	return b.Backend.Plan(t, apps)
}

// A target that causes a panic fails alone, for long, and the others of the same commit arrive.
func TestF74ATargetThatPanicsFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	counted := 0
	f.writer.Panics = &contain.Panics{Log: f.writer.Log, Count: func(string) { counted++ }}
	f.backend = faultyBackend{f.backend, "edge+c00001"}
	due, routes := f.due("one", 0, 3, 10)
	results := map[v2.ClusterKey]error{}
	for _, targets := range due {
		f.writer.Deliver(t.Context(), targets, routes, func(some []pair.Result) {
			for _, r := range some {
				results[r.Key.Cluster] = r.Err
			}
		}, always)
	}
	if err := results["edge+c00001"]; !contain.Is(err) || !pair.Permanent(err) || counted != 1 {
		t.Errorf("the target that panics: %v, counted %d", err, counted)
	}
	if len(results) != 3 || results["edge+c00000"] != nil || results["edge+c00002"] != nil {
		t.Errorf("results are %v", results)
	}
	if f.git("rev-list", "--count", "main-s000") != "1" {
		t.Errorf("the shard has %s commits", f.git("rev-list", "--count", "main-s000"))
	}
}
