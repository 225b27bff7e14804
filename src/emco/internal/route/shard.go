package route

import (
	"context"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

// Group is what the processes share: each branch of a repository, and each cluster that is
// reached directly, is in one shard, and so has one writer. Sixteen shards spread the work
// evenly over a handful of processes. Each shard costs a key that is written when a process
// starts.
var Group = shards.Group{Kind: "rsync", Shards: 16}

// branchKey is what the shard of a branch is computed from, whatever the credential.
func branchKey(b Branch) string { return "git " + b.URL + " " + b.Name }

// clusterKey is what the shard of a directly reached cluster is computed from.
func clusterKey(cluster v2.ClusterKey) string { return "kube " + string(cluster) }

// Shard returns the shard that writes a branch.
func (b Branch) Shard() int { return Group.Of(branchKey(b)) }

// Shard returns the shard that writes a place in Git.
func (r Route) Shard() int { return r.Branch().Shard() }

// shardAge is how long the shard of a cluster is cached.
const shardAge = 3 * time.Second

// recentShards caches the shards of clusters for a short time: the revisions of many
// deployments name the same clusters.
type recentShards struct {
	mu    sync.Mutex            // also held while registrations are read, so that each is read once
	since time.Time             // when of was emptied; guarded by mu
	of    map[v2.ClusterKey]int // guarded by mu
}

// Shards returns the shard of each cluster. A cluster that is not registered, or whose
// registration cannot be used, has one too; its pairs fail there.
func (r *Resolver) Shards(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
	c := &r.recent
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.of == nil || now.Sub(c.since) >= shardAge {
		c.since, c.of = now, map[v2.ClusterKey]int{}
	}
	lookup, out := r.Lookup(), make(map[v2.ClusterKey]int, len(clusters))
	lookup.Prefetch(ctx, func(yield func(v2.ClusterKey) bool) {
		for _, cluster := range clusters {
			if _, known := c.of[cluster]; !known && !yield(cluster) {
				return
			}
		}
	})
	for _, cluster := range clusters {
		if _, known := c.of[cluster]; !known {
			n, err := lookup.shard(ctx, cluster)
			if err != nil {
				return nil, err
			}
			c.of[cluster] = n
		}
		out[cluster] = c.of[cluster]
	}
	return out, nil
}

func (l *Lookup) shard(ctx context.Context, cluster v2.ClusterKey) (int, error) {
	c, err := l.Registration(ctx, cluster)
	if err == nil && !c.Direct() {
		s, err := l.Settings(ctx, cluster, c.GitOps)
		if err == nil {
			return Branch{s.Repo.URL, s.Branch}.Shard(), nil
		}
		if !unusable(err) {
			return 0, err
		}
	}
	if err != nil && !unusable(err) {
		return 0, err
	}
	return Group.Of(clusterKey(cluster)), nil
}

// unusable reports whether an error means that a registration is missing or wrong.
func unusable(err error) bool { return errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) }
