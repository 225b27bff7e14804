package views

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
)

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
	m := v.Tally.Matrix(appcontext.HeadID(doc.UID), values["app"])
	if err := v.checkGroupApps(r.Context(), values["app"], string(doc.Key), m.Names); err != nil {
		return err
	}
	var rows []pageRow
	for cluster, states := range m.Rows {
		name := string(cluster)
		if !q.admits(states.Worst, name) {
			continue
		}
		order := name
		if q.sort == "-worst" {
			order = worstFirst(states.Worst, name)
		}
		rows = append(rows, pageRow{order, name})
	}
	out := v2.MatrixView{
		ViewPage: v2.ViewPage{Mark: m.Mark, Total: len(rows)}, Apps: append([]string{}, m.Apps...), AllApps: m.AllApps,
		Revision: m.Head.Rev, Counts: m.Counts.View(), Items: []v2.MatrixRow{},
	}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		out.Items = append(out.Items, v.matrixRow(v2.ClusterKey(row.name), m))
	}
	return answer(w, r, &out, func(o *v2.MatrixView) { o.At = v.Now().UTC() })
}

// matrixRow returns a row of a page.
func (v *Views) matrixRow(cluster v2.ClusterKey, m tally.Matrix) v2.MatrixRow {
	states := m.Rows[cluster]
	out := v2.MatrixRow{Provider: cluster.Provider(), Cluster: cluster.Cluster(), Revision: make([]int64, len(m.Apps)), LastHeard: states.Sum.Heard.UTC()}
	if states.Sum.Heard.IsZero() {
		out.LastHeard = time.Time{}
	}
	for _, s := range states.States {
		out.Cells += tally.Letters[s : s+1]
	}
	worst := tally.Idle
	for _, e := range v.Pairs.Cluster(cluster) {
		if e.State == nil || e.UID != m.Head.Deployment() {
			continue
		}
		i := slices.Index(m.Apps, e.App)
		if i < 0 {
			continue
		}
		out.Revision[i] = e.State.Common().Rev
		out.Commit = cmp.Or(out.Commit, e.State.Common().Commit)
		if state, why := tally.Describe(e.Entry, states.Sum); why != "" && state < worst {
			worst, out.Why = state, e.App+": "+why
		}
	}
	return out
}
