package pair

import (
	"cmp"
	"iter"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Target is one deployment on one cluster: the unit that is queued and delivered.
type Target struct {
	Cluster    v2.ClusterKey
	Deployment v2.DeploymentID
}

// Name names the target for people.
func (t Target) Name() string {
	return "deployment " + string(t.Deployment) + " on " + string(t.Cluster)
}

// TargetOf returns the target of a pair.
func TargetOf(k appcontext.PairKey) Target { return Target{k.Cluster, k.Deployment} }

// Clusters yields the clusters of targets, some more than once.
func Clusters(targets []Target) iter.Seq[v2.ClusterKey] {
	return func(yield func(v2.ClusterKey) bool) {
		for _, t := range targets {
			if !yield(t.Cluster) {
				return
			}
		}
	}
}

// Deployments returns the deployments of targets.
func Deployments(targets []Target) map[v2.DeploymentID]bool {
	out := map[v2.DeploymentID]bool{}
	for i, t := range targets {
		if i == 0 || targets[i-1].Deployment != t.Deployment {
			out[t.Deployment] = true
		}
	}
	return out
}

// CompareTargets orders targets by cluster and deployment.
func CompareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Deployment, b.Deployment))
}

// TargetsOf returns the targets of pairs, each once and in order.
func TargetsOf(pairs []appcontext.Pair) []Target {
	return targetsOf(pairs, func(p appcontext.Pair) Target { return TargetOf(p.Key) })
}

// TargetsOfResults returns the targets of results, each once and in order.
func TargetsOfResults(results []Result) []Target {
	return targetsOf(results, func(r Result) Target { return TargetOf(r.Key) })
}

// targetsOf leaves out targets that follow themselves before it sorts: the apps of a target usually do.
func targetsOf[T any](all []T, target func(T) Target) (out []Target) {
	for _, x := range all {
		if t := target(x); len(out) == 0 || out[len(out)-1] != t {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, CompareTargets)
	return slices.Compact(out)
}
