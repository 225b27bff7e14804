package clm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

// clusterRegistry is a server with a provider and a sync object, to register clusters at.
type clusterRegistry struct {
	t *testing.T
	*resourcetest.Server
	moves *fakeRelocations
	log   *resourcetest.Log
}

func newRegistry(t *testing.T, keys map[string]string) *clusterRegistry {
	t.Helper()
	r := &clusterRegistry{t: t, moves: newFakeRelocations(), log: &resourcetest.Log{}}
	no := func(_ context.Context, cluster v2.ClusterKey) (bool, error) { return cluster == "edge+busy", nil }
	r.Server = resourcetest.Serve(t, func(routes *mux.Router, db *store.DB) {
		clm.Resources{DB: db, Backends: backends.Backends(), Delivered: no, Wanted: no, Moves: r.moves, Log: slog.New(slog.NewTextHandler(r.log, nil))}.Mount(routes)
	})
	r.Run(t, step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201})
	r.object("repo", keys)
	return r
}

func (r *clusterRegistry) object(name string, keys map[string]string) {
	r.t.Helper()
	all := map[string]string{"url": "https://git.example/me/r.git", "userName": "me", "gitToken": planted}
	for k, v := range keys {
		all[k] = v
	}
	var o v2.SyncObject
	o.Metadata.Name = name
	text, err := json.Marshal(map[string]any{"metadata": map[string]string{"name": name}, "spec": map[string]any{"kv": []any{all}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Run(r.t, step{Do: "PUT /v2/cluster-providers/edge/cluster-sync-objects/" + name, Body: string(text), Status: 201})
}

// register registers a cluster, and returns where it is.
func (r *clusterRegistry) register(name, more string) (v2.GitOps, int) {
	r.t.Helper()
	body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"%s}}}`, name, more)
	a := r.Do(r.t, step{Do: "POST /v2/cluster-providers/edge/clusters", Body: body, File: "ignored"})
	var c v2.Cluster
	if a.Status == http.StatusCreated {
		if err := json.Unmarshal([]byte(a.Body), &c); err != nil {
			r.t.Fatal(err)
		}
	}
	return c.Spec.GitOps, a.Status
}

func TestAClusterIsOnTheSharedBranchByDefault(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"shardSize": "3"})
	for i := range 7 {
		if g, _ := r.register(fmt.Sprintf("c%d", i), ""); g.RefMode != "" || g.Shard != "" || g.FanOut {
			t.Fatalf("cluster %d is at %+v", i, g)
		}
	}
	if n := strings.Count(r.log.String(), "one branch holds more clusters"); n != 2 {
		t.Errorf("%d warnings, want one at 4 and one at 7: %s", n, r.log)
	}
}

// Shards fill up and new ones are opened. Registered clusters do not move, and a cluster
// may name its shard.
func TestShardsGrowWithTheFleet(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "shard", "shardSize": "10", "shards": "2"})
	held := map[string]int{}
	for i := range 35 {
		g, _ := r.register(fmt.Sprintf("c%d", i), "")
		if g.RefMode != "shard" {
			t.Fatalf("cluster %d is at %+v", i, g)
		}
		if held[g.Shard]++; i == 15 && len(held) != 2 {
			t.Errorf("after 16 clusters: %v, want both shards of the start", held)
		}
	}
	if len(held) != 4 || held["s000"] != 10 || held["s001"] != 10 || held["s002"] != 10 || held["s003"] != 5 {
		t.Errorf("the shards hold %v", held)
	}
	if g, _ := r.register("wish", `,"gitOpsShard":"s042"`); g.Shard != "s042" || g.RefMode != "shard" {
		t.Errorf("who asked for a shard is at %+v", g)
	}
	if _, status := r.register("late", `,"gitOpsShard":"s001"`); status != http.StatusConflict {
		t.Errorf("who asked for a full shard got %d, want 409", status)
	}
	if _, status := r.register("bad", `,"gitOpsShard":"../x"`); status != http.StatusBadRequest {
		t.Errorf("a shard of another form got %d, want 400", status)
	}
	if _, status := r.register("c1", ""); status != http.StatusConflict {
		t.Errorf("a second one of that name got %d, want 409", status)
	}
	r.Run(t, step{Do: "GET /v2/cluster-providers/edge/clusters/c3", Status: 200, Text: `"gitOpsShard":"s0`})
	r.object("repo", map[string]string{"refMode": "branch"})
	r.Run(t, step{Do: "GET /v2/cluster-providers/edge/clusters/c3", Status: 200, Text: `"gitOpsRefMode":"shard"`})
}

