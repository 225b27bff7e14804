package clm

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxKubeconfig is the largest kubeconfig, in bytes.
const maxKubeconfig = 1 << 20

// Resources are the documents that clm serves.
type Resources struct {
	DB       *store.DB
	Rules    syncobjects.Rules // which repositories may be named
	Backends *syncer.Registry  // which sync types can be delivered

	// Delivered reports whether a cluster holds anything.
	Delivered func(ctx context.Context, cluster v2.ClusterKey) (bool, error)
	// Wanted reports whether a deployment desires anything on a cluster.
	Wanted func(ctx context.Context, cluster v2.ClusterKey) (bool, error)

	Moves Relocations
	// Networks guards clusters whose networks are applied.
	Networks resource.Guards

	Log *slog.Logger // logs branches that hold too many clusters; nil: no log
}

const (
	provider = "cluster-providers/{clusterProvider}"
	cluster  = provider + "/clusters/{cluster}"
)

// Mount adds the routes, and returns what chooses the places of new clusters. Registrations need not wait for it.
func (s Resources) Mount(r *mux.Router) *Places {
	resource.Mount(r, s.DB, resource.Def[v2.ClusterProvider]{
		Kind: "ClusterProvider", Missing: "Cluster provider not found",
		Collection: "cluster-providers", Item: "{clusterProvider}", Put: resource.PutCreated,
		Scope: v2.ProviderStoreKey,
		Unique: func(_ resource.Place, p v2.ClusterProvider) resource.UniqueKey {
			return resource.UniqueName(p.Metadata.Name)
		},
	})
	allocator := newSlotAllocator(s)
	resource.Mount(r, s.DB, s.clusters(allocator))
	web.Handle(r, http.MethodPost, "/v2/"+cluster+"/move", authz.Permission{Verb: authz.Act("move"), Type: "clusters"}, web.WithDryRun(moveHandler{allocator}.move))
	web.Handle(r, http.MethodGet, "/v2/"+cluster+"/move", authz.Permission{Verb: authz.Get, Type: "clusters"}, moveHandler{allocator}.progress)
	resource.Mount(r, s.DB, resource.Def[v2.ClusterLabel]{
		Kind: "Cluster Label", Missing: "Cluster label not found", Orphan: "Cluster not found",
		Collection: cluster + "/labels", Item: "{clusterLabel}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.KV]{
		Kind: "Cluster KV Pair", Missing: "Cluster KV pair not found", Orphan: "Cluster not found",
		Collection: cluster + "/kv-pairs", Item: "{clusterKv}", Put: resource.PutCreated,
		Queries: []resource.Query{{Param: "key", OnItem: true, Answer: lookup(s.DB, kvTexts)}},
	})
	resource.Mount(r, s.DB, s.syncObjects())
	resource.Mount(r, s.DB, resource.Def[v2.ClmController]{
		Kind:       "ClmController",
		Collection: "clm-controllers", Item: "{controller-name}", Put: resource.PutOK,
	})
	return &Places{allocator}
}

func (s Resources) clusters(a *slotAllocator) resource.Def[v2.Cluster] {
	return resource.Def[v2.Cluster]{
		Kind: "Cluster", Orphan: "Cluster provider not found",
		Collection: provider + "/clusters", Item: "{cluster}", Put: resource.PutUpsert,
		Needs:  syncObjectsOf,
		Unique: func(_ resource.Place, c v2.Cluster) resource.UniqueKey { return resource.UniqueName(c.Metadata.Name) },
		Settle: a.assignSlot,
		Adopt:  replaceInPlace,
		Check:  s.checkDeliverable,
		Guards: resource.Guards{Delete: s.checkDeletable, Deleted: s.releaseCluster},
		File: &resource.File[v2.Cluster]{
			Limit: maxKubeconfig, Name: "kubeconfig", Secret: true,
			Show:   func(_ context.Context, _ store.Doc, content []byte) ([]byte, error) { return redact(content), nil },
			Needed: func(c v2.Cluster) bool { return c.Direct() },
			Check:  s.checkUpload,
		},
		Queries: []resource.Query{
			{Param: "withLabels", Answer: s.withLabels},
			{Param: "label", Answer: s.labelled},
		},
	}
}

// checkDeletable refuses to delete a cluster on which a deployment desires something:
// another cluster registered under its name would get it.
func (s Resources) checkDeletable(ctx context.Context, doc store.Doc) error {
	key, _ := v2.ClusterOf(string(doc.Key))
	wanted, err := s.Wanted(ctx, key)
	if err == nil && wanted {
		err = errs.New(errs.Conflict, "something is deployed on cluster "+key.Cluster()+"; terminate it before the cluster is deleted")
	}
	if err == nil && s.Networks.Delete != nil {
		err = s.Networks.Delete(ctx, doc)
	}
	if err != nil {
		return err
	}
	c, err := store.Decode[v2.Cluster](doc)
	if err != nil {
		return err
	}
	return moveHandler{newSlotAllocator(s)}.checkArrived(ctx, movingCluster{doc: doc, cluster: c})
}

