package tally

import (
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// maxColumns bounds the apps of a matrix; the parameter app chooses others.
const maxColumns = 40

// matrixRow is the states of the chosen apps on a cluster.
type matrixRow struct {
	States []State
	Worst  State
	Sum    ClusterSum
}

// Matrix is what the tally knows of a deployment.
type Matrix struct {
	Head    appcontext.Head
	Counts  Counts
	Apps    []string // chosen, sorted
	AllApps int
	Names   []string // of all apps, sorted
	Rows    map[v2.ClusterKey]matrixRow
	Mark    int64
}

// Matrix returns the states of a deployment's apps on its clusters, by its head.
// chosen are the names of apps; none means the first of all.
func (t *Tally) Matrix(head appcontext.HeadID, chosen []string) Matrix {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := Matrix{Head: t.heads[head], Rows: map[v2.ClusterKey]matrixRow{}, Mark: t.mark}
	d := t.deployments[out.Head.Deployment()]
	if d == nil || !out.Head.Owns() {
		return out
	}
	out.Counts, out.AllApps = d.counts, len(d.apps)
	out.Names = slices.Sorted(slices.Values(d.apps))
	for _, app := range out.Names {
		if len(out.Apps) < maxColumns && (len(chosen) == 0 || slices.Contains(chosen, app)) {
			out.Apps = append(out.Apps, app)
		}
	}
	columns := make([]int, len(out.Apps))
	for i, app := range out.Apps {
		columns[i] = slices.Index(d.apps, app)
	}
	for cluster, on := range d.targets {
		sum := t.clusters[cluster].sum()
		r := matrixRow{States: make([]State, len(columns)), Worst: Idle, Sum: sum}
		for i, column := range columns {
			if column < len(on.cells) {
				r.States[i] = on.cells[column].at(sum.Silent)
			}
			if r.States[i] != None {
				r.Worst = min(r.Worst, r.States[i])
			}
		}
		if r.Worst != Idle {
			out.Rows[cluster] = r
		}
	}
	return out
}
