// Package route finds out where a cluster is reached, and which shard does its work. It alone makes settings from sync
// objects: package clm, which owns them, checks registrations by SharedSettings. While a cluster moves, route also gives
// each shard its role in the move.
//
//	registration ──► sync objects ──► syncobjects.Settings ──► Route: backend, queue, shard
//
// Each Lookup reads everything as it is now, so a changed credential is used by the next try. While the documents are
// away, lookups for deliveries use what was read last.
package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Resolver makes lookups. It is safe for concurrent use.
type Resolver struct {
	DB       *store.DB
	Rules    syncobjects.Rules // which Git addresses are allowed
	Backends *syncer.Registry  // needed for routes, not for settings
	Moves    Moves             // nil: no cluster moves

	LastKnown *LastKnown // what deliveries use while the documents are away; nil: nothing

	mu       sync.Mutex
	backends map[string]syncer.Backend // by type and options: a backend remembers what it wrote; guarded by mu

	recent   recentShards
	listings recentListings
}

// Moves reports the progress of clusters that move to another place in Git.
type Moves interface {
	// Of returns the last known move of a cluster; the zero Relocation if there is none.
	Of(ctx context.Context, cluster v2.ClusterKey) (gitstate.Relocation, error)
}

// Lookup resolves clusters. It reads each sync object once, which many clusters share, and
// each cluster once. One goroutine uses it, for one piece of work.
type Lookup struct {
	*Resolver
	listed  map[string]*listing // by provider
	objects map[store.Key]syncobjects.Object
	shared  map[sharedBy]syncobjects.Settings
	alike   map[likeness]Route      // of pull-mode clusters
	routes  map[v2.ClusterKey]Route // by cluster

	known *LastKnown // of a lookup for deliveries
	epoch int        // of known when the lookup began
	away  error      // why the lookup asks the documents no more, and uses known
}

// sharedBy identifies settings: clusters with equal values share them.
type sharedBy struct{ provider, kind, reference, resource string }

// likeness identifies a route: clusters with equal values share it, except for registration and move.
type likeness struct {
	sharedBy
	syncobjects.Slot
}

// Lookup returns a lookup that has read nothing yet.
func (r *Resolver) Lookup() *Lookup {
	return &Lookup{
		Resolver: r, listed: map[string]*listing{}, objects: map[store.Key]syncobjects.Object{},
		shared: map[sharedBy]syncobjects.Settings{}, alike: map[likeness]Route{}, routes: map[v2.ClusterKey]Route{},
	}
}

// Route returns how a cluster is reached. Errors are safe to show: NotFound if the cluster
// is not registered, Invalid if its registration cannot be used as it is.
func (l *Lookup) Route(ctx context.Context, cluster v2.ClusterKey) (Route, error) {
	if r, ok := l.routes[cluster]; ok {
		return r, nil
	}
	g, r, err := l.reach(ctx, cluster)
	if err == nil {
		r.Move, err = l.move(ctx, cluster, g, r.Registration)
	}
	if err == nil {
		l.routes[cluster] = r
	}
	return r, err
}

// read reads how a cluster is registered, and its route without its move.
func (l *Lookup) read(ctx context.Context, cluster v2.ClusterKey) (g v2.GitOps, r Route, err error) {
	c, err := l.Registration(ctx, cluster)
	if err != nil {
		return g, r, err
	}
	if c.Direct() {
		r, err = l.direct(ctx, cluster, c)
	} else {
		r, err = l.Git(ctx, cluster, c.GitOps)
	}
	r.Registration = c.UID
	return c.GitOps, r, err
}

// Registration is what a cluster's document tells about how it is reached.
type Registration struct {
	UID        string    // of the document; a cluster that is registered again has another one
	GitOps     v2.GitOps // empty for a direct cluster
	kubeconfig []byte    // sealed
}

// Direct reports whether the API server of the cluster is called.
func (r Registration) Direct() bool { return r.GitOps.Type == "" }

// Registration reads a cluster's registration: NotFound if there is none. It has its UID also if the document cannot be decoded.
func (l *Lookup) Registration(ctx context.Context, cluster v2.ClusterKey) (Registration, error) {
	if r, known, err := l.prefetched(cluster); known {
		return r, err
	}
	key, err := v2.ParseClusterKey(string(cluster))
	if err != nil { // no registration has such a name
		return Registration{}, errs.E(errs.NotFound, "find", string(cluster), err)
	}
	doc, err := l.DB.Get(ctx, store.Key(key.StoreKey()))
	if err != nil {
		return Registration{}, err
	}
	return decode(doc)
}

