package views

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Pairs reads the pairs of one cluster, or of one deployment.
type Pairs interface {
	// Cluster returns the entries of all pairs on a cluster, in order of deployment and app.
	Cluster(name v2.ClusterKey) []mirror.ClusterPair
	// PairsOf returns the pairs of a deployment, in no order and without Registration.
	PairsOf(id v2.DeploymentID) []appcontext.Pair
	// CatchUp waits a moment until the tally has counted everything that was written before.
	CatchUp(ctx context.Context)
}

// Deployments reads what views need of single deployments.
type Deployments interface {
	// Waiting returns the head of a deployment, nil if there is none, and how many places rsync has not taken up yet.
	Waiting(ctx context.Context, id appcontext.HeadID) (head *appcontext.Head, n int, err error)
}

// Revisions reads revisions.
type Revisions interface {
	// Revision returns revision n of a deployment, or NotFound.
	Revision(ctx context.Context, id appcontext.HeadID, n int64) (appcontext.Revision, error)
}

// Commits finds recorded commits.
type Commits interface {
	// FindCommits yields those whose names begin with prefix, in order of their names.
	FindCommits(ctx context.Context, prefix string) iter.Seq2[appcontext.FoundCommit, error]
}

// Parts are what views are made of.
type Parts struct {
	DB          *store.DB
	Tally       *tally.Tally
	Pairs       Pairs
	Deployments Deployments
	Revisions   Revisions
	Inventory   *inventory.Inventory
	Planner     Planner
	Events      Events
	Commits     Commits
	History     History
	Lanes       *Lanes                                                                        // nil in a process that writes no branches
	Capacity    func(ctx context.Context, cluster v2.ClusterKey) (*v2.ClusterCapacity, error) // of its nodes, if it is reported
	Streams     int                                                                           // number of streams at the same time
	Now         func() time.Time
}

// Views serves the views. It is a service: Run keeps what only time changes.
type Views struct {
	Parts
	registry  registry
	streams   *web.Streams
	takeUps   takeUps
	revisions revisionCache
	past      pastCounts
	log       eventIndex // of all deployments
}

// New returns the views of parts.
func New(p Parts) *Views {
	return &Views{
		Parts: p, registry: registry{db: p.DB}, streams: web.NewStreams(p.Streams),
		takeUps: takeUps{done: map[appcontext.HeadID]takeUp{}}, revisions: revisionCache{known: map[revisionKey]appcontext.Revision{}},
	}
}

// Mount adds the routes, all below /v2/views.
func (v *Views) Mount(r *mux.Router) {
	get := func(path string, need authz.Permission, h web.HandlerFunc) {
		web.Handle(r, http.MethodGet, "/v2/views"+path, need, v.whole(h))
	}
	clusters := authz.Permission{Verb: authz.List, Type: "clusters", Confined: true}
	cluster := authz.Permission{Verb: authz.Get, Type: "clusters"}
	deployments := authz.Permission{Verb: authz.List, Type: "deployment-intent-groups", Confined: true}
	deployment := authz.Permission{Verb: authz.Get, Type: "deployment-intent-groups"}
	const group = "/" + web.GroupPath
	get("/fleet", clusters, v.fleet)
	get("/fleet/nth", clusters, v.nth)
	get("/clusters", clusters, v.clusters)
	get("/clusters/{clusterProvider}/{cluster}", cluster, v.cluster)
	get("/clusters/{clusterProvider}/{cluster}/history", cluster, v.clusterHistory)
	get("/deployments", deployments, v.deployments)
	get(group+"/matrix", deployment, v.matrix)
	get(group+"/placement", deployment, v.placement)
	get(group+"/history", deployment, v.groupHistory)
	get("/events", deployments, v.events)
	if v.Lanes != nil {
		get("/git", authz.Permission{Verb: authz.List, Type: "branches"}, v.Lanes.list)
		get("/git/{lane}/commits", readsBranches, v.commits)
	}
	get("/search", authz.Permission{Verb: authz.SignedIn, Type: "views"}, v.search)
	get("/stream", authz.Permission{Verb: authz.SignedIn, Type: "views"}, v.stream)
}

