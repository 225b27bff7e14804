package rsync

import (
	"cmp"
	"iter"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// target is one deployment on one cluster: the unit that sinks work on.
type target struct{ cluster, uid string }

func targetOf(k appcontext.PairKey) target { return target{k.Cluster, k.UID} }

// clustersAt yields the clusters of targets; a cluster may come again.
func clustersAt(targets []target) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range targets {
			if !yield(t.cluster) {
				return
			}
		}
	}
}

func compareTargets(a, b target) int {
	return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.uid, b.uid))
}

// targetsOf returns the targets of pairs, each once and in order.
func targetsOf(pairs []appcontext.Pair) []target {
	out := make([]target, len(pairs))
	for i, p := range pairs {
		out[i] = targetOf(p.Key)
	}
	slices.SortFunc(out, compareTargets)
	return slices.Compact(out)
}