// decode returns the registration of a document.
func decode(doc store.Doc) (Registration, error) {
	c, err := store.Decode[v2.Cluster](doc)
	return Registration{UID: doc.UID, GitOps: c.Spec.GitOps, kubeconfig: doc.Secret}, err
}

// SyncObjects returns the keys of the sync objects that a cluster's registration names; none
// if the registration cannot be read.
func (l *Lookup) SyncObjects(ctx context.Context, cluster v2.ClusterKey) (keys []store.Key) {
	c, err := l.Registration(ctx, cluster)
	if err != nil {
		return nil
	}
	for _, name := range []string{c.GitOps.Reference, c.GitOps.Resource} {
		if name != "" {
			keys = append(keys, syncObjectKey(cluster.Provider(), name))
		}
	}
	return keys
}

// SyncObjectProvider returns the cluster provider of a sync object, and whether the key is
// one of a sync object.
func SyncObjectProvider(k store.Key) (provider string, ok bool) {
	parts := strings.Split(string(k), "/")
	if len(parts) < 2 || k != syncObjectKey(parts[1], path.Base(string(k))) {
		return "", false
	}
	return parts[1], true
}

// PullCluster is a pull-mode cluster.
type PullCluster struct {
	Name     v2.ClusterKey
	Settings syncobjects.Settings
	Err      error // why its settings cannot be read
}

// PullClusters yields all pull-mode clusters.
func (l *Lookup) PullClusters(ctx context.Context) iter.Seq2[PullCluster, error] {
	return l.pullAmong(ctx, l.DB.List(ctx, "cluster-providers", store.Query{Depth: 3})) // not the labels and key-value pairs of clusters, which may be many more
}

// PullClustersOf yields the registered pull-mode clusters among some clusters.
func (l *Lookup) PullClustersOf(ctx context.Context, clusters []v2.ClusterKey) iter.Seq2[PullCluster, error] {
	return l.pullAmong(ctx, l.DB.GetEach(ctx, registrationKeys(clusters)))
}

func (l *Lookup) pullAmong(ctx context.Context, docs iter.Seq2[store.Doc, error]) iter.Seq2[PullCluster, error] {
	return func(yield func(PullCluster, error) bool) {
		for doc, err := range docs {
			if err != nil {
				yield(PullCluster{}, err)
				return
			}
			key, ok := v2.ClusterOf(string(doc.Key))
			if !ok {
				continue
			}
			c, err := decode(doc)
			if err != nil || c.Direct() {
				continue
			}
			if !yield(l.pullCluster(ctx, key, c.GitOps), nil) {
				return
			}
		}
	}
}

func (l *Lookup) pullCluster(ctx context.Context, name v2.ClusterKey, g v2.GitOps) PullCluster {
	f := PullCluster{Name: name}
	f.Settings, f.Err = l.Settings(ctx, name, g)
	return f
}

// Repo returns the repository of a branch, with the credential of a cluster that the branch feeds; NotFound if
// it feeds none. It reads registrations until one fits.
func (l *Lookup) Repo(ctx context.Context, b Branch) (git.Repo, error) {
	for c, err := range l.PullClusters(ctx) {
		if err != nil {
			return git.Repo{}, err
		}
		if c.Err == nil && c.Settings.Repo.URL == b.URL && c.Settings.Branch == b.Name {
			return c.Settings.Repo, nil
		}
	}
	return git.Repo{}, errs.E(errs.NotFound, "find", "a credential for branch "+b.Name+" of "+b.URL, errors.New("it feeds no cluster any longer"))
}

// Settings reads the Git settings from the sync objects of a cluster, and where in the
// repository the cluster is. NotFound is about a sync object.
func (l *Lookup) Settings(ctx context.Context, cluster v2.ClusterKey, g v2.GitOps) (syncobjects.Settings, error) {
	key, err := v2.ParseClusterKey(string(cluster))
	if err != nil {
		return syncobjects.Settings{}, err
	}
	s, err := l.SharedSettings(ctx, key.Provider(), g)
	return s.At(string(cluster), SlotOf(g)), err
}

// SharedSettings reads the Git settings from sync objects of a provider. Clusters with equal
// sync objects share them, wherever in the repository each of them is.
func (l *Lookup) SharedSettings(ctx context.Context, provider string, g v2.GitOps) (syncobjects.Settings, error) {
	by := sharedByOf(provider, g)
	if s, known := l.shared[by]; known {
		return s, nil
	}
	var objects [2]syncobjects.Object
	for i, name := range []string{g.Reference, g.Resource} {
		var err error
		if objects[i], err = l.syncObject(ctx, provider, name); err != nil {
			return syncobjects.Settings{}, err
		}
	}
	s, err := syncobjects.Read(g.Type, objects[0], objects[1], l.Rules)
	if err == nil {
		l.shared[by] = s
	}
	return s, err
}

