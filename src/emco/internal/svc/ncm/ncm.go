// Package ncm owns the networks of clusters. Applied networks are an addon of the cluster: a revision with
// one app, whose objects the cluster's network plugin reads.
package ncm

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// clusterPath is the path of a cluster below /v2.
const clusterPath = "cluster-providers/{clusterProvider}/clusters/{cluster}"

// maxNetworks bounds the networks of a cluster, of both kinds together.
const maxNetworks = 500

// Networks serves the networks of clusters, their actions and their status.
type Networks struct {
	db     *store.DB
	addons addon.Deployments
}

// New returns the networks over the two stores.
func New(db *store.DB, contexts *appcontext.Store) *Networks {
	n := &Networks{db: db, addons: addon.New(db, contexts, lifecycle.NetworkTable(), "the networks")}
	return n.WithStatus(statusview.New(contexts, mirror.New(contexts, slog.New(slog.DiscardHandler)), statusview.Default()))
}

// WithStatus makes r read the status; r follows changes. Without it each query reads etcd.
func (n *Networks) WithStatus(r *statusview.Reader) *Networks {
	n.addons.Reader = r
	return n
}

// Mount adds the routes. As in upstream EMCO, actions ignore bodies and answer 204.
func (n *Networks) Mount(r *mux.Router) {
	fixed := resource.Guards{Create: n.checkUnapplied, Replace: n.checkChangeable, Delete: n.checkChangeable} // while they are applied
	resource.Mount(r, n.db, resource.Def[v2.Network]{
		Kind: "Network", Orphan: "Cluster not found",
		Collection: clusterPath + "/networks", Item: "{network}", Put: resource.PutCreated, Guards: fixed,
	})
	resource.Mount(r, n.db, resource.Def[v2.ProviderNetwork]{
		Kind: "ProviderNetwork", Orphan: "Cluster not found",
		Collection: clusterPath + "/provider-networks", Item: "{providerNetwork}", Put: resource.PutCreated, Guards: fixed,
	})
	for _, a := range []lifecycle.Action{lifecycle.Apply, lifecycle.Terminate, lifecycle.Stop} {
		act := authz.Permission{Verb: authz.Act(a.String()), Type: "clusters"}
		web.Handle(r, http.MethodPost, "/v2/"+clusterPath+"/"+a.String(), act, web.WithDryRun(n.addons.Action(a, http.StatusNoContent, n.cluster, n.decide)))
	}
	web.Handle(r, http.MethodGet, "/v2/"+clusterPath+"/status", authz.Permission{Verb: authz.Get, Type: "clusters"}, n.status)
}

// checkChangeable refuses to change or delete a network while the networks of its cluster are applied.
func (n *Networks) checkChangeable(ctx context.Context, network store.Doc) error {
	return n.checkUnapplied(ctx, network.Parent)
}

// checkUnapplied refuses changes of a cluster's networks while they are applied. A cluster that does not exist
// passes: it has no networks.
func (n *Networks) checkUnapplied(ctx context.Context, cluster store.Key) error {
	doc, err := n.db.Get(ctx, cluster)
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = n.unapplied(ctx, doc)
	return err
}

// unapplied returns the head of a cluster; Conflict if its networks are applied.
func (n *Networks) unapplied(ctx context.Context, cluster store.Doc) (appcontext.Head, error) {
	head, _, err := lifecycle.Head(ctx, n.addons.Contexts, cluster)
	if err == nil && head.State.Live() {
		err = errs.New(errs.Conflict, "the networks of the cluster are applied; terminate them first, with POST /v2/"+string(cluster.Key)+"/terminate")
	}
	return head, err
}

// Guards returns what the networks of a cluster require when the cluster is deregistered.
func (n *Networks) Guards() resource.Guards {
	return resource.Guards{
		Delete: func(ctx context.Context, cluster store.Doc) error {
			_, err := n.unapplied(ctx, cluster)
			return err
		},
		// What is left on the cluster rsync removes as of any cluster that is deregistered.
		Deleted: func(ctx context.Context, cluster store.Doc) error {
			head, err := n.unapplied(ctx, cluster)
			if err != nil {
				return err
			}
			return n.addons.Contexts.Remove(ctx, head)
		},
	}
}

// decide returns the changes of a request.
func (n *Networks) decide(ctx context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
	if ask.Action == lifecycle.Apply {
		current, err := n.checkApply(ctx, now)
		if err != nil || current {
			return addon.NoChange(now, ask), err
		}
	}
	m, err := n.addons.Change(now, ask)
	return []appcontext.HeadChange{m}, err
}

