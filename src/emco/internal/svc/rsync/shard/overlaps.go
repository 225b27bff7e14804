package shard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// maxShared bounds the findings about one app's objects that other deployments place too.
const maxShared = 5

// sharedObjects finds objects that several deployments place on one cluster: they overwrite each
// other.
type sharedObjects struct {
	pairs *pairs.Store
	plans *content.StepPlans
	log   *slog.Logger
}

// note adds a finding to results for each of their objects that another deployment places, too.
func (s sharedObjects) note(ctx context.Context, results []pair.Result) {
	if err := s.addTo(ctx, results); err != nil && ctx.Err() == nil {
		s.log.Warn("not checked whether deployments share objects", "err", err)
	}
}

func (s sharedObjects) addTo(ctx context.Context, results []pair.Result) error {
	others := map[pair.Target]map[manifest.ObjectKey]string{}
	for i, r := range results {
		t := pair.TargetOf(r.Key)
		if r.Err != nil || r.Bundle == "" {
			continue
		}
		if others[t] == nil {
			placed, err := s.placedByOthers(ctx, t)
			if err != nil {
				return err
			}
			others[t] = placed
		}
		findings, err := s.findings(ctx, r.Bundle, others[t])
		if err != nil {
			return err
		}
		results[i].Findings = append(slices.Clip(r.Findings), findings...)
	}
	return nil
}

// placedByOthers returns the objects that other deployments place on a target's cluster, with
// the name of the deployment. Definitions are left out: apps share them.
func (s sharedObjects) placedByOthers(ctx context.Context, t pair.Target) (map[manifest.ObjectKey]string, error) {
	out := map[manifest.ObjectKey]string{}
	for _, other := range s.pairs.On(t.Cluster) {
		if other == t {
			continue
		}
		for _, p := range s.pairs.Of(other) {
			b, err := s.plans.Bundle(ctx, p.Desired)
			if err != nil {
				return nil, err
			}
			for _, ref := range b.Objects {
				if !manifest.IsCRD(ref.ID) {
					out[ref.ID.Key()] = s.pairs.Document(other.Deployment) + ", app " + p.Key.App
				}
			}
		}
	}
	return out, nil
}

// findings returns a finding for each object of a bundle that others place too.
func (s sharedObjects) findings(ctx context.Context, bundle appcontext.Digest, others map[manifest.ObjectKey]string) (findings []string, err error) {
	if len(others) == 0 {
		return nil, nil
	}
	b, err := s.plans.Bundle(ctx, bundle)
	if err != nil {
		return nil, err
	}
	more := 0
	for _, ref := range b.Objects {
		other, shared := others[ref.ID.Key()]
		switch {
		case !shared:
		case len(findings) < maxShared:
			findings = append(findings, fmt.Sprintf("%s is also placed by %s: they overwrite each other; rename one", ref.ID, other))
		default:
			more++
		}
	}
	if more > 0 {
		findings = append(findings, fmt.Sprintf("%d more objects are also placed by other deployments", more))
	}
	return findings, nil
}
