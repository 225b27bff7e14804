package route

import (
	"context"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// Route is how a cluster is reached: through Git by a backend, or directly with a
// kubeconfig.
type Route struct {
	Queue      string                // key of the queue for its deliveries; those with equal keys go out together
	Settings   *syncobjects.Settings // shared by clusters that are alike, so it must not be changed; empty if the cluster is reached directly
	Backend    syncer.Backend        // nil if the cluster is reached directly
	Kubeconfig seal.Secret

	Registration string // id of the cluster's document; a cluster registered again has another one
	Move         *Move  // nil if the cluster was never moved
	Recalled     bool   // the documents are away, and this was read from them last
}

// Branch names a branch of a repository.
type Branch struct{ URL, Name string }

// Branch returns the branch that is written for the cluster.
func (r Route) Branch() Branch { return Branch{r.Settings.Repo.URL, r.Settings.Branch} }

// Target is a deployment on the cluster as backends see it, without its logical cloud.
func (r Route) Target(cluster v2.ClusterKey, deployment v2.DeploymentID) syncer.Target {
	return syncer.Target{
		Cluster: cluster, Deployment: deployment, FanOut: r.Settings.FanOut,
		Repo: syncer.Coordinates{URL: r.Settings.ReadURL(), Branch: r.Settings.ReadBranch()},
	}
}

// Place names the place in Git, for people.
func (r Route) Place() string { return r.Settings.Kind + " on branch " + r.Settings.Branch }

// Move is a cluster's way from another place in Git.
type Move struct {
	From    Route // the old place; zero when the move is done
	Cluster v2.ClusterKey
	Stage   gitstate.MoveStage
	Number  int64
}

// move returns the move of a cluster; nil if it was never moved.
func (l *Lookup) move(ctx context.Context, cluster v2.ClusterKey, g v2.GitOps, registration string) (*Move, error) {
	moved := g.Moved
	if moved.Number == 0 || l.Moves == nil {
		return nil, nil
	}
	known, err := l.Moves.Of(ctx, cluster)
	if err != nil {
		return nil, err
	}
	m := &Move{Cluster: cluster, Number: moved.Number, Stage: gitstate.MoveAsked}
	if known.IsAtLeast(registration, moved.Number) {
		m.Stage = known.Stage
	}
	if m.Stage == gitstate.MoveDone {
		return m, nil
	}
	m.From, err = l.Git(ctx, cluster, g.MovedTo(moved.From))
	return m, err
}

// SameSource reports whether a cluster reads the same branch and layout after its move as
// before.
func (r Route) SameSource() bool {
	from := r.Move.From
	return from.Settings.ReadBranch() == r.Settings.ReadBranch() && from.Settings.FanOut == r.Settings.FanOut
}

// Role is what a shard does for a cluster that is moving, or was moved.
type Role int

// The roles of shards in a move. A cluster that does not move has Deliver alone.
const (
	Deliver  Role = iota // deliver as to any other cluster
	Wait                 // wait for other shards
	Carry                // write what the cluster holds to its new place
	HandOver             // hand its pairs over to the shard of the new place
)

// Role returns what a shard does for the targets that it has on the cluster.
func (r Route) Role(shard int) Role {
	if r.Move == nil {
		return Deliver
	}
	fromHere := r.Move.From.Backend != nil && r.Move.From.Shard() == shard
	switch {
	case r.Move.Stage == gitstate.MoveAsked && fromHere:
		return Carry
	case r.Move.Stage == gitstate.MoveAsked:
		return Wait
	case r.Shard() == shard:
		return Deliver
	}
	return HandOver
}

// QueueFor returns the key of the queue for the work of a role. All but deliveries are done
// in the queue of the old place, so they come after deliveries to it that began earlier.
func (r Route) QueueFor(role Role) string {
	if role == Deliver || r.Move.From.Backend == nil {
		return r.Queue
	}
	return r.Move.From.Queue
}
