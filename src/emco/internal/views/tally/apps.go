package tally

import (
	"iter"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Member is a cluster of a group: for a group that is a deployment, with the pairs of that
// deployment alone.
type Member struct {
	Cluster v2.ClusterKey
	State   State
	Counts  Counts
}

// AppCounts counts, for each cluster, the pairs of apps with these names. It reads one cell for
// each target of the deployments that have such an app.
func (t *Tally) AppCounts(apps []string) map[v2.ClusterKey]Counts {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := map[v2.ClusterKey]Counts{}
	for _, d := range t.deployments {
		for column := range d.columns(apps) {
			for cluster, on := range d.targets {
				if s := t.stateLocked(cluster, on, column); s != None {
					counts := out[cluster]
					counts[s]++
					out[cluster] = counts
				}
			}
		}
	}
	return out
}

// Targets returns the clusters of each deployment, by the id on clusters; with apps, only these
// count.
func (t *Tally) Targets(apps []string) map[v2.DeploymentID][]Member {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[v2.DeploymentID][]Member, len(t.deployments))
	for deployment, d := range t.deployments {
		var members []Member
		for cluster, on := range d.targets {
			counts := on.counts
			if len(apps) > 0 {
				counts = Counts{}
				for column := range d.columns(apps) {
					if s := t.stateLocked(cluster, on, column); s != None {
						counts[s]++
					}
				}
			}
			if worst := counts.Worst(); worst != Idle {
				members = append(members, Member{cluster, worst, counts})
			}
		}
		if len(members) > 0 {
			out[deployment] = members
		}
	}
	return out
}

// HasApp reports whether an app of this name is on a cluster.
func (t *Tally) HasApp(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, d := range t.deployments {
		if slices.Contains(d.apps, name) {
			return true
		}
	}
	return false
}

// columns yields the positions of apps in the cells of a deployment.
func (d *deploymentTally) columns(apps []string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, app := range d.apps {
			if slices.Contains(apps, app) && !yield(i) {
				return
			}
		}
	}
}

// stateLocked returns the state of a pair; None if the app is not on the cluster.
func (t *Tally) stateLocked(cluster v2.ClusterKey, on *clusterPairs, column int) State {
	if column >= len(on.cells) {
		return None
	}
	return on.cells[column].at(t.clusters[cluster].silent)
}
