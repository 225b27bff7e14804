package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// A revision that takes away more than so many placements, or so large a share of a
// deployment of at least that size, has to be confirmed with ?force=true: a label with a
// typing error must not empty a fleet.
const (
	manyPlacements = 20
	largeShare     = 10 // percent
)

// maxBody is the largest body of an action, in bytes.
const maxBody = 64 << 10

// readActionRequest reads what a request asks for. Only rollback and migrate have a body, and a
// description in it is the reason.
func (g *Groups) readActionRequest(w http.ResponseWriter, r *http.Request, e lifecycle.Event) (o actionRequest, err error) {
	if o.request, err = lifecycle.ReadRequest(r, e, g.now()); err != nil {
		return o, err
	}
	switch s := r.URL.Query().Get("force"); s {
	case "", "false":
	case "true":
		o.force = true
	default:
		return o, errs.New(errs.Invalid, "Invalid query force: "+strconv.Quote(s)+" is neither true nor false")
	}
	switch e {
	case lifecycle.Rollback:
		body, err := decode[v2.Rollback](w, r)
		if err == nil {
			o.from, err = body.Number()
		}
		o.request.Argument, o.request.Reason = strconv.FormatInt(o.from, 10), cmp.Or(body.Metadata.Description, o.request.Reason)
		return o, err
	case lifecycle.Migrate:
		body, err := decode[v2.Migrate](w, r)
		if err == nil {
			err = body.Validate()
		}
		o.target = body.Spec
		o.request.Argument, o.request.Reason = o.target.Version+"/"+o.target.Group, cmp.Or(body.Metadata.Description, o.request.Reason)
		return o, err
	}
	return o, nil
}

func decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	body, err := web.Body(w, r, maxBody)
	if err != nil {
		return *new(T), err
	}
	return v2.Decode[T](body, v2.Lenient)
}

// update makes another revision of what is instantiated: an update from what the
// documents say now, of which what changed is applied and what left is removed; a
// rollback from an earlier revision, with the same content on the same clusters.
func (g *Groups) update(ctx context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	if _, err := g.table.Next(c.Head.State, o.request.Event); err != nil {
		return nil, err
	}
	cloud, err := g.prepare(ctx, c.Doc, c.Head, o)
	if err != nil {
		return nil, err
	}
	op := g.operation(c.Head, o)
	m := queue(c, c.Head, op,
		o.request.NewAction(appcontext.Updated, c.LastInstance(), c.Head.LastRev), o.request.NewAction(appcontext.Instantiated, op.Instance, op.Rev))
	m.Needs = &cloud
	note := o.request.NewEvent("Updated", fmt.Sprintf("revision %d was asked for", op.Rev), op.Rev)
	if o.from > 0 {
		note = o.request.NewEvent("RolledBack", fmt.Sprintf("revision %d brings back revision %d", op.Rev, o.from), op.Rev)
	}
	return []appcontext.Move{withEvents(m, note)}, nil
}

// prepare checks all that a revision needs, short of making it: the placement, that large
// removals are meant, and the logical cloud, of which the head is returned. The revision
// is that of doc, and takes the place of what now wants.
func (g *Groups) prepare(ctx context.Context, doc store.Doc, now appcontext.Head, o actionRequest) (cloud appcontext.Head, err error) {
	next, err := g.nextPlacements(ctx, doc, now, o.from)
	if err != nil {
		return cloud, err
	}
	if !o.force {
		if err := g.confirm(ctx, now, next); err != nil {
			return cloud, err
		}
	}
	return g.cloudOf(ctx, doc)
}

// cloudOf returns the head of a group's logical cloud, which must be instantiated.
func (g *Groups) cloudOf(ctx context.Context, doc store.Doc) (appcontext.Head, error) {
	group, err := store.Decode[v2.DeploymentIntentGroup](doc)
	if err != nil {
		return appcontext.Head{}, err
	}
	cloud, err := g.db.Get(ctx, cloudKey(doc.Key, group))
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.Invalid, "LogicalCloud not found: "+group.Spec.LogicalCloud)
	}
	if err != nil {
		return appcontext.Head{}, err
	}
	return g.cloudHead(ctx, cloud)
}

