package clm

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxMove bounds the body of a request to move a cluster, in bytes.
const maxMove = 4 << 10

// A cluster moves to another shard while nothing is deployed on it. What it holds cannot be
// carried along: the reconciler on the edge reads the branch that it was told of, and of
// two copies it would follow the one that is emptied.

// move serves the request to seat a cluster anew: where the body says, or where a new one
// would be.
func (n *census) move(w http.ResponseWriter, r *http.Request) error {
	vars, err := web.Vars(r)
	if err != nil {
		return err
	}
	ask, err := seatAsked(w, r)
	if err != nil {
		return err
	}
	parent := store.Key("cluster-providers/" + vars["clusterProvider"])
	at := resource.Place{Key: parent + "/clusters/" + store.Key(vars["cluster"]), Collection: parent + "/clusters", Parent: parent, Vars: vars}
	doc, err := n.reseat(r.Context(), at, ask)
	if err != nil {
		return err
	}
	return web.Raw(w, http.StatusOK, doc.Body)
}

// seatAsked reads the body, which may be empty.
func seatAsked(w http.ResponseWriter, r *http.Request) (ask v2.ClusterSeat, err error) {
	body, err := web.Body(w, r, maxMove)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return ask, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		return ask, errs.New(errs.Malformed, `the body is not as {"gitOpsShard": "s001"}: `+err.Error())
	}
	return ask, nil
}

// reseat stores a cluster with another seat.
func (n *census) reseat(ctx context.Context, at resource.Place, ask v2.ClusterSeat) (store.Doc, error) {
	doc, err := n.resources.DB.Get(ctx, at.Key)
	if err != nil {
		return doc, err
	}
	c, err := store.Decode[v2.Cluster](doc)
	if err != nil {
		return doc, err
	}
	if err := n.movable(ctx, at, c); err != nil {
		return doc, err
	}
	s, err := n.resources.readable(ctx, at, c.Spec.GitOps, nil)
	if err != nil {
		return doc, err
	}
	g := &c.Spec.GitOps
	g.RefMode, g.Shard, g.FanOut = ask.RefMode, ask.Shard, false
	if err := c.Validate(); err != nil {
		return doc, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.branches = nil // those who have left are to be counted no more
	if err := n.count(ctx); err != nil {
		return doc, err
	}
	if err := n.seat(at.Vars["clusterProvider"]+"+"+c.Metadata.Name, s, g); err != nil {
		return doc, err
	}
	n.add(s, *g)
	body, err := json.Marshal(c)
	if err != nil {
		return doc, err
	}
	return n.resources.DB.Replace(ctx, store.Write{Key: at.Key, Parent: at.Parent, UID: doc.UID, Refs: syncObjectsOf(at, c), Body: body}, doc.Rev)
}

// movable refuses while a deployment wants or has something on the cluster.
func (n *census) movable(ctx context.Context, at resource.Place, c v2.Cluster) error {
	if c.Direct() {
		return errs.New(errs.Invalid, "cluster "+c.Metadata.Name+" is reached directly, and is on no branch")
	}
	name := at.Vars["clusterProvider"] + "+" + c.Metadata.Name
	for _, busy := range []func(context.Context, string) (bool, error){n.resources.Delivered, n.resources.Wanted} {
		is, err := busy(ctx, name)
		if err != nil {
			return err
		}
		if is {
			return errs.New(errs.Conflict, "something is deployed on cluster "+c.Metadata.Name+"; take it away before the cluster is moved")
		}
	}
	return nil
}
