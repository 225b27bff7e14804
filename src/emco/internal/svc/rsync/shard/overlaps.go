package shard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// maxShared bounds the findings about one app's objects that other deployments place too.
const maxShared = 5

// sharedObjects finds objects that several deployments place on one cluster: they overwrite each
// other. The pairs of all these deployments say so in their Overlaps.
type sharedObjects struct {
	pairs *pairs.Store
	plans *content.StepPlans
	log   *slog.Logger
}

// note compares what deliveries have put on clusters, or removed from there, with what other deployments place on these clusters,
// and stores the Overlaps of pairs that are not as before.
func (s sharedObjects) note(ctx context.Context, results []pair.Result) {
	own, release := queue.WithGrace(ctx)
	defer release()
	if err := s.update(own, results); err != nil && ctx.Err() == nil {
		s.log.Warn("not checked whether deployments share objects", "err", err)
	}
}

func (s sharedObjects) update(ctx context.Context, results []pair.Result) error {
	c := comparison{plans: s.plans, document: s.pairs.Document, common: map[[2]appcontext.Digest][]manifest.ID{}, overlaps: map[appcontext.PairKey][]string{}}
	var last pair.Target // results of a target follow each other
	var own, all []appcontext.Pair
	for _, r := range results {
		t := pair.TargetOf(r.Key)
		if r.Err != nil || t == last {
			continue
		}
		last, own, all = t, s.pairs.AppendOf(own[:0], t), all[:0]
		for _, on := range s.pairs.On(t.Cluster) {
			all = s.pairs.AppendOf(all, on)
		}
		if err := c.compare(ctx, own, all); err != nil {
			return err
		}
	}
	return s.pairs.SetOverlaps(ctx, c.overlaps)
}

// comparison compares the bundles of pairs, two bundles once.
type comparison struct {
	plans    *content.StepPlans
	document func(v2.DeploymentID) string
	common   map[[2]appcontext.Digest][]manifest.ID // objects of two bundles
	overlaps map[appcontext.PairKey][]string        // of pairs whose Overlaps are not as before
}

// compare finds the overlaps that a delivery of a target may have changed: of its own pairs, of those that had some, and of those
// that place an object of the target, too. all is the pairs on its cluster, in order.
func (c *comparison) compare(ctx context.Context, own, all []appcontext.Pair) error {
	for _, p := range all {
		meets := len(p.Overlaps) > 0 || len(own) > 0 && own[0].Key.Deployment == p.Key.Deployment
		for i := 0; i < len(own) && !meets; i++ {
			ids, err := c.shared(ctx, own[i].Desired, p.Desired)
			if err != nil {
				return err
			}
			meets = len(ids) > 0
		}
		if !meets {
			continue
		}
		if err := c.find(ctx, p, all); err != nil {
			return err
		}
	}
	return nil
}

// find finds the overlaps of a pair with those of other deployments on its cluster.
func (c *comparison) find(ctx context.Context, p appcontext.Pair, all []appcontext.Pair) error {
	var texts []string
	more := 0
	for _, other := range all {
		if other.Key.Deployment == p.Key.Deployment || c.document(other.Key.Deployment) == string(other.Key.Deployment) {
			continue // its own, or a deployment whose head this shard has not read yet: its next delivery finds the overlap
		}
		ids, err := c.shared(ctx, p.Desired, other.Desired)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if len(texts) == maxShared {
				more++
				continue
			}
			texts = append(texts, fmt.Sprintf("%s is also placed by %s, app %s: they overwrite each other; rename one", id, c.document(other.Key.Deployment), other.Key.App))
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("%d more objects are also placed by other deployments", more))
	}
	if !slices.Equal(p.Overlaps, texts) {
		c.overlaps[p.Key] = texts
	}
	return nil
}

// shared returns the objects that two bundles have in common.
func (c *comparison) shared(ctx context.Context, a, b appcontext.Digest) ([]manifest.ID, error) {
	if a == "" || b == "" {
		return nil, nil
	}
	key := [2]appcontext.Digest{a, b}
	if ids, known := c.common[key]; known {
		return ids, nil
	}
	one, err := c.plans.Bundle(ctx, a)
	if err != nil {
		return nil, err
	}
	other, err := c.plans.Bundle(ctx, b)
	if err != nil {
		return nil, err
	}
	c.common[key] = one.Common(other)
	return c.common[key], nil
}
