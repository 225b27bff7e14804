package rsync

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// team is what the processes share: each branch of a repository, and each cluster that is
// reached directly, is in one shard, and so has one writer. Sixteen shards are enough to
// spread the work evenly over a handful of processes; each costs a key that is written
// when a process starts.
var team = appcontext.Team{Kind: "rsync", Shards: 16}

func shardNames() map[string]bool {
	names := make(map[string]bool, team.Shards)
	for n := range team.Shards {
		names[team.Shard(n)] = true
	}
	return names
}

// homeOfBranch names a branch of a repository as something that has one writer, whatever
// the credential.
func homeOfBranch(url, branch string) string { return "git " + url + " " + branch }

// homeOfCluster does so for a cluster that is reached directly.
func homeOfCluster(cluster string) string { return "kube " + cluster }

// moment is how long it is remembered where clusters are.
const moment = 3 * time.Second

// homes remember for a moment in which shards clusters are: the revisions of many
// deployments name the same ones.
type homes struct {
	mu    sync.Mutex
	since time.Time
	of    map[string]int
}

// shards returns in which shard the work on each cluster is. A cluster that is not known,
// or whose registration is wrong, has one too, in which its pairs fail.
func (g *gateway) shards(ctx context.Context, clusters []string) (map[string]int, error) {
	h := &g.homes
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.of == nil || now.Sub(h.since) >= moment {
		h.since, h.of = now, map[string]int{}
	}
	trip, out := g.trip(), make(map[string]int, len(clusters))
	trip.expect(ctx, h.unknown(clusters))
	for _, c := range clusters {
		if _, known := h.of[c]; !known {
			n, err := trip.shard(ctx, c)
			if err != nil {
				return nil, err
			}
			h.of[c] = n
		}
		out[c] = h.of[c]
	}
	return out, nil
}

// unknown yields the clusters that are not remembered.
func (h *homes) unknown(clusters []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, c := range clusters {
			if _, known := h.of[c]; !known && !yield(c) {
				return
			}
		}
	}
}

func (t *trip) shard(ctx context.Context, cluster string) (int, error) {
	home, err := t.home(ctx, cluster)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) {
		home, err = homeOfCluster(cluster), nil
	}
	return team.Of(home), err
}

// home names what a cluster's work shares its writer with.
func (t *trip) home(ctx context.Context, cluster string) (string, error) {
	c, _, err := t.cluster(ctx, cluster)
	if err != nil || c.Direct() {
		return homeOfCluster(cluster), err
	}
	d, err := t.settings(ctx, cluster, c)
	return homeOfBranch(d.Repo.URL, d.Branch), err
}
