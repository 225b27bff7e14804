package plan

import (
	"fmt"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// rolloutOf translates a document's rollout.
func rolloutOf(r *v2.Rollout) *appcontext.Rollout {
	if r == nil {
		return nil
	}
	out := appcontext.Rollout{Bake: r.Bake}
	for _, w := range r.Waves {
		out.Waves = append(out.Waves, appcontext.Wave{Clusters: w.Clusters, Percent: w.Percent, Label: w.ClusterLabel, Bake: w.Bake, Pause: w.Pause})
	}
	return &out
}

// waveLabels returns the labels that name the clusters of the app's waves.
func (o Order) waveLabels() (labels []string) {
	if o.Rollout == nil {
		return nil
	}
	for _, w := range o.Rollout.Waves {
		if w.Label != "" {
			labels = append(labels, w.Label)
		}
	}
	return labels
}

// Labelled returns which of the placements of a revision are on clusters with a label, for each label that names
// the clusters of a wave; nil if none does.
func (p Plan) Labelled(places []appcontext.Placement) map[string]appcontext.Members {
	var out map[string]appcontext.Members
	for _, a := range p.Apps {
		for _, label := range a.Order.waveLabels() {
			if out == nil {
				out = map[string]appcontext.Members{}
			}
			if out[label] == nil {
				out[label] = appcontext.MembersOf(places, func(c v2.ClusterKey) bool { return p.has(c, label) })
			}
		}
	}
	return out
}

// labelledWaves returns the clusters of the app that have the label of a wave, for each wave with one.
func (p Plan) labelledWaves(a App) (waves [][]v2.ClusterKey) {
	for _, label := range a.Order.waveLabels() {
		waves = append(waves, slices.DeleteFunc(slices.Clone(a.Decision.Clusters), func(c v2.ClusterKey) bool { return !p.has(c, label) }))
	}
	return waves
}

// findEmptyWaves adds a finding for each wave whose label is on none of the app's clusters.
func (p Plan) findEmptyWaves() {
	for i := range p.Apps {
		a := &p.Apps[i]
		waves := p.labelledWaves(*a)
		for n, label := range a.Order.waveLabels() {
			if a.Refusal == nil && len(waves[n]) == 0 {
				a.Findings = append(a.Findings, fmt.Sprintf("no cluster of the app has the label %s, which names the clusters of a rollout's wave", label))
			}
		}
	}
}

// has reports whether a cluster has a label.
func (p Plan) has(c v2.ClusterKey, label string) bool {
	cluster, known := p.fleet.Cluster(c)
	return known && slices.Contains(cluster.Labels, label)
}
