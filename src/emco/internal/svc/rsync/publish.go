package rsync

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/git"
)

// publishers is how many clusters of a repository are published at the same time.
const publishers = 8

// publish has each cluster's artifact made anew, with all that the cluster shall hold: what
// a registry has lost comes back with the next delivery. Clusters do not wait for each
// other, and fail alone.
func (s *gitSink) publish(ctx context.Context, found map[target]destination, shares []share) []outcome {
	var mu sync.Mutex
	var out []outcome
	var g errgroup.Group
	g.SetLimit(publishers)
	for _, same := range byCluster(shares) {
		g.Go(func() error {
			done := s.publishOne(ctx, found[same[0].target], same)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, done...)
			return nil
		})
	}
	_ = g.Wait()
	return out
}

// byCluster parts shares, which are in order of clusters.
func byCluster(shares []share) (out [][]share) {
	for i, sh := range shares {
		if i == 0 || shares[i-1].target.cluster != sh.target.cluster {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], sh)
	}
	return out
}

// publishOne publishes the cluster of the shares.
func (s *gitSink) publishOne(ctx context.Context, d destination, shares []share) []outcome {
	job := s.job(d, shares)
	others, err := s.company(ctx, d, shares)
	if err != nil {
		return answers(shares, git.Shown{}, err)
	}
	job.Edits, job.Fence = append(job.Edits, others...), s.fence
	digest, err := s.commits.Submit(ctx, job)
	return answers(shares, git.Shown{Commit: digest}, err)
}

// company plans what else is on the cluster of the shares, as it is now.
func (s *gitSink) company(ctx context.Context, d destination, shares []share) (edits []git.Edit, err error) {
	for _, t := range s.ledger.on(shares[0].target.cluster) {
		if slices.ContainsFunc(shares, func(sh share) bool { return sh.target == t }) {
			continue
		}
		apps, err := s.apps(ctx, s.ledger.of(t), nil)
		if err != nil {
			return nil, err
		}
		change, err := d.backend.Plan(s.ledger.address(t, d), apps)
		if err != nil { // it stays as it was published last
			continue
		}
		edits = append(edits, change.Edits...)
	}
	return edits, nil
}