func cloudKey(group store.Key, g v2.DeploymentIntentGroup) store.Key {
	return projectOf(compositeApp(group)) + "/logical-clouds/" + store.Key(g.Spec.LogicalCloud)
}

// nextPlacements returns where the revision that is to come has which apps: as an earlier revision
// had them, or as the documents ask for now.
func (g *Groups) nextPlacements(ctx context.Context, doc store.Doc, now appcontext.Head, from int64) ([]appcontext.Placement, error) {
	if from > 0 {
		return g.restorablePlacements(ctx, now, from)
	}
	p, err := g.planner.plan(ctx, doc, now.Deployment())
	if err == nil {
		err = p.refused()
	}
	return p.places(), err
}

// restorablePlacements returns the placements of a revision that is to be brought back. Those from
// before the deployment moved carry another id, which belongs to another group now.
func (g *Groups) restorablePlacements(ctx context.Context, head appcontext.Head, n int64) ([]appcontext.Placement, error) {
	rev, err := g.contexts.Revision(ctx, head.UID, n)
	if err != nil {
		return nil, noRevision(err, n)
	}
	if !restorable(head, rev) {
		return nil, errs.New(errs.Conflict, fmt.Sprintf("revision %d is from before a migration: its objects carry the id %s, and those of the deployment %s", n, rev.Deployed, head.Deployment()))
	}
	places, err := g.contexts.Placements(ctx, head.UID, n)
	return places, noRevision(err, n)
}

// restorable reports whether the objects of a revision carry the id of the deployment.
func restorable(head appcontext.Head, rev appcontext.Revision) bool {
	return cmp.Or(rev.Deployed, head.UID) == head.Deployment()
}

// noRevision says which revision is not there.
func noRevision(err error, n int64) error {
	return notFoundAs(err, "revision "+strconv.FormatInt(n, 10)+" not found; GET …/revisions lists those that are kept")
}

// places are where the apps are to be, whether or not they can be rendered.
func (p revisionPlan) places() []appcontext.Placement {
	all := make([]appPlacement, 0, len(p.apps))
	for _, a := range p.apps {
		all = append(all, appPlacement{app: a.name, clusters: a.decision.Clusters})
	}
	return placementsByCluster(all)
}

// confirm refuses to take away many placements without being told so explicitly.
func (g *Groups) confirm(ctx context.Context, head appcontext.Head, next []appcontext.Placement) error {
	text, err := needsConfirmation(ctx, g.contexts, head, next)
	if err == nil && text != "" {
		err = errs.New(errs.Conflict, text)
	}
	return err
}

// needsConfirmation says why what comes next has to be confirmed; empty if it has not.
func needsConfirmation(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, next []appcontext.Placement) (string, error) {
	now, err := desiredPlacements(ctx, contexts, head)
	if err != nil {
		return "", err
	}
	if gone, all := countRemoved(now, next); tooMany(gone, all) {
		return fmt.Sprintf("this would remove %d of %d placements; if that is meant, say so with ?force=true", gone, all), nil
	}
	return "", nil
}

// tooMany reports whether the removal of so many out of all placements has to be confirmed.
func tooMany(gone, all int) bool {
	return gone > manyPlacements || all >= manyPlacements && gone*100 > all*largeShare
}

// desiredPlacements returns the placements that a head wants now, in order of cluster; none if it wants nothing. What a
// migration took over, and no revision has replaced yet, is known from its pairs.
func desiredPlacements(ctx context.Context, contexts *appcontext.Store, head appcontext.Head) ([]appcontext.Placement, error) {
	switch {
	case head.Gone || !head.Owns():
		return nil, nil
	case head.TookOver():
		return inheritedPlacements(ctx, contexts, head.Inherited)
	case head.Rev == 0:
		return nil, nil
	}
	return contexts.Placements(ctx, head.UID, head.Rev)
}

// inheritedPlacements returns what the pairs of a deployment are to hold.
func inheritedPlacements(ctx context.Context, contexts *appcontext.Store, id string) ([]appcontext.Placement, error) {
	pairs, err := contexts.PairsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	out := placementSet{}
	for _, p := range pairs {
		if p.Desired != "" {
			out.put(p.Key.Cluster, p.Key.App, p.Desired)
		}
	}
	return out.sorted(), nil
}
