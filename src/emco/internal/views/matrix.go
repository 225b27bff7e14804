package views

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// maxColumns bounds the apps of a matrix; the parameter app chooses others.
const maxColumns = 40

// matrixRow is the states of the chosen apps on a cluster.
type matrixRow struct {
	states []State
	worst  State
	sum    clusterSum
}

// deploymentMatrix is what the tally knows of a deployment.
type deploymentMatrix struct {
	head    appcontext.Head
	counts  Counts
	apps    []string // chosen, sorted
	allApps int
	rows    map[v2.ClusterKey]matrixRow
	mark    int64
}

// matrix returns the states of a deployment's apps on its clusters, by its head.
// chosen are the names of apps; none means the first of all.
func (t *Tally) matrix(head appcontext.HeadID, chosen []string) deploymentMatrix {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := deploymentMatrix{head: t.heads[head], rows: map[v2.ClusterKey]matrixRow{}, mark: t.mark}
	d := t.deployments[out.head.Deployment()]
	if d == nil || !out.head.Owns() {
		return out
	}
	out.counts, out.allApps = d.counts, len(d.apps)
	for _, app := range slices.Sorted(slices.Values(d.apps)) {
		if len(out.apps) < maxColumns && (len(chosen) == 0 || slices.Contains(chosen, app)) {
			out.apps = append(out.apps, app)
		}
	}
	columns := make([]int, len(out.apps))
	for i, app := range out.apps {
		columns[i] = slices.Index(d.apps, app)
	}
	for cluster, on := range d.targets {
		sum := t.clusters[cluster].sum()
		r := matrixRow{states: make([]State, len(columns)), worst: Idle, sum: sum}
		for i, column := range columns {
			if column < len(on.cells) {
				r.states[i] = on.cells[column].at(sum.silent)
			}
			if r.states[i] != None {
				r.worst = min(r.worst, r.states[i])
			}
		}
		if r.worst != Idle {
			out.rows[cluster] = r
		}
	}
	return out
}

// matrix answers with a page of a deployment's clusters.
func (v *Views) matrix(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := readPage(values, []string{"-worst", "name"}, "app")
	if err != nil {
		return err
	}
	doc, err := v.groupOf(r)
	if err != nil {
		return err
	}
	m := v.Tally.matrix(appcontext.HeadID(doc.UID), values["app"])
	var rows []row
	for cluster, states := range m.rows {
		name := string(cluster)
		if !q.admits(states.worst, name) {
			continue
		}
		order := name
		if q.sort == "-worst" {
			order = worstFirst(states.worst, name)
		}
		rows = append(rows, row{order, name})
	}
	out := v2.MatrixView{
		ViewPage: v2.ViewPage{Mark: m.mark, Total: len(rows)}, Apps: append([]string{}, m.apps...), AllApps: m.allApps,
		Revision: m.head.Rev, Counts: m.counts.answer(), Items: []v2.MatrixRow{},
	}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		out.Items = append(out.Items, v.matrixRow(v2.ClusterKey(row.name), m))
	}
	return answer(w, r, &out, func(o *v2.MatrixView) { o.At = v.Now().UTC() })
}

// matrixRow returns a row of a page.
func (v *Views) matrixRow(cluster v2.ClusterKey, m deploymentMatrix) v2.MatrixRow {
	states := m.rows[cluster]
	out := v2.MatrixRow{Provider: cluster.Provider(), Cluster: cluster.Cluster(), Revision: make([]int64, len(m.apps)), LastHeard: states.sum.heard.UTC()}
	if states.sum.heard.IsZero() {
		out.LastHeard = time.Time{}
	}
	for _, s := range states.states {
		out.Cells += letters[s : s+1]
	}
	worst := Idle
	for _, e := range v.Pairs.Cluster(cluster) {
		if e.State == nil || e.UID != m.head.Deployment() {
			continue
		}
		i := slices.Index(m.apps, e.App)
		if i < 0 {
			continue
		}
		out.Revision[i] = e.State.Common().Rev
		out.Commit = cmp.Or(out.Commit, e.State.Common().Commit)
		if state, why := describe(e.Entry, states.sum); why != "" && state < worst {
			worst, out.Why = state, e.App+": "+why
		}
	}
	return out
}
