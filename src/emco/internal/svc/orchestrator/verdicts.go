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
	plan, err := g.planner.plan(ctx, doc, head.Deployment())
	if err != nil {
		return nil, err
	}
	for _, a := range plan.apps {
		if a.refusal != nil {
			out = append(out, v2.PlacementView{App: a.name, Verdict: "out", Reason: a.refusal.Error()})
			continue
		}
		for _, cluster := range a.decision.Clusters {
			out = append(out, v2.PlacementView{App: a.name, Cluster: cluster, Verdict: "in", Reason: a.decision.Why[cluster]})
		}
		for _, verdict := range slices.Concat(a.decision.Refused, a.decision.Spared) {
			out = append(out, v2.PlacementView{App: a.name, Cluster: verdict.Cluster, Verdict: "out", Reason: verdict.Reason})
		}
	}
	return out, nil
}
