package orchestrator

import (
	"context"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Placement returns where the current documents of a group place its apps, and why not
// elsewhere. It renders nothing.
func (g *Groups) Placement(ctx context.Context, doc store.Doc) (out []v2.PlacementView, err error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return nil, err
	}
	p, err := g.planner.Plan(ctx, doc, head.Deployment())
	if err != nil {
		return nil, err
	}
	for _, a := range p.Apps {
		if a.Refusal != nil {
			out = append(out, v2.PlacementView{App: a.Name, Verdict: "out", Reason: a.Refusal.Error()})
			continue
		}
		for _, cluster := range a.Decision.Clusters {
			out = append(out, v2.PlacementView{App: a.Name, Cluster: cluster, Verdict: "in", Reason: a.Decision.Why[cluster]})
		}
		for _, verdict := range slices.Concat(a.Decision.Refused, a.Decision.Spared) {
			out = append(out, v2.PlacementView{App: a.Name, Cluster: verdict.Cluster, Verdict: "out", Reason: verdict.Reason})
		}
	}
	return out, nil
}
