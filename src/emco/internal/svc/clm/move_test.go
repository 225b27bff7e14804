package clm_test

import (
	"context"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
)

// fakeRelocations keeps in memory how far moves are.
type fakeRelocations struct {
	mu  sync.Mutex
	all map[v2.ClusterKey]gitstate.Relocation
}

func newFakeRelocations() *fakeRelocations {
	return &fakeRelocations{all: map[v2.ClusterKey]gitstate.Relocation{}}
}

func (r *fakeRelocations) Relocation(_ context.Context, cluster v2.ClusterKey) (gitstate.Relocation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.all[cluster]
	if !ok {
		return rec, errs.New(errs.NotFound, "no move")
	}
	return rec, nil
}

func (r *fakeRelocations) AskRelocation(_ context.Context, ask gitstate.Relocation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ask.Stage = gitstate.MoveAsked
	r.all[ask.Cluster] = ask
	return nil
}

func (r *fakeRelocations) TurnBack(_ context.Context, cluster v2.ClusterKey, registration string, number int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.all[cluster]; rec.Stage == gitstate.MoveWritten || rec.Finish {
		return errs.New(errs.Conflict, "too late")
	}
	r.all[cluster] = gitstate.Relocation{Cluster: cluster, Registration: registration, Number: number + 1, Stage: gitstate.MoveAsked}
	return nil
}

func (r *fakeRelocations) LeaveRelocation(_ context.Context, cluster v2.ClusterKey, registration string, left gitstate.LeftPlace) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[cluster] = gitstate.Relocation{Cluster: cluster, Registration: registration, Stage: gitstate.MoveLeft, Left: left}
	return nil
}

func (r *fakeRelocations) ForgetRelocation(_ context.Context, cluster v2.ClusterKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, cluster)
	return nil
}

// reach notes that a cluster's move has got to a stage.
func (r *fakeRelocations) reach(cluster v2.ClusterKey, stage gitstate.MoveStage, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.all[cluster]
	rec.Stage, rec.Error = stage, why
	r.all[cluster] = rec
}

// A cluster moves with its deployments: the registration names both places, other changes are
// refused meanwhile, and clients can read the progress.
func TestAClusterMovesWithWhatIsDeployedThere(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "shard", "shardSize": "2"})
	r.register("busy", "")
	const at = "/v2/cluster-providers/edge/clusters/busy"
	r.Run(t,
		step{Do: "GET " + at + "/move", Status: 404, Text: "never moved"},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsShard":"s007"}`, Status: 202, Text: `"gitOpsShard":"s007","gitOpsMoved":{"number":1,"from":{"gitOpsType":"git","gitOpsRefMode":"shard","gitOpsShard":"s000"}}`},
		step{Do: "GET " + at + "/move", Status: 200, Text: `"done":false,"conditions":[{"type":"Written","status":"False","reason":"InProgress"},{"type":"TakenOver","status":"False","reason":"Waiting"}`},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsShard":"s007"}`, Status: 202},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsShard":"s008"}`, Status: 409, Text: "is being moved"},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsType":"fluxcd"}`, Status: 409, Text: "is being moved"},
		step{Do: "POST " + at + "/move", Body: `{"finish":true}`, Status: 202},
	)
	r.moves.reach("edge+busy", gitstate.MoveTaken, "it waits for you")
	r.Run(t, step{Do: "GET " + at + "/move", Status: 200, Text: `{"type":"TakenOver","status":"True","reason":"Done"},{"type":"Cleared","status":"False","reason":"Retrying","message":"it waits for you"}`})
	r.moves.reach("edge+busy", gitstate.MoveDone, "")
	r.Run(t,
		step{Do: "GET " + at + "/move", Status: 200, Text: `"done":true`},
		step{Do: "POST " + at + "/move", Body: `{"finish":true}`, Status: 200},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsType":"s3"}`, Status: 400},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsType":"fluxv2"}`, Status: 202, Text: `"gitOpsType":"fluxcd"`},
		step{Do: "GET " + at, Status: 200, Text: `"gitOpsShard":"s007","gitOpsMoved":{"number":2,"from":{"gitOpsType":"git","gitOpsRefMode":"shard","gitOpsShard":"s007"}}`},
	)
}

// A client cannot set the record of moves in a registration.
func TestAClientCannotSayThatAClusterWasMoved(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	r.register("c0", `,"gitOpsMoved":{"number":7,"from":{"gitOpsType":"git"}}`)
	r.Run(t, step{Do: "GET /v2/cluster-providers/edge/clusters/c0/move", Status: 404})
}

func TestF12AMoveIsAborted(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]string{"refMode": "shard", "shardSize": "2"})
	r.register("busy", "")
	const at = "/v2/cluster-providers/edge/clusters/busy"
	r.Run(t,
		step{Do: "POST " + at + "/move", Body: `{"abort":true}`, Status: 409, Text: "is not being moved"},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsShard":"s007"}`, Status: 202},
		step{Do: "POST " + at + "/move", Body: `{"abort":true,"finish":true}`, Status: 400, Text: "abort stands alone"},
		step{Do: "POST " + at + "/move", Body: `{"abort":true}`, Status: 202, Text: `"gitOpsShard":"s000","gitOpsMoved":{"number":2,"from":{"gitOpsType":"git","gitOpsRefMode":"shard","gitOpsShard":"s007"}}`},
		step{Do: "GET " + at + "/move", Status: 200, Text: `"number":2`},
	)
	r.moves.reach("edge+busy", gitstate.MoveTaken, "it waits for you")
	r.Run(t, step{Do: "POST " + at + "/move", Body: `{"finish":true}`, Status: 202})
	r.moves.reach("edge+busy", gitstate.MoveDone, "")
	r.Run(t,
		step{Do: "POST " + at + "/move", Body: `{"abort":true}`, Status: 409, Text: "is not being moved"},
		step{Do: "POST " + at + "/move", Body: `{"gitOpsShard":"s008"}`, Status: 202},
	)
	r.moves.reach("edge+busy", gitstate.MoveWritten, "")
	r.Run(t, step{Do: "POST " + at + "/move", Body: `{"abort":true}`, Status: 409})
}
