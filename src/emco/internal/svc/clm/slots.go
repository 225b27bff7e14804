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
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// A cluster's slot (its branch and directory in its repository) is chosen when it is registered, and stored in the
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
	recount = 5 * time.Second
)

// slotAllocator counts the clusters of repositories and chooses the slots of new ones.
type slotAllocator struct {
	resources Resources

	mu      sync.Mutex
	counts  branchCounts // guarded by mu
	counted time.Time    // when counts were brought up to date; zero: they must be; guarded by mu
}

func newSlotAllocator(resources Resources) *slotAllocator {
	return &slotAllocator{resources: resources, counts: branchCounts{resources: resources}}
}

// Places keeps the counts of clusters nearly up to date while it runs, so that a registration finds little to read: the first count of a
// large fleet takes a while.
type Places struct{ allocator *slotAllocator }

// Name is "places".
func (*Places) Name() string { return "places" }

// Ready is nil: a registration counts itself if it must.
func (*Places) Ready() error { return nil }

// Run counts every few seconds until ctx ends. What it cannot read, the next registration reads.
func (p *Places) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = p.allocator.refresh(readpoint.With(ctx))
		_ = pause.For(ctx, recount)
	}
	return nil
}

func (a *slotAllocator) refresh(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.countLocked(ctx)
}

// assignSlot chooses the place of a new cluster. If the sync objects cannot be read, it
// chooses none: the check refuses the cluster.
func (a *slotAllocator) assignSlot(ctx context.Context, at resource.Place, c *v2.Cluster) error {
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
	a.counts.assign(clusterAt(at, c.Metadata.Name), placeOf(s, c.Spec.GitOps))
	a.warnIfCrowdedLocked(s, c.Spec.GitOps)
	return nil
}

// allocateLocked sets the members that a registration leaves open.
func (a *slotAllocator) allocateLocked(cluster v2.ClusterKey, s syncobjects.Settings, g *v2.GitOps) error {
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
		if err := a.checkDerivedBranchLocked(cluster, s, *g); err != nil {
			return err
		}
	}
	g.FanOut = g.FanOut || a.counts.branches[branchKeyOf(s, *g)].flat >= maxFlat
	return nil
}

// allocateShardLocked chooses a shard with room. It refuses a full shard that the registration
// names.
func (a *slotAllocator) allocateShardLocked(cluster v2.ClusterKey, s syncobjects.Settings, g *v2.GitOps) error {
	room := func(shard string) bool {
		return a.counts.branches[branchKey{s.Repo.URL, s.Branch, shard}].clusters < s.Sharding.Size
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
func (a *slotAllocator) openShardLocked(cluster v2.ClusterKey, s syncobjects.Settings, room func(string) bool) string {
	known := map[string]bool{}
	for i := range s.Sharding.First {
		known[syncobjects.ShardName(i)] = true
	}
	for b := range a.counts.branches {
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

// checkDerivedBranchLocked refuses a cluster that cannot have a branch of its own.
func (a *slotAllocator) checkDerivedBranchLocked(cluster v2.ClusterKey, s syncobjects.Settings, g v2.GitOps) error {
	s = s.At(string(cluster), route.SlotOf(g))
	if err := s.CheckDerivedBranch(); err != nil {
		return err
	}
	if a.counts.own[s.Repo.URL]+countOwnBranches(s) > maxBranches {
		return errs.New(errs.Conflict, fmt.Sprintf("the clusters of the repository have %d branches of their own, and a repository takes %d; let them report elsewhere (statusUrl), or use another repository", a.counts.own[s.Repo.URL], maxBranches))
	}
	return nil
}

// warnIfCrowdedLocked logs when a branch holds more clusters than a shard should, once per
// multiple of the shard size. The allocator moves none of them: clusters read the branch.
func (a *slotAllocator) warnIfCrowdedLocked(s syncobjects.Settings, g v2.GitOps) {
	many := a.counts.branches[branchKeyOf(s, g)].clusters
	if a.resources.Log == nil || g.Shard != "" || many <= s.Sharding.Size || many%s.Sharding.Size != 1 {
		return
	}
	a.resources.Log.Warn("one branch holds more clusters than it should: each push costs the server the content of all of them; use refMode shard for new clusters",
		slog.String("repo", s.Repo.URL), slog.String("branch", s.Branch), slog.Int("clusters", many), slog.Int("shardSize", s.Sharding.Size))
}

// countLocked brings the counts up to date, unless they are recent.
func (a *slotAllocator) countLocked(ctx context.Context) error {
	if !a.counted.IsZero() && time.Since(a.counted) < recount {
		return nil
	}
	err := a.counts.update(ctx)
	if err == nil {
		a.counted = time.Now()
	}
	return err
}
