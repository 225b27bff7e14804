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
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Where in its repository a cluster is, is decided when it is registered, and kept in its
// registration: whatever comes later, it does not move by itself.

const (
	// maxFlat is how many clusters have their directory right in "clusters" on one branch.
	// GitHub takes 3,000 entries in a directory, of which 256 are for those that fan out.
	maxFlat = 3000 - 256
	// maxBranches is how many branches a repository takes that each cluster has one of.
	maxBranches = 5000
	// recount is how long it is believed what other processes have registered.
	recount = time.Minute
)

// shardAllocator counts the clusters of repositories, and seats new ones.
type shardAllocator struct {
	resources Resources

	mu          sync.Mutex
	counted     time.Time
	branches    map[branchKey]branchUsage
	ownBranches map[string]int // branches that clusters have of their own, by repository
}

// branchKey is one that clusters are on, with the name of the sync objects' branch and the
// shard apart.
type branchKey struct{ url, name, shard string }

// branchUsage is who is on a branch.
type branchUsage struct {
	clusters int
	flat     int // of these, without fan-out
}

// assignSlot gives a new cluster its seat. One whose sync objects cannot be read has none; it
// is refused for that.
func (n *shardAllocator) assignSlot(ctx context.Context, at resource.Place, c *v2.Cluster) error {
	c.Spec.GitOps.Moved = v2.GitOpsMove{} // it is not the client's to say
	if c.Direct() {
		return nil
	}
	s, err := n.resources.readSettings(ctx, at, c.Spec.GitOps, nil)
	if err != nil || s.Repo.URL == "" || s.Published() {
		return nil // the check, or the references, say what is wrong; or there are no branches
	}
	if _, err := n.resources.DB.Get(ctx, at.Key); err == nil {
		return nil // it is registered already, and keeps its seat
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.count(ctx); err != nil {
		return err
	}
	cluster := at.Vars["clusterProvider"] + "+" + c.Metadata.Name
	if err := n.allocate(cluster, s, &c.Spec.GitOps); err != nil {
		return err
	}
	n.add(s, c.Spec.GitOps)
	n.warn(s, c.Spec.GitOps)
	return nil
}

// allocate decides what a registration leaves open.
func (n *shardAllocator) allocate(cluster string, s gitops.Settings, g *v2.GitOps) error {
	if g.RefMode == "" && s.Sharding.Mode != gitops.RefBranch {
		g.RefMode = s.Sharding.Mode
	}
	if g.RefMode == "" && g.Shard != "" {
		g.RefMode = gitops.RefShard
	}
	if g.RefMode != "" {
		if err := n.allocateShard(cluster, s, g); err != nil {
			return err
		}
	}
	if g.RefMode == gitops.RefCluster {
		if err := n.checkClusterBranch(cluster, s, *g); err != nil {
			return err
		}
	}
	g.FanOut = g.FanOut || n.branches[branchKeyOf(s, *g)].flat >= maxFlat
	return nil
}

// allocateShard finds a shard with room; one that is full takes nobody who asks for it either.
func (n *shardAllocator) allocateShard(cluster string, s gitops.Settings, g *v2.GitOps) error {
	room := func(shard string) bool {
		return n.branches[branchKey{s.Repo.URL, s.Branch, shard}].clusters < s.Sharding.Size
	}
	if g.Shard == "" {
		g.Shard = n.emptiestShard(cluster, s, room)
		return nil
	}
	if !room(g.Shard) {
		return errs.New(errs.Conflict, fmt.Sprintf("shard %s holds %d clusters, and takes no more; name another one, none, or raise shardSize", g.Shard, s.Sharding.Size))
	}
	return nil
}

// emptiestShard returns the shard among those with room that the cluster's name is drawn to, or
// the next one if all are full.
func (n *shardAllocator) emptiestShard(cluster string, s gitops.Settings, room func(string) bool) string {
	known := map[string]bool{}
	for i := range s.Sharding.First {
		known[gitops.ShardName(i)] = true
	}
	for b := range n.branches {
		if b.url == s.Repo.URL && b.name == s.Branch && b.shard != "" {
			known[b.shard] = true
		}
	}
	var all []string
	for shard := range known {
		if room(shard) {
			all = append(all, shard)
		}
	}
	if len(all) > 0 {
		return slices.MaxFunc(all, func(a, b string) int {
			return cmp.Or(cmp.Compare(rendezvousScore(a, cluster), rendezvousScore(b, cluster)), cmp.Compare(a, b))
		})
	}
	next := 0
	for known[gitops.ShardName(next)] {
		next++
	}
	return gitops.ShardName(next)
}

// rendezvousScore is how much a cluster is drawn to a shard, by rendezvous hashing.
func rendezvousScore(shard, cluster string) uint64 {
	sum := sha256.Sum256([]byte(shard + "\x00" + cluster))
	return binary.BigEndian.Uint64(sum[:])
}

// checkClusterBranch refuses a cluster that can have no branch of its own.
func (n *shardAllocator) checkClusterBranch(cluster string, s gitops.Settings, g v2.GitOps) error {
	s = s.At(cluster, route.Seat(g))
	if err := s.CheckView(); err != nil {
		return err
	}
	if n.ownBranches[s.Repo.URL]+countOwnBranches(s) > maxBranches {
		return errs.New(errs.Conflict, fmt.Sprintf("the clusters of the repository have %d branches of their own, and a repository takes %d; have them report elsewhere (statusUrl), or use another repository", n.ownBranches[s.Repo.URL], maxBranches))
	}
	return nil
}

// countOwnBranches is how many branches a cluster has for itself.
func countOwnBranches(s gitops.Settings) (many int) {
	if s.View != "" {
		many++
	}
	if s.Status.Mode == gitops.StatusRef && s.Status.Repo.URL == s.Repo.URL {
		many++
	}
	return many
}

func branchKeyOf(s gitops.Settings, g v2.GitOps) branchKey {
	return branchKey{s.Repo.URL, s.Branch, g.Shard}
}

// add counts a cluster.
func (n *shardAllocator) add(s gitops.Settings, g v2.GitOps) {
	t := n.branches[branchKeyOf(s, g)]
	t.clusters++
	if !g.FanOut {
		t.flat++
	}
	n.branches[branchKeyOf(s, g)] = t
	n.ownBranches[s.Repo.URL] += countOwnBranches(s.At("", route.Seat(g)))
}

// warn tells of a branch that holds more clusters than a shard should, again for each
// further such number. It is not changed: clusters read it.
func (n *shardAllocator) warn(s gitops.Settings, g v2.GitOps) {
	many := n.branches[branchKeyOf(s, g)].clusters
	if n.resources.Log == nil || g.Shard != "" || many <= s.Sharding.Size || many%s.Sharding.Size != 1 {
		return
	}
	n.resources.Log.Warn("more clusters are on one branch than it should hold: every push costs the server what all of them hold; use refMode shard for those to come",
		slog.String("repo", s.Repo.URL), slog.String("branch", s.Branch), slog.Int("clusters", many), slog.Int("shardSize", s.Sharding.Size))
}

// count counts all clusters, unless that was done lately.
func (n *shardAllocator) count(ctx context.Context) error {
	if n.branches != nil && time.Since(n.counted) < recount {
		return nil
	}
	fresh := &shardAllocator{resources: n.resources, branches: map[branchKey]branchUsage{}, ownBranches: map[string]int{}}
	for doc, err := range n.resources.DB.List(ctx, "cluster-providers", store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		if err := fresh.provider(ctx, doc.Key); err != nil {
			return err
		}
	}
	n.branches, n.ownBranches, n.counted = fresh.branches, fresh.ownBranches, time.Now()
	return nil
}

// provider counts the clusters of a provider. Those with equal sync objects are read once.
func (n *shardAllocator) provider(ctx context.Context, key store.Key) error {
	known := map[v2.GitOps]gitops.Settings{}
	at := resource.Place{Parent: key}
	for item, err := range store.All[v2.Cluster](ctx, n.resources.DB, key+"/clusters", store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		g := item.Value.Spec.GitOps
		objects := v2.GitOps{Type: g.Type, Reference: g.Reference, Resource: g.Resource}
		s, read := known[objects]
		if !read && !item.Value.Direct() {
			if s, err = n.resources.readSettings(ctx, at, objects, nil); err != nil && !errs.Is(err, errs.Invalid) {
				return err
			}
			known[objects] = s
		}
		if s.Repo.URL != "" && !s.Published() {
			n.add(s, g)
		}
	}
	return nil
}