// releaseCluster records what a deregistered cluster leaves behind: the branch that only it
// read. For other clusters it removes the record of their moves. The record of its networks goes as well.
func (s Resources) releaseCluster(ctx context.Context, doc store.Doc) error {
	if s.Networks.Deleted != nil {
		if err := s.Networks.Deleted(ctx, doc); err != nil {
			return err
		}
	}
	key, _ := v2.ClusterOf(string(doc.Key))
	c, err := store.Decode[v2.Cluster](doc)
	if err != nil {
		return err
	}
	g := c.Spec.GitOps
	if g.RefMode != syncobjects.RefCluster {
		return s.Moves.ForgetRelocation(ctx, key)
	}
	return s.Moves.LeaveRelocation(ctx, key, doc.UID, gitstate.LeftPlace{
		Type: g.Type, Reference: g.Reference, Resource: g.Resource, RefMode: g.RefMode, Shard: g.Shard, FanOut: g.FanOut,
	})
}

// syncObjectsOf returns the sync objects that a GitOps cluster needs; in upstream EMCO they may be missing.
func syncObjectsOf(at resource.Place, c v2.Cluster) (keys []store.Key) {
	for _, name := range []string{c.Spec.GitOps.Reference, c.Spec.GitOps.Resource} {
		if name != "" {
			keys = append(keys, syncObject(at, name))
		}
	}
	return keys
}

// clusterAt returns the key of a cluster of the provider that the URL names.
func clusterAt(at resource.Place, name string) v2.ClusterKey {
	return v2.NewClusterKey(at.Vars["clusterProvider"], name)
}

func syncObject(at resource.Place, name string) store.Key {
	return at.Parent + "/cluster-sync-objects/" + store.Key(name)
}

