package clm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// A cluster's place in its repository is chosen when it is registered, and stored in the
// registration. It changes only by a move.

const (
	// maxFlat bounds the clusters with a directory directly in "clusters" on one branch.
	// GitHub allows 3,000 entries in a directory; 256 of them are for clusters that fan
	// out.
	maxFlat = 3000 - 256
	// maxBranches bounds the branches per cluster in one repository.
	maxBranches = 5000
	// recount is how long the counts are reused although other processes may register
	// clusters.
	recount = time.Minute
)

// shardAllocator counts the clusters of repositories and chooses the places of new ones.
type shardAllocator struct {
	resources Resources

	mu          sync.Mutex
	counted     time.Time                 // guarded by mu
	branches    map[branchKey]branchUsage // nil: not counted yet; guarded by mu
	ownBranches map[string]int            // number of clusters' own branches, by repository; guarded by mu
}

// branchKey identifies a branch by the sync objects' branch and the shard.
type branchKey struct{ url, name, shard string }

// branchUsage counts the clusters on a branch.
type branchUsage struct {
	clusters int
	flat     int // those without fan-out
}

// assignSlot chooses the place of a new cluster. If the sync objects cannot be read, it
// chooses none: the check refuses the cluster.
func (a *shardAllocator) assignSlot(ctx context.Context, at resource.Place, c *v2.Cluster) error {
	c.Spec.GitOps.Moved = v2.GitOpsMove{} // clients must not set it
	if c.Direct() {
		return nil
	}
	if _, err := a.resources.DB.Get(ctx, at.Key); err == nil { // first: what is not in memory is a read point too
		return nil // it is registered and keeps its place
	}
	s, err := a.resources.readSettings(ctx, at, c.Spec.GitOps, nil)
	if err != nil || s.Repo.URL == "" || s.Published() {
		return nil // the check or the references report what is wrong, or there are no branches
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.countLocked(ctx); err != nil {
		return err
	}
	if err := a.allocateLocked(clusterAt(at, c.Metadata.Name), s, &c.Spec.GitOps); err != nil {
		return err
	}
	if resource.DryRun(ctx) {
		return nil
	}
	a.addLocked(s, c.Spec.GitOps)
	a.warnIfCrowdedLocked(s, c.Spec.GitOps)
	return nil
}

// allocateLocked sets the members that a registration leaves open.
func (a *shardAllocator) allocateLocked(cluster v2.ClusterKey, s syncobjects.Settings, g *v2.GitOps) error {
	if g.RefMode == "" && s.Sharding.Mode != syncobjects.RefBranch {
		g.RefMode = s.Sharding.Mode
	}
	if g.RefMode == "" && g.Shard != "" {
		g.RefMode = syncobjects.RefShard
	}
	if g.RefMode != "" {
		if err := a.allocateShardLocked(cluster, s, g); err != nil {
			return err
		}
	}
	if g.RefMode == syncobjects.RefCluster {
		if err := a.checkClusterBranchLocked(cluster, s, *g); err != nil {
			return err
		}
	}
	g.FanOut = g.FanOut || a.branches[branchKeyOf(s, *g)].flat >= maxFlat
	return nil
}

// allocateShardLocked chooses a shard with room. It refuses a full shard that the registration
// names.
func (a *shardAllocator) allocateShardLocked(cluster v2.ClusterKey, s syncobjects.Settings, g *v2.GitOps) error {
	room := func(shard string) bool {
		return a.branches[branchKey{s.Repo.URL, s.Branch, shard}].clusters < s.Sharding.Size
	}
	if g.Shard == "" {
		g.Shard = a.openShardLocked(cluster, s, room)
		return nil
	}
	if !room(g.Shard) {
		return errs.New(errs.Conflict, fmt.Sprintf("shard %s holds %d clusters and is full; name another one, none, or raise shardSize", g.Shard, s.Sharding.Size))
	}
	return nil
}

// openShardLocked returns the shard with room that has the highest rendezvous score for the
// cluster, or the next new one if all are full.
func (a *shardAllocator) openShardLocked(cluster v2.ClusterKey, s syncobjects.Settings, room func(string) bool) string {
	known := map[string]bool{}
	for i := range s.Sharding.First {
		known[syncobjects.ShardName(i)] = true
	}
	for b := range a.branches {
		if b.url == s.Repo.URL && b.name == s.Branch && b.shard != "" {
			known[b.shard] = true
		}
	}
	var withRoom []string
	for shard := range known {
		if room(shard) {
			withRoom = append(withRoom, shard)
		}
	}
	if len(withRoom) > 0 {
		return slices.MaxFunc(withRoom, func(x, y string) int {
			return cmp.Or(cmp.Compare(rendezvousScore(x, cluster), rendezvousScore(y, cluster)), cmp.Compare(x, y))
		})
	}
	next := 0
	for known[syncobjects.ShardName(next)] {
		next++
	}
	return syncobjects.ShardName(next)
}

// rendezvousScore is the weight of a shard for a cluster in rendezvous hashing.
func rendezvousScore(shard string, cluster v2.ClusterKey) uint64 {
	sum := sha256.Sum256([]byte(shard + "\x00" + string(cluster)))
	return binary.BigEndian.Uint64(sum[:])
}

// checkClusterBranchLocked refuses a cluster that cannot have a branch of its own.
func (a *shardAllocator) checkClusterBranchLocked(cluster v2.ClusterKey, s syncobjects.Settings, g v2.GitOps) error {
	s = s.At(string(cluster), route.SlotOf(g))
	if err := s.CheckDerivedBranch(); err != nil {
		return err
	}
	if a.ownBranches[s.Repo.URL]+countOwnBranches(s) > maxBranches {
		return errs.New(errs.Conflict, fmt.Sprintf("the clusters of the repository have %d branches of their own, and a repository takes %d; let them report elsewhere (statusUrl), or use another repository", a.ownBranches[s.Repo.URL], maxBranches))
	}
	return nil
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

func branchKeyOf(s syncobjects.Settings, g v2.GitOps) branchKey {
	return branchKey{s.Repo.URL, s.Branch, g.Shard}
}

// addLocked counts a cluster.
func (a *shardAllocator) addLocked(s syncobjects.Settings, g v2.GitOps) {
	t := a.branches[branchKeyOf(s, g)]
	t.clusters++
	if !g.FanOut {
		t.flat++
	}
	a.branches[branchKeyOf(s, g)] = t
	a.ownBranches[s.Repo.URL] += countOwnBranches(s.At("", route.SlotOf(g)))
}

// warnIfCrowdedLocked logs when a branch holds more clusters than a shard should, once per
// multiple of the shard size. The allocator moves none of them: clusters read the branch.
func (a *shardAllocator) warnIfCrowdedLocked(s syncobjects.Settings, g v2.GitOps) {
	many := a.branches[branchKeyOf(s, g)].clusters
	if a.resources.Log == nil || g.Shard != "" || many <= s.Sharding.Size || many%s.Sharding.Size != 1 {
		return
	}
	a.resources.Log.Warn("one branch holds more clusters than it should: each push costs the server the content of all of them; use refMode shard for new clusters",
		slog.String("repo", s.Repo.URL), slog.String("branch", s.Branch), slog.Int("clusters", many), slog.Int("shardSize", s.Sharding.Size))
}

// countLocked counts all clusters, unless the counts are recent.
func (a *shardAllocator) countLocked(ctx context.Context) error {
	if a.branches != nil && time.Since(a.counted) < recount {
		return nil
	}
	fresh := &shardAllocator{resources: a.resources, branches: map[branchKey]branchUsage{}, ownBranches: map[string]int{}}
	for doc, err := range a.resources.DB.List(ctx, "cluster-providers", store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		if err := fresh.provider(ctx, doc.Key); err != nil {
			return err
		}
	}
	a.branches, a.ownBranches, a.counted = fresh.branches, fresh.ownBranches, time.Now()
	return nil
}

// provider counts the clusters of a provider. It reads equal sync objects once.
func (a *shardAllocator) provider(ctx context.Context, key store.Key) error {
	known := map[v2.GitOps]syncobjects.Settings{}
	at := resource.Place{Parent: key}
	for item, err := range store.All[v2.Cluster](ctx, a.resources.DB, key+"/clusters", store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		g := item.Value.Spec.GitOps
		objects := v2.GitOps{Type: g.Type, Reference: g.Reference, Resource: g.Resource}
		s, read := known[objects]
		if !read && !item.Value.Direct() {
			if s, err = a.resources.readSettings(ctx, at, objects, nil); err != nil && !errs.Is(err, errs.Invalid) {
				return err
			}
			known[objects] = s
		}
		if s.Repo.URL != "" && !s.Published() {
			a.addLocked(s, g)
		}
	}
	return nil
}
