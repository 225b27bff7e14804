package rsync

import (
	"context"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
	"golang.org/x/sync/errgroup"
)

// publishers is how many clusters of a repository are published at the same time.
const publishers = 8

// publish has each cluster's artifact made anew, with all that the cluster shall hold: what
// a registry has lost comes back with the next delivery. Clusters do not wait for each
// other, and fail alone.
func (s *gitSink) publish(ctx context.Context, found map[pair.Target]route.Route, shares []share) []pair.Result {
	var mu sync.Mutex
	var all []publication
	var g errgroup.Group
	g.SetLimit(publishers)
	for _, same := range byCluster(shares) {
		g.Go(func() error {
			done := s.publishOne(ctx, found[same[0].target], same)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, done)
			return nil
		})
	}
	_ = g.Wait()
	s.remember(ctx, s.published(found, all))
	var out []pair.Result
	for _, p := range all {
		out = append(out, answers(p.shares, git.DerivedResult{Commit: p.digest}, p.err)...)
	}
	return out
}

// publication is what became of the shares of one cluster.
type publication struct {
	shares []share
	digest git.Hash
	err    error
}

// published is the memoir of publications, in order of clusters.
func (s *gitSink) published(found map[pair.Target]route.Route, all []publication) memoir {
	slices.SortFunc(all, func(a, b publication) int { return pair.CompareTargets(a.shares[0].target, b.shares[0].target) })
	out := memoir{}
	for _, p := range all {
		if at := p.shares[0].target; p.err == nil {
			out.add(s.ledger, appcontext.RevisionCommit{Repository: found[at].Settings.Repo.URL, Commit: string(p.digest), Cluster: at.Cluster}, p.shares)
		}
	}
	return out
}

// byCluster parts shares, which are in order of clusters.
func byCluster(shares []share) (out [][]share) {
	for i, sh := range shares {
		if i == 0 || shares[i-1].target.Cluster != sh.target.Cluster {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], sh)
	}
	return out
}

// publishOne publishes the cluster of the shares.
func (s *gitSink) publishOne(ctx context.Context, d route.Route, shares []share) publication {
	out := publication{shares: shares}
	job := s.job(d, shares)
	others, err := s.company(ctx, d, shares)
	if err != nil {
		out.err = err
		return out
	}
	job.Edits, job.Fence = append(job.Edits, others...), s.fence
	out.digest, out.err = s.commits.Submit(ctx, job)
	return out
}

// company plans what else is on the cluster of the shares, as it is now.
func (s *gitSink) company(ctx context.Context, d route.Route, shares []share) (edits []git.Edit, err error) {
	for _, t := range s.ledger.On(shares[0].target.Cluster) {
		if slices.ContainsFunc(shares, func(sh share) bool { return sh.target == t }) {
			continue
		}
		apps, err := s.apps(ctx, s.ledger.Of(t), nil)
		if err != nil {
			return nil, err
		}
		change, err := d.Backend.Plan(s.ledger.Address(t, d), apps)
		if err != nil { // it stays as it was published last
			continue
		}
		edits = append(edits, change.Edits...)
	}
	return edits, nil
}
