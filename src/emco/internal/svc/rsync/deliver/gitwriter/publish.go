package gitwriter

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxPublishing is how many clusters of a repository are published at the same time.
const maxPublishing = 8

// publish makes a new artifact for each cluster, with everything that the cluster must
// hold: what a registry has lost comes back with the next delivery. Clusters do not wait
// for each other, and fail alone.
func (w *Writer) publish(ctx context.Context, routes map[pair.Target]route.Route, parts []contribution) []pair.Result {
	spans := w.trace(ctx, parts)
	var mu sync.Mutex
	var all []publication // guarded by mu
	var g errgroup.Group
	g.SetLimit(maxPublishing)
	for _, same := range byCluster(parts) {
		g.Go(func() error {
			done := publication{parts: same}
			done.err = w.Panics.Do(contain.Rsync, same[0].target.Name(), func() error {
				done = w.publishCluster(ctx, routes[same[0].target], same)
				return done.err
			})
			mu.Lock()
			defer mu.Unlock()
			all = append(all, done)
			return nil
		})
	}
	_ = g.Wait()
	slices.SortFunc(all, func(a, b publication) int { return pair.CompareTargets(a.parts[0].target, b.parts[0].target) })
	log := commitLog{}
	var out []pair.Result
	failed := map[v2.DeploymentID]error{}
	for _, p := range all {
		if at := p.parts[0].target; p.err == nil {
			log.add(w.Pairs, appcontext.RevisionCommit{Repository: routes[at].Settings.Repo.URL, Commit: string(p.digest), Cluster: at.Cluster}, p.parts)
		}
		for _, c := range p.parts {
			failed[c.target.Deployment] = cmp.Or(failed[c.target.Deployment], p.err)
		}
		out = append(out, results(p.parts, git.DerivedResult{Commit: p.digest}, p.err)...)
	}
	w.record(ctx, log)
	spans.endEach(failed)
	return out
}

// publication is what became of the contributions of one cluster.
type publication struct {
	parts  []contribution
	digest git.Hash
	err    error
}

// byCluster groups contributions, which are in order of clusters.
func byCluster(parts []contribution) (out [][]contribution) {
	for i, c := range parts {
		if i == 0 || parts[i-1].target.Cluster != c.target.Cluster {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}

// publishCluster publishes the contributions of one cluster together with everything else
// on it.
func (w *Writer) publishCluster(ctx context.Context, r route.Route, parts []contribution) publication {
	out := publication{parts: parts}
	job := w.job(r, parts)
	others, err := w.planOthers(ctx, r, parts)
	if err != nil {
		out.err = err
		return out
	}
	job.Edits, job.Fence = append(job.Edits, others...), w.Fence
	out.digest, out.err = w.Commits.Submit(ctx, job)
	return out
}

// planOthers plans what else is on the cluster of contributions, as it is now.
func (w *Writer) planOthers(ctx context.Context, r route.Route, parts []contribution) (edits []git.Edit, err error) {
	for _, t := range w.Pairs.On(parts[0].target.Cluster) {
		if slices.ContainsFunc(parts, func(c contribution) bool { return c.target == t }) {
			continue
		}
		apps, err := w.apps(ctx, w.Pairs.AppendOf(nil, t), nil)
		if err != nil {
			return nil, err
		}
		change, err := r.Backend.Plan(w.Pairs.Address(t, r), apps)
		if err != nil { // it stays as it was published last
			continue
		}
		edits = append(edits, change.Edits...)
	}
	return edits, nil
}
