package cacert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// maxPlaces bounds the certificates of one certificate authority: each needs a key, which takes up to a second
// of processor time.
const maxPlaces = 1000

// authority is a certificate authority and its document's key.
type authority struct {
	key store.Key
	v2.CACert
}

// certificatePlace is what gets a certificate: a cluster, in a project for one logical cloud.
type certificatePlace struct {
	cluster   v2.ClusterKey
	cloud     string // name of the logical cloud; empty in a cluster provider
	namespace string // of the logical cloud
}

// name identifies the place within its certificate authority.
func (p certificatePlace) name() string {
	if p.cloud == "" {
		return string(p.cluster)
	}
	return v2.MemberName(p.cloud, p.cluster)
}

func comparePlaces(a, b certificatePlace) int {
	return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.cloud, b.cloud))
}

// placesOf returns the places of a certificate authority, in order. Invalid if it has none, or too many, or if EMCO does
// not reach one directly: a private key must not lie in a repository.
func placesOf(ctx context.Context, db *store.DB, clusters *inventory.Inventory, of authority) ([]certificatePlace, error) {
	fleet, err := clusters.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	found := placeSet{}
	if of.key.Project() == "" {
		err = found.addSelected(ctx, db, fleet, of.key, func(v2.ClusterKey) (certificatePlace, bool) { return certificatePlace{}, true })
	} else {
		err = found.addClouds(ctx, db, fleet, of.key)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errs.New(errs.Invalid, "the certificate authority has no clusters; its documents below "+string(of.key)+" must select some, which members of a logical cloud are in a project")
	}
	all := slices.SortedFunc(maps.Keys(found), comparePlaces)
	for _, p := range all {
		if _, err := directCluster(ctx, db, p.cluster); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// directCluster returns the document of a cluster that EMCO reaches directly. Invalid for others.
func directCluster(ctx context.Context, db *store.DB, key v2.ClusterKey) (store.Doc, error) {
	doc, err := db.Get(ctx, store.Key(key.StoreKey()))
	if errs.Is(err, errs.NotFound) {
		return doc, errs.New(errs.Invalid, "cluster "+string(key)+" is not registered")
	}
	if err != nil {
		return doc, err
	}
	cluster, err := store.Decode[v2.Cluster](doc)
	if err == nil && !cluster.Direct() {
		err = errs.New(errs.Invalid, "cluster "+string(key)+" pulls its state from where others may read it, so EMCO puts no private key of a certificate authority there; choose clusters that are registered with a kubeconfig")
	}
	return doc, err
}

// placeSet is the places of a certificate authority. Documents may select a cluster many times.
type placeSet map[certificatePlace]bool

// addClouds adds the members of the logical clouds of a project's certificate authority that are selected.
func (s placeSet) addClouds(ctx context.Context, db *store.DB, fleet *inventory.Fleet, ca store.Key) error {
	for ref, err := range store.All[v2.CACertLogicalCloud](ctx, db, ca+clouds, store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		key := store.Key(v2.LogicalCloudKey{Project: ca.Project(), Name: ref.Value.Spec.LogicalCloud}.StoreKey())
		doc, err := db.Get(ctx, key)
		if err != nil {
			return err
		}
		cloud, err := store.Decode[v2.LogicalCloud](doc)
		if err != nil {
			return err
		}
		members := map[v2.ClusterKey]bool{}
		for r, err := range store.All[v2.ClusterReference](ctx, db, key+"/cluster-references", store.Query{Depth: 1}) {
			if err != nil {
				return err
			}
			members[v2.NewClusterKey(r.Value.Spec.ClusterProvider, r.Value.Spec.Cluster)] = true
		}
		err = s.addSelected(ctx, db, fleet, ref.Doc.Key, func(c v2.ClusterKey) (certificatePlace, bool) {
			return certificatePlace{cloud: cloud.Metadata.Name, namespace: namespaceOf(cloud)}, members[c]
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// namespaceOf returns the namespace of the workloads of a logical cloud.
func namespaceOf(cloud v2.LogicalCloud) string {
	if cloud.Spec.Level == v2.LevelAdmin {
		return "default"
	}
	return cloud.Spec.Namespace
}

// addSelected adds the clusters that the documents below parent select and as admits, as it describes them. It ends with an
// error at the first place above maxPlaces.
func (s placeSet) addSelected(ctx context.Context, db *store.DB, fleet *inventory.Fleet, parent store.Key, as func(v2.ClusterKey) (certificatePlace, bool)) error {
	for group, err := range store.All[v2.CACertCluster](ctx, db, parent+clusters, store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		spec := group.Value.Spec
		keys := []v2.ClusterKey{v2.NewClusterKey(spec.ClusterProvider, spec.Cluster)}
		if spec.Scope == v2.ScopeLabel {
			keys = fleet.Labelled(spec.ClusterProvider, spec.Label)
		}
		for _, key := range keys {
			p, admitted := as(key)
			if !admitted {
				continue
			}
			p.cluster = key
			if s[p] = true; len(s) > maxPlaces {
				return errs.New(errs.Invalid, fmt.Sprintf("the certificate authority has more than %d clusters; make another one for the rest", maxPlaces))
			}
		}
	}
	return nil
}