func sharedByOf(provider string, g v2.GitOps) sharedBy {
	return sharedBy{provider, g.Type, g.Reference, g.Resource}
}

// Replace makes the lookup use a sync object instead of the stored one of its name.
func (l *Lookup) Replace(provider string, o v2.SyncObject) {
	l.objects[syncObjectKey(provider, o.Metadata.Name)] = syncobjects.Object{Name: o.Metadata.Name, KV: o.Spec.Strings()}
	clear(l.shared)
	clear(l.alike)
}

// syncObject reads a sync object with its secrets, once; the zero Object for an empty name.
func (l *Lookup) syncObject(ctx context.Context, provider, name string) (syncobjects.Object, error) {
	if name == "" {
		return syncobjects.Object{}, nil
	}
	key := syncObjectKey(provider, name)
	if o, ok := l.objects[key]; ok {
		return o, nil
	}
	if l.away != nil {
		return syncobjects.Object{}, l.away
	}
	doc, err := l.DB.Get(ctx, key)
	if err != nil {
		return syncobjects.Object{}, err
	}
	plain, err := l.DB.Reveal(ctx, doc)
	if err != nil {
		return syncobjects.Object{}, err
	}
	o, err := v2.Decode[v2.SyncObject](plain, v2.Lenient)
	if err != nil {
		return syncobjects.Object{}, err
	}
	l.Replace(provider, o)
	return l.objects[key], nil
}

// direct is the route to a cluster whose API server is called.
func (l *Lookup) direct(ctx context.Context, cluster v2.ClusterKey, c Registration) (Route, error) {
	kubeconfig, err := l.DB.Reveal(ctx, store.Doc{Key: store.Key(cluster.StoreKey()), UID: c.UID, Secret: c.kubeconfig})
	if err == nil && len(kubeconfig) == 0 {
		err = errs.E(errs.Invalid, "reach", string(cluster), errors.New("the cluster has no kubeconfig"))
	}
	return Route{Queue: clusterKey(cluster), Settings: new(syncobjects.Settings), Kubeconfig: kubeconfig}, err
}

// Git returns the route that feeds a cluster with settings g. Clusters that are alike share it, unless each reads a branch of its own.
func (l *Lookup) Git(ctx context.Context, cluster v2.ClusterKey, g v2.GitOps) (Route, error) {
	by := likeness{sharedByOf(cluster.Provider(), g), SlotOf(g)}
	if r, known := l.alike[by]; known {
		return r, nil
	}
	r, err := l.git(ctx, cluster, g)
	if err == nil && g.RefMode != syncobjects.RefCluster {
		l.alike[by] = r
	}
	return r, err
}

func (l *Lookup) git(ctx context.Context, cluster v2.ClusterKey, g v2.GitOps) (Route, error) {
	s, err := l.Settings(ctx, cluster, g)
	r := Route{Settings: &s}
	if err != nil {
		if errs.Is(err, errs.NotFound) { // a missing cluster ends its pairs; a missing sync object can be created
			err = errs.E(errs.Invalid, "read", "sync objects of "+string(cluster), err)
		}
		return r, err
	}
	r.Queue = branchKey(r.Branch()) + " " + s.Repo.User
	if s.Propose {
		r.Queue += " proposing"
	}
	r.Backend, err = l.backend(s)
	return r, err
}

// backend returns the one backend of a type and its options.
func (r *Resolver) backend(s syncobjects.Settings) (syncer.Backend, error) {
	id := s.Kind
	for _, k := range slices.Sorted(maps.Keys(s.Options)) {
		id += fmt.Sprintf("\x00%s\x00%s", k, s.Options[k])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.backends[id]; ok {
		return b, nil
	}
	b, err := r.Backends.Open(s.Kind, s.Options)
	if err != nil {
		return nil, err
	}
	if r.backends == nil {
		r.backends = map[string]syncer.Backend{}
	}
	r.backends[id] = b
	return b, nil
}

// SlotOf returns the place that a registration gives a cluster in its repository.
func SlotOf(g v2.GitOps) syncobjects.Slot {
	return syncobjects.Slot{Mode: g.RefMode, Shard: g.Shard, FanOut: g.FanOut}
}

func providerKey(provider string) store.Key {
	return store.Key(v2.ProviderStoreKey(provider))
}

func clustersKey(provider string) store.Key { return providerKey(provider) + "/clusters" }

func syncObjectKey(provider, name string) store.Key {
	return providerKey(provider) + "/cluster-sync-objects/" + store.Key(name)
}