// checkApply reports whether the documents are applied already. They differ from what is applied only if a user changed
// them in the moment of the apply. The error is Invalid if they cannot be applied.
func (n *Networks) checkApply(ctx context.Context, now lifecycle.Snapshot) (current bool, err error) {
	content, err := n.content(ctx, now.Doc, now.Head)
	switch {
	case err != nil || now.Head.State != appcontext.NetworksApplied || now.Head.Failure != "":
		return false, err
	case now.Head.Op != nil: // which reads the documents when it is carried out
		return true, nil
	}
	places, err := n.addons.Contexts.DesiredPlacements(ctx, now.Head.UID, now.Head.Rev)
	return err == nil && len(places) == 1 && places[0].Apps[app] == content.Bundle, err
}

// cluster reads the cluster that the URL names.
func (n *Networks) cluster(r *http.Request) (store.Doc, error) {
	key, err := web.Cluster(r)
	if err != nil {
		return store.Doc{}, err
	}
	return n.clusterAt(r.Context(), store.Key(key.StoreKey()))
}

func (n *Networks) clusterAt(ctx context.Context, key store.Key) (store.Doc, error) {
	doc, err := n.db.Get(ctx, key)
	return doc, store.NotFoundAs(err, "Cluster not found")
}

// status answers a status query.
func (n *Networks) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := n.cluster(r)
	if err != nil {
		return err
	}
	q, err := statusview.ParseCluster(r.URL.Query())
	if err != nil {
		return err
	}
	return n.addons.Reader.Serve(w, r, q, n.feed(doc, q))
}

// Status returns a feed of the status of a cluster's networks; NotFound if the cluster does not exist.
func (n *Networks) Status(ctx context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
	doc, err := n.clusterAt(ctx, store.Key(v2.NewClusterKey(who.ClusterProvider, who.Name).StoreKey()))
	return n.feed(doc, q), err
}

// feed reads the document for each answer: it ends with NotFound when the cluster is deregistered.
func (n *Networks) feed(doc store.Doc, q statusview.Query) statusview.Feed {
	return statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
		doc, err := n.clusterAt(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		key, _ := v2.ClusterOf(string(doc.Key))
		of := statusview.Subject{Doc: doc, Identity: v2.StatusSubject{ClusterProvider: key.Provider(), Name: key.Cluster()}}
		answer, err := n.addons.Reader.Group(ctx, of, q)
		return answer.OfCluster(), err
	}}
}

// Publish implements addon.Publisher.
func (n *Networks) Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, doc store.Doc) (appcontext.Head, error) {
	content, err := n.content(ctx, doc, head)
	if err != nil {
		return head, err
	}
	if err := content.Save(ctx, contexts); err != nil {
		return head, err
	}
	cluster, _ := v2.ClusterOf(string(doc.Key))
	return addon.Publish(ctx, contexts, head, addon.Revision{
		App: app, Namespace: namespace, Places: []addon.Place{{Cluster: cluster, Bundle: content.Bundle}},
	})
}

// content returns the objects of all networks of a cluster. The error is Invalid if it has none, or too many.
func (n *Networks) content(ctx context.Context, cluster store.Doc, head appcontext.Head) (addon.Content, error) {
	objects, err := n.objects(ctx, cluster.Key)
	if err != nil {
		return addon.Content{}, err
	}
	return addon.Pack(app, head.Deployment(), objects)
}

func (n *Networks) objects(ctx context.Context, cluster store.Key) (out []any, err error) {
	for doc, err := range store.All[v2.Network](ctx, n.db, cluster+"/networks", store.Query{Depth: 1, Limit: maxNetworks + 1}) {
		if err != nil {
			return nil, err
		}
		out = append(out, networkOf(doc.Value))
	}
	for doc, err := range store.All[v2.ProviderNetwork](ctx, n.db, cluster+"/provider-networks", store.Query{Depth: 1, Limit: maxNetworks + 1}) {
		if err != nil {
			return nil, err
		}
		out = append(out, providerNetworkOf(doc.Value))
	}
	switch {
	case len(out) == 0:
		return nil, errs.New(errs.Invalid, "the cluster has no networks; add one below "+string(cluster)+"/networks or …/provider-networks")
	case len(out) > maxNetworks:
		return nil, errs.New(errs.Invalid, fmt.Sprintf("the cluster has more than %d networks", maxNetworks))
	}
	return out, nil
}
