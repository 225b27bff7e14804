package pair

import (
	"cmp"
	"iter"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// target is one deployment on one cluster: the unit that sinks work on.
type Target struct{ Cluster, UID string }

func TargetOf(k appcontext.PairKey) Target { return Target{k.Cluster, k.UID} }

// clustersOfTargets yields the clusters of targets; a cluster may come again.
func Clusters(targets []Target) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range targets {
			if !yield(t.Cluster) {
				return
			}
		}
	}
}

func CompareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.UID, b.UID))
}

// targetsOfPairs returns the targets of pairs, each once and in order.
func TargetsOf(pairs []appcontext.Pair) []Target {
	out := make([]Target, len(pairs))
	for i, p := range pairs {
		out[i] = TargetOf(p.Key)
	}
	slices.SortFunc(out, CompareTargets)
	return slices.Compact(out)
}