// checkSyncObject refuses a change of a sync object if a cluster that uses it could then
// not be reached, or would leave behind what was delivered. The error names the cluster. It
// reads equal settings once.
func (s Resources) checkSyncObject(ctx context.Context, at resource.Place, o v2.SyncObject) error {
	moves := map[v2.GitOps]bool{}
	for item, err := range store.All[v2.Cluster](ctx, s.DB, at.Parent+"/clusters", store.Query{Refers: at.Key, Depth: 1}) {
		if err != nil {
			return err
		}
		g, name := item.Value.Spec.GitOps, item.Value.Metadata.Name
		if _, known := moves[g]; !known {
			if moves[g], err = s.changesLocation(ctx, at, g, o); err != nil {
				return errs.E(errs.KindOf(err), "change", "what cluster "+name+" uses", err)
			}
		}
		if moves[g] {
			if err := s.checkEmpty(ctx, clusterAt(at, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// changesLocation reports whether a changed sync object moves clusters with settings g to
// another place in Git, or changes how they find it.
func (s Resources) changesLocation(ctx context.Context, at resource.Place, g v2.GitOps, changed v2.SyncObject) (bool, error) {
	next, err := s.readSettings(ctx, at, g, &changed)
	if err != nil {
		return false, err
	}
	now, err := s.readSettings(ctx, at, g, nil)
	if errs.Is(err, errs.Invalid) { // the stored one breaks rules that are newer than it: the change repairs it
		return false, nil
	}
	slot := route.SlotOf(g)
	now, next = now.At("", slot), next.At("", slot)
	return err == nil && (now.Kind != next.Kind || now.Repo.URL != next.Repo.URL || now.Branch != next.Branch || now.DerivedBranch != next.DerivedBranch), err
}

// checkEmpty refuses while a cluster holds something: it would stay at the old place
// forever.
func (s Resources) checkEmpty(ctx context.Context, cluster v2.ClusterKey) error {
	delivered, err := s.Delivered(ctx, cluster)
	if err == nil && delivered {
		err = errs.New(errs.Conflict, "repository and branch cannot change while something is deployed on cluster "+string(cluster)+"; terminate it first (credentials and timings may change at any time)")
	}
	return err
}

// checkDeliverable refuses a GitOps cluster whose type has no backend, or whose sync
// objects lack required settings. The references report objects that do not exist.
func (s Resources) checkDeliverable(ctx context.Context, at resource.Place, c v2.Cluster) error {
	if c.Direct() {
		return nil
	}
	_, err := s.readSettings(ctx, at, c.Spec.GitOps, nil)
	return err
}

// readSettings reads the sync objects that g names. It uses changed in place of the stored
// object of that name.
func (s Resources) readSettings(ctx context.Context, at resource.Place, g v2.GitOps, changed *v2.SyncObject) (syncobjects.Settings, error) {
	provider, clusters := path.Base(string(at.Parent)), (&route.Resolver{DB: s.DB, Rules: s.Rules}).Lookup()
	if changed != nil {
		clusters.Replace(provider, *changed)
	}
	settings, err := clusters.SharedSettings(ctx, provider, g)
	if errs.Is(err, errs.NotFound) {
		return syncobjects.Settings{}, nil
	}
	if err == nil {
		_, err = s.Backends.Open(settings.Kind, settings.Options)
	}
	return settings, err
}

func (s Resources) checkUpload(_ context.Context, _ v2.Cluster, content func() (io.ReadCloser, error)) error {
	file, err := content()
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return checkKubeconfig(text, s.Rules.Outbound)
}

func (s Resources) syncObjects() resource.Def[v2.SyncObject] {
	return resource.Def[v2.SyncObject]{
		Kind: "Cluster Sync Objects", Missing: "Cluster sync object not found", Orphan: "Cluster provider not found", Explicit: true,
		Collection: provider + "/cluster-sync-objects", Item: "{clusterSyncObject}", Put: resource.PutCreated,
		Settle: func(_ context.Context, _ resource.Place, o *v2.SyncObject) error {
			return syncobjects.CheckURL(syncobjects.Object{Name: o.Metadata.Name, KV: o.Spec.Strings()}, s.Rules)
		},
		Check: s.checkSyncObject,
		Masking: &resource.Masking[v2.SyncObject]{
			Mask:   v2.SyncObject.Masked,
			Unmask: (*v2.SyncObject).Unmask,
		},
		Queries: []resource.Query{{Param: "key", OnItem: true, Answer: lookup(s.DB, syncTexts)}},
	}
}

// lookupTexts are upstream's error texts for a lookup by key.
type lookupTexts struct{ document, key string }

var (
	kvTexts   = lookupTexts{"Cluster KV pair not found", "Cluster KV pair key value not found"}
	syncTexts = lookupTexts{"Cluster sync object not found", "Cluster sync object key value not found"}
)

// lookup answers ?key=K with {"value": ...} of the first map that has K. Secrets are
// masked.
func lookup(db *store.DB, t lookupTexts) func(context.Context, resource.Place, url.Values) ([]byte, error) {
	return func(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
		doc, err := db.Get(ctx, at.Key)
		if errs.Is(err, errs.NotFound) {
			return nil, errs.New(errs.NotFound, t.document)
		}
		if err != nil {
			return nil, err
		}
		kv, err := store.Decode[v2.KV](doc)
		if err != nil {
			return nil, err
		}
		value, ok := kv.Spec.Lookup(values.Get("key"))
		if !ok {
			return nil, errs.New(errs.NotFound, t.key)
		}
		return json.Marshal(map[string]string{"value": value})
	}
}

// labels returns the labels below a collection of clusters, by cluster.
func (s Resources) labels(ctx context.Context, clusters store.Key) (map[string][]v2.ClusterLabel, error) {
	all := map[string][]v2.ClusterLabel{}
	for doc, err := range s.DB.List(ctx, clusters, store.Query{Depth: 3}) {
		if err != nil {
			return nil, err
		}
		part := strings.Split(strings.TrimPrefix(string(doc.Key), string(clusters)+"/"), "/") // C/labels/L
		if part[1] == "labels" {
			all[part[0]] = append(all[part[0]], v2.ClusterLabel{Label: part[2]})
		}
	}
	return all, nil
}

// labelled answers ?label=L with the names of the clusters that have the label.
func (s Resources) labelled(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
	labels, err := s.labels(ctx, at.Collection)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for doc, err := range s.DB.List(ctx, at.Collection, store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(string(doc.Key), string(at.Collection)+"/")
		if hasLabel(labels[name], values.Get("label")) {
			names = append(names, name)
		}
	}
	return s.listed(ctx, at, names)
}

func hasLabel(labels []v2.ClusterLabel, label string) bool {
	return slices.ContainsFunc(labels, func(l v2.ClusterLabel) bool { return l.Label == label })
}

// listed answers with a list. An empty list needs an existing provider.
func (s Resources) listed(ctx context.Context, at resource.Place, names []string) ([]byte, error) {
	if len(names) == 0 {
		if _, err := s.DB.Get(ctx, at.Parent); err != nil {
			return nil, err
		}
	}
	return json.Marshal(names)
}

// clusterWithLabels is an entry of the answer to ?withLabels=true.
type clusterWithLabels struct {
	Metadata v2.Metadata       `json:"metadata"`
	Labels   []v2.ClusterLabel `json:"labels"`
}

// withLabels answers ?withLabels=true with the clusters and their labels; with ?label=L too, only with those that have the label. As in
// upstream EMCO, any other value has no effect.
func (s Resources) withLabels(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
	if values.Get("withLabels") != "true" {
		return nil, nil
	}
	labels, err := s.labels(ctx, at.Collection)
	if err != nil {
		return nil, err
	}
	all := []clusterWithLabels{}
	for item, err := range store.All[v2.Cluster](ctx, s.DB, at.Collection, store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if values.Has("label") && !hasLabel(labels[item.Value.Metadata.Name], values.Get("label")) {
			continue
		}
		c := clusterWithLabels{Metadata: item.Value.Metadata, Labels: labels[item.Value.Metadata.Name]}
		if c.Labels == nil {
			c.Labels = []v2.ClusterLabel{}
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		if _, err := s.DB.Get(ctx, at.Parent); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}