// Two who register at once do not get the last place both.
func TestTheLastPlaceIsGivenOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "shard", "shardSize": "5"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	held := map[string]int{}
	for i := range 25 {
		wg.Go(func() {
			g, _ := r.register(fmt.Sprintf("c%d", i), "")
			mu.Lock()
			defer mu.Unlock()
			held[g.Shard]++
		})
	}
	wg.Wait()
	for shard, n := range held {
		if n != 5 {
			t.Errorf("%s holds %d clusters, want 5: %v", shard, n, held)
		}
	}
}

func TestABranchOfItsOwnHasLimits(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "cluster"})
	if g, _ := r.register("c0", ""); g.RefMode != "cluster" || g.Shard != "s000" {
		t.Errorf("the cluster is at %+v", g)
	}
	if _, status := r.register("a..b", ""); status != http.StatusBadRequest {
		t.Errorf("a name that is no branch got %d, want 400", status)
	}
}

// H-56: GitHub takes 3,000 entries in a directory and 5,000 branches in a repository.
func TestH56DirectoriesAndBranchesStayWithinTheirLimits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("registers thousands of clusters")
	}
	r := newRegistry(t, map[string]string{"statusMode": "path"})
	seed(t, r, 2743, v2.GitOps{Type: "git", Reference: "repo"})
	g, _ := r.register("last", "")
	h, _ := r.register("next", "")
	if g.FanOut || !h.FanOut {
		t.Errorf("the 2744th cluster fans out: %v, the next one: %v", g.FanOut, h.FanOut)
	}
	r = newRegistry(t, map[string]string{"refMode": "cluster"})
	seed(t, r, 2499, v2.GitOps{Type: "git", Reference: "repo", RefMode: "cluster", Shard: "s007"})
	if g, _ := r.register("last", ""); g.Shard != "s000" {
		t.Errorf("the last one is at %+v", g)
	}
	if _, status := r.register("next", ""); status != http.StatusConflict {
		t.Errorf("one more branch got %d, want 409", status)
	}
}

// seed stores clusters as if they had been registered.
func seed(t *testing.T, r *clusterRegistry, many int, g v2.GitOps) {
	t.Helper()
	for i := range many {
		var c v2.Cluster
		c.Metadata.Name = fmt.Sprintf("seed%d", i)
		c.Spec.GitOps = g
		body, err := json.Marshal(c)
		if err == nil {
			_, err = r.DB.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + c.Metadata.Name), Body: body})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A cluster on which nothing is deployed moves on request, and keeps its labels.
func TestAClusterMovesWhileNothingIsDeployedThere(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "shard", "shardSize": "2"})
	for _, name := range []string{"c0", "c1", "c2", "busy"} {
		r.register(name, "")
	}
	const at = "/v2/cluster-providers/edge/clusters/"
	r.Run(t,
		step{Do: "POST " + at + "c0/labels", Body: `{"clusterLabel":"all"}`, Status: 201},
		step{Do: "POST " + at + "c0/move", Body: `{"gitOpsShard":"s001"}`, Status: 409, Text: "is full"},
		step{Do: "POST " + at + "c0/move", Body: `{"gitOpsShard":"s007"}`, Status: 200, Text: `"gitOpsRefMode":"shard","gitOpsShard":"s007"`},
		step{Do: "GET " + at + "c0", Status: 200, Text: `"gitOpsShard":"s007"`},
		step{Do: "GET " + at + "c0/labels/all", Status: 200},
		step{Do: "POST " + at + "c2/move", Status: 200, Text: `"gitOpsShard":"s00`},
		step{Do: "POST " + at + "c0/move", Body: `{"gitOpsRefMode":"cluster"}`, Status: 200, Text: `"gitOpsRefMode":"cluster"`},
		step{Do: "POST " + at + "c0/move", Body: `{"gitOpsShard":"../x"}`, Status: 400},
		step{Do: "POST " + at + "c0/move", Body: `{"shard":"s007"}`, Status: 422},
		step{Do: "POST " + at + "none/move", Status: 404},
	)
}
