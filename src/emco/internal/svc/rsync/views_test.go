package rsync

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"

	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// estate is a sink over a real repository, with clusters that are spread over shards.
type estate struct {
	*testing.T
	server   *gittest.Server
	bare     gittest.Bare
	sink     *gitSink
	settings gitops.Settings
	backend  syncer.Backend
}

func newEstate(t *testing.T, mode string) *estate {
	t.Helper()
	y := &estate{T: t}
	var err error
	if y.server, err = gittest.Serve(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = y.server.Close() })
	if y.bare, err = y.server.CreateRepo(t.Context(), "fleet", "main"); err != nil {
		t.Fatal(err)
	}
	if y.backend, err = backends.Backends().Open("fluxcd", nil); err != nil {
		t.Fatal(err)
	}
	host := plain.New(plain.Options{})
	writers := batch.New(host, batch.Options{Window: time.Millisecond})
	t.Cleanup(writers.Close)
	shelved := shelf{}
	shelved.put("one", "one")
	shelved.put("two", "two")
	c := content.NewReader(shelved)
	l := storeOf(t)
	y.sink = &gitSink{commits: writers, contents: c, ledger: l, ways: content.NewStepPlans(c), brakes: queue.NewCancellations(t.Context()), branches: unwritten(t), log: slog.New(slog.DiscardHandler)}
	y.settings = gitops.Settings{
		Repo: git.Repo{URL: y.server.URL("fleet")}, Branch: "main",
		Sharding: gitops.Sharding{Mode: mode, Views: gitops.DefaultViewPrefix},
	}
	return y
}

// wish wants a bundle on the clusters from first to last, by lanes: those with shards of a
// size. It delivers all, and returns the outcomes by cluster.
func (y *estate) wish(bundle appcontext.Digest, first, last, size int) map[string]pair.Result {
	y.Helper()
	lanes, found := map[string][]pair.Target{}, map[pair.Target]route.Route{}
	for i := first; i < last; i++ {
		name := fmt.Sprintf("edge+c%05d", i)
		at := pair.Target{Cluster: name, UID: "7"}
		seat := gitops.Seat{Mode: y.settings.Sharding.Mode, Shard: gitops.ShardName(i / size)}
		d := route.Route{Backend: y.backend, Settings: y.settings.At(name, seat)}
		hold(y.T, y.sink.ledger, appcontext.Pair{Key: appcontext.PairKey{Cluster: name, UID: "7", App: "web"}, Desired: bundle, Phase: appcontext.Pending})
		found[at] = d
		lanes[d.Settings.Branch] = append(lanes[d.Settings.Branch], at)
	}
	out := map[string]pair.Result{}
	for _, due := range lanes {
		for _, o := range slices.Concat(slices.Collect(y.sink.deliver(y.Context(), due, found))...) {
			if o.Err != nil {
				y.Fatal(o.Err)
			}
			out[o.Key.Cluster] = o
		}
	}
	return out
}

func (y *estate) git(args ...string) string {
	y.Helper()
	out, err := y.bare.Git(y.Context(), "", args...)
	if err != nil {
		y.Fatal(err)
	}
	return out
}

// commits counts what is on the shards, and on the branches of clusters.
func (y *estate) commits() (shards, views string) {
	y.Helper()
	return y.git("rev-list", "--count", "--glob=refs/heads/main-*"), y.git("rev-list", "--count", "--glob=refs/heads/clusters/*")
}

// H-56: 3,200 clusters are one commit and one push for each shard, a change of one cluster is
// one, whatever the size of the fleet, and nobody else's branch moves.
func TestH56AFleetOfThousandsIsAFewPushes(t *testing.T) {
	t.Parallel()
	y := newEstate(t, gitops.RefCluster)
	size := 800
	if raced {
		size = 80
	}
	one, all := size+size/4, 4*size
	done := y.wish("one", 0, all, size)
	if shards, views := y.commits(); shards != "4" || views != strconv.Itoa(all) {
		t.Errorf("%s commits on shards and %s on views, want 4 and %d", shards, views, all)
	}
	if _, pushes := y.server.Requests(); pushes != 4 {
		t.Errorf("%d pushes, want 4", pushes)
	}
	changed := y.wish("two", one, one+1, size)
	if shards, views := y.commits(); shards != "5" || views != strconv.Itoa(all+1) {
		t.Errorf("after one change: %s commits on shards and %s on views, want 5 and %d", shards, views, all+1)
	}
	if _, pushes := y.server.Requests(); pushes != 5 {
		t.Errorf("%d pushes, want 5", pushes)
	}
	moved, other := fmt.Sprintf("edge+c%05d", one), fmt.Sprintf("edge+c%05d", 2*one)
	for _, cluster := range []string{moved, other} {
		o := done[cluster]
		if cluster == moved {
			o = changed[cluster]
		}
		if at := y.git("rev-parse", "clusters/"+cluster); at != o.Commit {
			t.Errorf("%s is said to be at %s, and its view is at %s", cluster, o.Commit, at)
		}
	}
	pointer := y.git("cat-file", "blob", "clusters/"+moved+":clusters/"+moved+"/7.yaml")
	if !strings.Contains(pointer, "branch: clusters/"+moved+"\n") {
		t.Errorf("the pointer does not lead to the cluster's own branch:\n%s", pointer)
	}
	for _, dir := range []string{"main-s000:clusters", "main-s003:clusters"} {
		if n := strings.Count(y.git("ls-tree", dir)+"\n", "\n"); n > 3000 {
			t.Errorf("%s has %d entries", dir, n)
		}
	}
	again := y.wish("two", one, one+1, size)
	if again[moved].Commit != changed[moved].Commit {
		t.Error("the same again came to another commit")
	}
	if _, pushes := y.server.Requests(); pushes != 5 {
		t.Errorf("the same again was pushed")
	}
}
