package pairstore

import (
	"cmp"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// reportMove is the change of one report.
type reportMove struct {
	cluster  v2.ClusterKey
	report   *Report // nil: the report is removed
	repeated bool
	number   uint32
	numbered bool   // etcd holds the number of the cluster
	named    bool   // the table has the number
	text     string // of the group that it may join; empty: none
}

func (m reportMove) clusterKey() v2.ClusterKey { return m.cluster }

func (m reportMove) recordOp(key string) (clientv3.Op, error) {
	if m.report == nil || m.text != "" {
		return clientv3.OpDelete(key), nil
	}
	text, err := etcdkv.Encode(key, cutReport(*m.report))
	return clientv3.OpPut(key, text), err
}

func (m reportMove) hasRecord(string) bool { return m.report != nil && m.text == "" }

// planReports decides where the changed reports of a table are stored.
func (w *Writer) planReports(id TableID, changes map[v2.ClusterKey]reportMove) *tablePlan[reportMove] {
	at := w.reports.of(id)
	moves := slices.SortedFunc(maps.Values(changes), func(a, b reportMove) int { return cmp.Compare(a.cluster, b.cluster) })
	for i := range moves {
		m := &moves[i]
		if n, known := w.roster.find(m.cluster); known {
			_, _, m.named = at.table.find(n)
			m.number, m.numbered = n, m.named || !w.roster.dirty[int(n)/rosterChunk]
		}
		if !m.numbered {
			m.text = ""
		}
	}
	shared := sharedTexts(at.table, moves)
	plan := &tablePlan[reportMove]{id: id}
	for _, m := range moves {
		if !shared[m.text] {
			m.text = ""
		}
		switch {
		case m.text != "" && !at.alone[m.cluster], m.report == nil && m.named:
			plan.inTable = append(plan.inTable, m)
		case m.repeated && m.text == "": // it stays where it is
		default:
			plan.records = append(plan.records, m)
		}
	}
	return plan
}

// sharedTexts returns the reports that have a group in a table, or get one.
func sharedTexts(t ReportTable, moves []reportMove) map[string]bool {
	shared, count, bytes := map[string]bool{}, map[string]int{}, 0
	for _, g := range t.groups {
		shared[g.text] = true
		bytes += len(g.text)
	}
	for _, m := range moves {
		if m.text == "" || shared[m.text] {
			continue
		}
		if count[m.text]++; count[m.text] == minTogether && len(shared) < maxReports && bytes+len(m.text) <= maxReportBytes {
			shared[m.text] = true
			bytes += len(m.text)
		}
	}
	return shared
}
