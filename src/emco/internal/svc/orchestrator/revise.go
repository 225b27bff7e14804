package orchestrator

import (
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

// An update or a rollback that takes away more than so many placements, or so large a
// share of a deployment of at least that size, has to be confirmed with ?force=true: a
// label with a typing error must not empty a fleet.
const (
	manyPlacements = 20
	largeShare     = 10 // percent
)

// maxRollback is the largest body of a rollback, in bytes.
const maxRollback = 64 << 10

// update makes what the documents say now the next revision: what changed is applied,
// what left is removed. EMCO answers with the bare number of the revision.
func (g *Groups) update(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	rev, err := g.revise(r, doc, lifecycle.Update, 0)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusAccepted, rev)
}

// rollbackAction brings an earlier revision back as the next one. Nothing is rendered
// or placed anew: it is the same content on the same clusters.
func (g *Groups) rollbackAction() web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		from, err := rollbackTo(w, r)
		if err != nil {
			return err
		}
		if _, err := g.revise(r, doc, lifecycle.Rollback, from); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

// rollbackTo reads which revision is to be brought back.
func rollbackTo(w http.ResponseWriter, r *http.Request) (int64, error) {
	body, err := web.Body(w, r, maxRollback)
	if err != nil {
		return 0, err
	}
	ask, err := v2.Decode[v2.Rollback](body, v2.Lenient)
	if err != nil {
		return 0, err
	}
	return ask.Number()
}

// revise queues the next revision of what is instantiated and returns its number.
func (g *Groups) revise(r *http.Request, doc store.Doc, e lifecycle.Event, from int64) (int64, error) {
	ctx := r.Context()
	head, history, err := lifecycle.History(ctx, g.contexts, doc)
	if err != nil {
		return 0, err
	}
	if _, err := g.table.Next(head.State, e); err != nil {
		return 0, err
	}
	next, err := g.wished(ctx, doc, head, from)
	if err != nil {
		return 0, err
	}
	if r.URL.Query().Get("force") != "true" {
		if err := g.confirm(ctx, head, next); err != nil {
			return 0, err
		}
	}
	op := g.operation(head, e)
	op.From = from
	replaced := appcontext.Action{State: appcontext.Updated, Instance: lastInstance(history), Revision: head.LastRev, Time: op.At}
	return op.Rev, g.queue(ctx, head, []appcontext.Action{replaced}, op)
}

// wished returns the pairs of the revision that is to come: those of an earlier
// revision, or those that the documents ask for now.
func (g *Groups) wished(ctx context.Context, doc store.Doc, head appcontext.Head, from int64) (map[appcontext.PairKey]bool, error) {
	if from > 0 {
		places, err := g.placements(ctx, doc.UID, from)
		return pairsOf(doc.UID, places), noRevision(err, from)
	}
	p, err := g.planner.plan(ctx, doc, head.Deployment())
	if err == nil {
		err = p.refused()
	}
	return p.pairs(doc.UID), err
}

// noRevision says which revision is not there.
func noRevision(err error, n int64) error {
	return rename(err, "revision "+strconv.FormatInt(n, 10)+" not found; the status lists the revisions")
}

func pairsOf(uid string, places []appcontext.Placement) map[appcontext.PairKey]bool {
	out := map[appcontext.PairKey]bool{}
	for _, k := range keysOf(uid, places) {
		out[k] = true
	}
	return out
}

// pairs are where the apps are to be, whether or not they can be rendered.
func (p plan) pairs(uid string) map[appcontext.PairKey]bool {
	out := map[appcontext.PairKey]bool{}
	for _, a := range p.apps {
		for _, cluster := range a.decision.Clusters {
			out[appcontext.PairKey{Cluster: cluster, UID: uid, App: a.name}] = true
		}
	}
	return out
}

// confirm refuses to take away many placements without being told so explicitly.
func (g *Groups) confirm(ctx context.Context, head appcontext.Head, next map[appcontext.PairKey]bool) error {
	if head.Rev == 0 || head.Gone {
		return nil
	}
	places, err := g.placements(ctx, head.UID, head.Rev)
	if err != nil {
		return err
	}
	now, gone := keysOf(head.UID, places), 0
	for _, k := range now {
		if !next[k] {
			gone++
		}
	}
	if gone > manyPlacements || len(now) >= manyPlacements && gone*100 > len(now)*largeShare {
		return errs.New(errs.Conflict, fmt.Sprintf("this would remove %d of %d placements; if that is meant, say so with ?force=true", gone, len(now)))
	}
	return nil
}

func (g *Groups) placements(ctx context.Context, uid string, rev int64) ([]appcontext.Placement, error) {
	var out []appcontext.Placement
	if _, err := g.contexts.Revision(ctx, uid, rev); err != nil {
		return nil, err
	}
	for p, err := range g.contexts.Placements(ctx, uid, rev) {
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
