package rsync

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
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobject"
)

// destination is how a cluster is reached: through Git by a backend, or directly
// with a kubeconfig.
type destination struct {
	lane       string // changes of equal lanes go out together
	settings   gitops.Settings
	backend    syncer.Backend // nil if the cluster is reached directly
	kubeconfig seal.Secret

	registration string     // id of the cluster's document, which another one of that name does not have
	leaves       *departure // where it is moving from, or has moved from; nil if it was never moved
}

// gateway finds destinations. It reads documents anew each time it is asked, so that
// a changed credential is used by the next try.
type gateway struct {
	db       *store.DB
	registry *syncer.Registry
	rules    gitops.Rules

	moves *moves // nil: nobody moves

	mu       sync.Mutex
	backends map[string]syncer.Backend // by type and options: a backend remembers what it wrote

	homes homes
}

// trip answers for many targets while it remembers clusters and their sync objects, which
// many share.
type trip struct {
	*gateway
	listed  map[string]store.Doc // registrations that were listed
	objects map[store.Key]gitops.Object
	found   map[string]destination // by cluster
}

func (g *gateway) trip() *trip {
	return &trip{gateway: g, objects: map[store.Key]gitops.Object{}, found: map[string]destination{}}
}

// find returns a cluster's destination. Errors are safe to show.
func (t *trip) find(ctx context.Context, cluster string) (destination, error) {
	if d, ok := t.found[cluster]; ok {
		return d, nil
	}
	d, err := t.look(ctx, cluster)
	if err == nil {
		t.found[cluster] = d
	}
	return d, err
}

func (t *trip) look(ctx context.Context, cluster string) (destination, error) {
	c, doc, err := t.cluster(ctx, cluster)
	if err != nil {
		return destination{}, err
	}
	var d destination
	if c.Direct() {
		d, err = t.direct(ctx, cluster, doc)
	} else {
		d, err = t.git(ctx, cluster, c)
	}
	d.registration = doc.UID
	if err == nil {
		d.leaves, err = t.departure(ctx, cluster, doc)
	}
	return d, err
}

// cluster reads a cluster's registration.
func (t *trip) cluster(ctx context.Context, cluster string) (c v2.Cluster, doc store.Doc, err error) {
	doc, listed := t.listed[cluster]
	if !listed {
		provider, name, _ := strings.Cut(cluster, "+")
		doc, err = t.db.Get(ctx, clusterKey(provider)+"/"+store.Key(name))
	}
	if err == nil {
		c, err = store.Decode[v2.Cluster](doc)
	}
	return c, doc, err
}

// many clusters of a provider are listed: that takes less than to read each by itself,
// unless there are many more.
const many = 500

// expect reads the registrations of clusters that will be asked for, if they are many. One
// that cannot be had is read again, by itself, when it is asked for.
func (t *trip) expect(ctx context.Context, clusters iter.Seq[string]) {
	asked := map[string]int{}
	for c := range clusters {
		provider, _, _ := strings.Cut(c, "+")
		asked[provider]++
	}
	for provider, n := range asked {
		if n >= many {
			t.list(ctx, provider)
		}
	}
}

func (t *trip) list(ctx context.Context, provider string) {
	if t.listed == nil {
		t.listed = map[string]store.Doc{}
	}
	for doc, err := range t.db.List(ctx, clusterKey(provider), store.Query{Depth: 1}) {
		if err != nil {
			return
		}
		t.listed[provider+"+"+path.Base(string(doc.Key))] = doc
	}
}

func clusterKey(provider string) store.Key { return providerKey(provider) + "/clusters" }

func providerKey(provider string) store.Key { return store.Key("cluster-providers/" + provider) }

func (t *trip) direct(ctx context.Context, cluster string, doc store.Doc) (destination, error) {
	kubeconfig, err := t.db.Reveal(ctx, doc)
	if err == nil && len(kubeconfig) == 0 {
		err = errs.E(errs.Invalid, "reach", cluster, errors.New("the cluster has no kubeconfig"))
	}
	return destination{lane: homeOfCluster(cluster), kubeconfig: kubeconfig}, err
}

func (t *trip) git(ctx context.Context, cluster string, c v2.Cluster) (d destination, err error) {
	if d.settings, err = t.settings(ctx, cluster, c); err != nil {
		return d, err
	}
	d.lane = homeOfBranch(d.settings.Repo.URL, d.settings.Branch) + " " + d.settings.Repo.User
	if d.settings.Propose {
		d.lane += " proposing"
	}
	d.backend, err = t.backend(d.settings)
	return d, err
}

// settings reads what a cluster's sync objects say, and where in the repository its
// registration has put it.
func (t *trip) settings(ctx context.Context, cluster string, c v2.Cluster) (gitops.Settings, error) {
	provider, _, _ := strings.Cut(cluster, "+")
	var objects [2]gitops.Object
	for i, name := range []string{c.Spec.GitOps.Reference, c.Spec.GitOps.Resource} {
		var err error
		if objects[i], err = t.object(ctx, providerKey(provider), name); err != nil {
			return gitops.Settings{}, err
		}
	}
	s, err := gitops.Read(c.Spec.GitOps.Type, objects[0], objects[1], t.rules)
	return s.At(cluster, syncobject.SeatOf(c.Spec.GitOps)), err
}

// object reads a sync object with its secrets, once a trip.
func (t *trip) object(ctx context.Context, root store.Key, name string) (gitops.Object, error) {
	key := root + "/" + store.Key(name)
	if o, ok := t.objects[key]; ok {
		return o, nil
	}
	o, err := syncobject.Read(ctx, t.db, root, name)
	if errs.Is(err, errs.NotFound) { // unlike a cluster that is not found, this can be mended
		err = errs.E(errs.Invalid, "read", string(key), err)
	}
	if err == nil {
		t.objects[key] = o
	}
	return o, err
}

// backend returns the one backend of a type and its options.
func (g *gateway) backend(s gitops.Settings) (syncer.Backend, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := s.Kind
	for _, k := range slices.Sorted(maps.Keys(s.Options)) {
		id += fmt.Sprintf("\x00%s\x00%s", k, s.Options[k])
	}
	if b, ok := g.backends[id]; ok {
		return b, nil
	}
	b, err := g.registry.Open(s.Kind, s.Options)
	if err == nil {
		g.backends[id] = b
	}
	return b, err
}