// whole answers 503 until all records were counted: an empty fleet would mislead.
// A client finds its own earlier writes in the answer.
func (v *Views) whole(h web.HandlerFunc) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !v.Tally.Whole() {
			return notYet("the records of clusters are still being read")
		}
		v.Pairs.CatchUp(r.Context())
		return h(w, r)
	}
}

func notYet(why string) error {
	return &web.Problem{
		Status: http.StatusServiceUnavailable, Type: "not-yet",
		Err: errs.New(errs.Unavailable, why+"; try again in a few seconds"),
	}
}

// Name is "views".
func (v *Views) Name() string { return "views" }

// Ready is always nil: the mirror reports whether all records were read.
func (v *Views) Ready() error { return nil }

// pause is the time between two looks at silent clusters and at deployments that rsync is
// taking up.
const pause = time.Second

// Run looks for silent clusters, and for deployments that rsync has taken up, and keeps the
// counts of the last hour and the newest events, until ctx ends.
func (v *Views) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { v.log.follow(ctx, v.Events) })
	reading.Go(func() { v.Inventory.Follow(ctx) })
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			v.Tally.Age()
			v.takeUp(ctx)
			v.remember(ctx)
		}
	}
}

// takeUps knows which heads rsync has taken up: until then, the pairs of a deployment show
// an earlier revision.
type takeUps struct {
	mu   sync.Mutex
	done map[appcontext.HeadID]takeUp // by head; guarded by mu
}

// takeUp is the desired state that rsync has taken up.
type takeUp struct {
	rev  int64
	gone bool
}

func takeUpOf(h appcontext.Head) takeUp { return takeUp{h.Rev, h.Gone} }

// has reports whether rsync is known to have taken up what a head desires.
func (t *takeUps) has(h appcontext.Head) bool {
	if h.Rev == 0 && !h.Gone || !h.Owns() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	done, known := t.done[h.UID]
	return known && done == takeUpOf(h)
}

// takeUp compares the heads that are new with their pairs.
func (v *Views) takeUp(ctx context.Context) {
	heads := v.Tally.Heads()
	for id, h := range heads {
		if v.takeUps.has(h) {
			continue
		}
		head, waiting, err := v.Deployments.Waiting(ctx, id)
		if err != nil || head == nil || waiting > 0 {
			continue // the next look is a second later
		}
		v.takeUps.mu.Lock()
		v.takeUps.done[id] = takeUpOf(*head)
		v.takeUps.mu.Unlock()
	}
	v.takeUps.forget(heads)
}

// forget drops what is known of heads that are gone.
func (t *takeUps) forget(heads map[appcontext.HeadID]appcontext.Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.done {
		if _, there := heads[id]; !there {
			delete(t.done, id)
		}
	}
}

// revisionCache keeps what views show of revisions, which never change.
type revisionCache struct {
	mu    sync.Mutex
	known map[revisionKey]appcontext.Revision // guarded by mu
}

type revisionKey struct {
	id appcontext.HeadID
	n  int64
}

// maxRevisions bounds the revisions in memory.
const maxRevisions = 2000

// revision returns a revision.
func (v *Views) revision(ctx context.Context, id appcontext.HeadID, n int64) (appcontext.Revision, error) {
	k := revisionKey{id, n}
	v.revisions.mu.Lock()
	rev, known := v.revisions.known[k]
	v.revisions.mu.Unlock()
	if known {
		return rev, nil
	}
	rev, err := v.Revisions.Revision(ctx, id, n)
	if err != nil {
		return rev, err
	}
	v.revisions.mu.Lock()
	defer v.revisions.mu.Unlock()
	if len(v.revisions.known) >= maxRevisions {
		clear(v.revisions.known)
	}
	v.revisions.known[k] = rev
	return rev, nil
}
