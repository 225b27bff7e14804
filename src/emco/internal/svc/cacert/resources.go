package cacert

import (
	"context"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// typ is the type of all documents of certificate authorities in permissions.
const typ = "ca-certs"

// issue is the permission to have the issuers of a cluster provider's clusters sign.
var issue = authz.Act("issue")

// Collections of documents.
const (
	inProvider  = "cluster-providers/{clusterProvider}"
	inProject   = "projects/{project}"
	authorities = "/ca-certs"
	item        = "/{caCert}"
	clouds      = "/logical-clouds"
	clusters    = "/clusters"
)

// Resources are the documents that cacert serves: in cluster providers, and in projects for logical clouds.
type Resources struct {
	DB          *store.DB
	Authorities resource.Guards // for certificate authorities
}

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	for root, orphan := range map[string]string{inProvider: "ClusterProvider not found", inProject: "Project not found"} {
		resource.Mount(r, s.DB, resource.Def[v2.CACert]{
			Kind: "CaCert", Orphan: orphan, Explicit: true,
			Collection: root + authorities, Item: "{caCert}", Put: resource.PutUpsert,
			Needs: func(_ resource.Place, d v2.CACert) []store.Key {
				return []store.Key{store.Key(d.Spec.IssuingCluster.Key().StoreKey())}
			},
			Check: mayIssue, Guards: s.Authorities,
		})
	}
	resource.Mount(r, s.DB, resource.Def[v2.CACertLogicalCloud]{
		Kind: "CaCert LogicalCloud", Orphan: "CaCert not found", Type: typ,
		Collection: inProject + authorities + item + clouds, Item: "{caCertLogicalCloud}", Put: resource.PutUpsert,
		Needs: func(at resource.Place, d v2.CACertLogicalCloud) []store.Key {
			return []store.Key{store.Key(v2.LogicalCloudKey{Project: at.Vars["project"], Name: d.Spec.LogicalCloud}.StoreKey())}
		},
	})
	s.mountClusters(r, inProvider+authorities+item, "CaCert not found", mayServe)
	s.mountClusters(r, inProject+authorities+item+clouds+"/{caCertLogicalCloud}", "CaCert LogicalCloud not found", mayRead)
}

func (s Resources) mountClusters(r *mux.Router, parent, orphan string, check func(context.Context, resource.Place, v2.CACertCluster) error) {
	resource.Mount(r, s.DB, resource.Def[v2.CACertCluster]{
		Kind: "CaCert ClusterGroup", Orphan: orphan, Type: typ,
		Collection: parent + clusters, Item: "{caCertCluster}", Put: resource.PutUpsert,
		Needs: func(_ resource.Place, d v2.CACertCluster) []store.Key {
			if d.Spec.Scope != v2.ScopeName {
				return nil
			}
			return []store.Key{store.Key(v2.NewClusterKey(d.Spec.ClusterProvider, d.Spec.Cluster).StoreKey())}
		},
		Check: check,
	})
}

// mayIssue refuses issuing clusters of providers that did not allow the caller to use their issuers: a
// certificate authority speaks in the name of its issuer.
func mayIssue(ctx context.Context, _ resource.Place, d v2.CACert) error {
	place := v2.ProviderStoreKey(d.Spec.IssuingCluster.ClusterProvider)
	if authz.From(ctx).May(issue, typ, place) {
		return nil
	}
	return errs.New(errs.Forbidden, "an issuing cluster needs the permission act:issue on ca-certs in "+place)
}

// mayServe refuses clusters of other providers whose certificate authorities the caller may not create.
func mayServe(ctx context.Context, at resource.Place, d v2.CACertCluster) error {
	place := v2.ProviderStoreKey(d.Spec.ClusterProvider)
	if d.Spec.ClusterProvider == at.Vars["clusterProvider"] || authz.From(ctx).May(authz.Create, typ, place) {
		return nil
	}
	return errs.New(errs.Forbidden, "a cluster of another provider needs the permission to create ca-certs in "+place)
}

// mayRead refuses clusters of providers that the caller may not read, whether they exist or not. The logical
// cloud limits the clusters of a project.
func mayRead(ctx context.Context, _ resource.Place, d v2.CACertCluster) error {
	place := v2.ProviderStoreKey(d.Spec.ClusterProvider)
	if authz.From(ctx).May(authz.Get, "clusters", place) {
		return nil
	}
	return errs.New(errs.Forbidden, "the clusters of a certificate authority need the permission to get clusters in "+place)
}
