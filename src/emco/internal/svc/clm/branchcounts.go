package clm

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// assignedFor is how long a place that was assigned counts although no registration has it: the registration may be refused
// afterwards.
const assignedFor = time.Minute

// branchCounts counts the clusters on each branch. It reads all registrations once, and then those that were written since.
type branchCounts struct {
	resources Resources
	mark      int64                          // of the changes that have been read
	places    map[v2.ClusterKey]countedPlace // of clusters on branches; nil: nothing was read yet
	assigned  map[v2.ClusterKey]time.Time    // when a place was chosen whose registration was not read yet
	branches  map[branchKey]branchUsage
	own       map[string]int // number of clusters' own branches, by repository
}

// branchKey identifies a branch by the sync objects' branch and the shard.
type branchKey struct{ url, name, shard string }

// branchUsage counts the clusters on a branch.
type branchUsage struct {
	clusters int
	flat     int // those without fan-out
}

// countedPlace is how a cluster counts.
type countedPlace struct {
	branch branchKey
	flat   bool // without fan-out
	own    int  // branches that it has for itself
}

func branchKeyOf(s syncobjects.Settings, g v2.GitOps) branchKey {
	return branchKey{s.Repo.URL, s.Branch, g.Shard}
}

func placeOf(s syncobjects.Settings, g v2.GitOps) countedPlace {
	return countedPlace{branchKeyOf(s, g), !g.FanOut, countOwnBranches(s.At("", route.SlotOf(g)))}
}

// countOwnBranches returns how many branches a cluster has for itself.
func countOwnBranches(s syncobjects.Settings) (many int) {
	if s.DerivedBranch != "" {
		many++
	}
	if s.Status.Mode == syncobjects.StatusRef && s.Status.Repo.URL == s.Repo.URL {
		many++
	}
	return many
}

// assign counts a cluster whose registration is about to be stored.
func (c *branchCounts) assign(cluster v2.ClusterKey, p countedPlace) {
	c.put(cluster, p)
	c.assigned[cluster] = time.Now()
}

// update reads what was written since the last call. The mark moves when all of it was read.
func (c *branchCounts) update(ctx context.Context) error {
	changes, err := c.resources.DB.Changes(ctx, c.mark) // before the documents are read
	if err != nil {
		return err
	}
	changed, all := route.ChangedClusters(changes)
	if all || c.places == nil {
		err = c.readAll(ctx)
	} else {
		err = c.readSome(ctx, changed)
	}
	if err == nil {
		c.mark = changes.Mark
	}
	return err
}

// readAll reads all registrations. Places that were assigned stay for a while.
func (c *branchCounts) readAll(ctx context.Context) error {
	fresh := branchCounts{
		resources: c.resources, places: map[v2.ClusterKey]countedPlace{}, assigned: map[v2.ClusterKey]time.Time{},
		branches: map[branchKey]branchUsage{}, own: map[string]int{},
	}
	for cluster, at := range c.assigned {
		if time.Since(at) < assignedFor {
			fresh.put(cluster, c.places[cluster])
			fresh.assigned[cluster] = at
		}
	}
	read := fresh.reader()
	for doc, err := range c.resources.DB.List(ctx, "cluster-providers", store.Query{Depth: 3}) { // clusters and sync objects
		if err == nil {
			err = read(ctx, doc)
		}
		if err != nil {
			return err
		}
	}
	*c = fresh
	return nil
}

// readSome reads the registrations of some clusters, and those that should have been stored by now.
func (c *branchCounts) readSome(ctx context.Context, changed []v2.ClusterKey) error {
	absent := map[v2.ClusterKey]bool{}
	for _, cluster := range changed {
		absent[cluster] = true
	}
	for cluster, at := range c.assigned {
		if time.Since(at) >= assignedFor {
			absent[cluster] = true
		}
	}
	var keys []store.Key
	for _, cluster := range slices.Sorted(maps.Keys(absent)) {
		keys = append(keys, store.Key(cluster.StoreKey()))
	}
	read := c.reader()
	for doc, err := range c.resources.DB.GetEach(ctx, keys) {
		if err == nil {
			err = read(ctx, doc)
		}
		if err != nil {
			return err
		}
		cluster, _ := v2.ClusterOf(string(doc.Key))
		delete(absent, cluster)
	}
	for cluster := range absent {
		if time.Since(c.assigned[cluster]) >= assignedFor {
			c.remove(cluster)
		}
	}
	return nil
}

// reader returns a function that counts a cluster as its registration says. It reads equal sync objects once.
func (c *branchCounts) reader() func(context.Context, store.Doc) error {
	type sharedBy struct {
		provider string
		objects  v2.GitOps
	}
	known := map[sharedBy]syncobjects.Settings{}
	return func(ctx context.Context, doc store.Doc) error {
		key, ok := v2.ClusterOf(string(doc.Key))
		if !ok {
			return nil
		}
		cluster, err := store.Decode[v2.Cluster](doc)
		if err != nil {
			return err
		}
		g := cluster.Spec.GitOps
		by := sharedBy{key.Provider(), v2.GitOps{Type: g.Type, Reference: g.Reference, Resource: g.Resource}}
		s, read := known[by]
		if !read && !cluster.Direct() {
			if s, err = c.resources.readSettings(ctx, resource.Place{Parent: store.Key(v2.ProviderStoreKey(key.Provider()))}, by.objects, nil); err != nil && !errs.Is(err, errs.Invalid) {
				return err
			}
			known[by] = s
		}
		if c.remove(key); s.Repo.URL != "" && !s.Published() {
			c.put(key, placeOf(s, g))
		}
		return nil
	}
}

// put counts a cluster at a place, and no longer at another one.
func (c *branchCounts) put(cluster v2.ClusterKey, p countedPlace) {
	c.remove(cluster)
	c.places[cluster] = p
	c.add(p, 1)
}

// remove counts a cluster no longer.
func (c *branchCounts) remove(cluster v2.ClusterKey) {
	if p, counted := c.places[cluster]; counted {
		c.add(p, -1)
	}
	delete(c.places, cluster)
	delete(c.assigned, cluster)
}

func (c *branchCounts) add(p countedPlace, n int) {
	b := c.branches[p.branch]
	b.clusters += n
	if p.flat {
		b.flat += n
	}
	if c.branches[p.branch] = b; b.clusters == 0 {
		delete(c.branches, p.branch)
	}
	c.own[p.branch.url] += n * p.own
}
