package pairstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// ReportChange is a change of reports on the pairs of a shard.
type ReportChange struct {
	Put      []Report
	Repeated []Report // what etcd holds already: it may be stored with others from now on
	Remove   []Key

	// Shared reports whether a report may be stored with equal ones, which keeps neither its
	// sequence nor its time: the cluster's agent must hold them. nil: none may.
	Shared func(Report) bool
}

// reportPlacement is where the reports on one app of a deployment are stored.
type reportPlacement struct {
	table  ReportTable
	alone  map[v2.ClusterKey]bool // those that may have a record of their own
	unsure map[v2.ClusterKey]bool // those whose last write was not answered: etcd must be asked
}

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

func (w *Writer) reportPlacement(id TableID) *reportPlacement {
	at := w.reports[id]
	if at == nil {
		at = &reportPlacement{alone: map[v2.ClusterKey]bool{}, unsure: map[v2.ClusterKey]bool{}}
		w.reports[id] = at
	}
	return at
}

// addReportRecord notes that a report may have a record of its own.
func (w *Writer) addReportRecord(k Key) { w.reportPlacement(w.tableOf(k)).alone[k.Cluster] = true }

// WriteReports changes reports, as few transactions as possible; each is refused with ErrFenced if the
// shard is lost. Equal reports on an app share a value if at least minTogether of them come together,
// or if others share it already. A report too large for one value is cut, see cutReport. A key that is
// both put and removed is put; the last of two with the same key counts.
//
// After an error some may be written. What was not answered is looked up before the next call
// that concerns it.
func (w *Writer) WriteReports(ctx context.Context, c ReportChange) error {
	moves := map[TableID]map[v2.ClusterKey]reportMove{}
	move := func(id TableID, m reportMove) {
		if moves[id] == nil {
			moves[id] = map[v2.ClusterKey]reportMove{}
		}
		moves[id][m.cluster] = m
	}
	for _, k := range c.Remove {
		move(w.tableOf(k), reportMove{cluster: k.Cluster})
	}
	add := func(reports []Report, repeated bool) error {
		for i := range reports {
			r := &reports[i]
			id := w.tableOf(r.Key)
			if repeated && (w.reports[id] == nil || !w.reports[id].alone[r.Key.Cluster]) {
				continue // it is stored with others
			}
			if err := etcdkv.CheckParts(string(r.Key.Cluster), string(r.Key.UID), r.Key.App); err != nil {
				return err
			}
			m := reportMove{cluster: r.Key.Cluster, report: r, repeated: repeated}
			if c.Shared != nil && c.Shared(*r) {
				m.text, _ = sharedText(*r)
			}
			if !repeated || m.text != "" {
				move(id, m)
			}
		}
		return nil
	}
	if err := cmp.Or(add(c.Repeated, true), add(c.Put, false)); err != nil {
		return err
	}
	if err := w.settleReports(ctx, maps.Keys(moves)); err != nil {
		return err
	}
	var plans []*reportPlan
	for _, id := range slices.SortedFunc(maps.Keys(moves), compareTables) {
		plans = append(plans, w.planReports(id, moves[id]))
	}
	for len(plans) > 0 {
		units := make([]unit, 0, len(plans))
		for _, p := range plans {
			u, err := p.next()
			if err != nil {
				return err
			}
			units = append(units, u)
		}
		if err := w.send(ctx, "reports", units); err != nil {
			return err
		}
		plans = slices.DeleteFunc(plans, (*reportPlan).done)
	}
	for id := range moves {
		if at := w.reports[id]; len(at.table.groups)+len(at.alone)+len(at.unsure) == 0 {
			delete(w.reports, id)
		}
	}
	return nil
}

// reportPlan is how the reports of one table change. The first transaction makes all moves that
// change only the table; each one also makes some that write or delete a record.
type reportPlan struct {
	w       *Writer
	id      TableID
	at      *reportPlacement
	inTable []reportMove
	records []reportMove
	started bool
}

// planReports decides where the changed reports of a table are stored.
func (w *Writer) planReports(id TableID, changes map[v2.ClusterKey]reportMove) *reportPlan {
	at := w.reportPlacement(id)
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
	plan := &reportPlan{w: w, id: id, at: at}
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

// sharedTexts returns the reports for which a table has a group, or gets one.
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

// done reports whether the whole plan was returned by next.
func (p *reportPlan) done() bool { return p.started && len(p.records) == 0 }

// next returns the next unit of the plan.
func (p *reportPlan) next() (unit, error) {
	var moves []reportMove
	if !p.started {
		moves = p.inTable
	}
	p.started = true
	var u unit
	recorded := map[v2.ClusterKey]bool{} // whether the report has a record afterwards
	for len(p.records) > 0 && len(u.ops) < maxRecords && u.bytes < etcdkv.MaxTxnBytes/2 {
		m := p.records[0]
		key := reportKey(p.w.kv, Key{Cluster: m.cluster, UID: p.id.UID, App: p.id.App})
		if m.report == nil || m.text != "" {
			u.add(clientv3.OpDelete(key))
		} else {
			text, err := etcdkv.Encode(key, cutReport(*m.report))
			if err != nil {
				return unit{}, err
			}
			u.add(clientv3.OpPut(key, text))
		}
		recorded[m.cluster] = m.report != nil && m.text == ""
		moves, p.records = append(moves, m), p.records[1:]
	}
	table, changed := p.tableAfter(moves)
	if changed {
		if err := u.addReportTable(p.w.kv, p.id, table); err != nil {
			return unit{}, err
		}
	}
	u.onWritten = func() {
		p.at.table = table
		for c, has := range recorded {
			if has {
				p.at.alone[c] = true
			} else {
				delete(p.at.alone, c)
			}
		}
	}
	u.onFailed = func() {
		for _, m := range moves {
			p.at.unsure[m.cluster] = true
		}
	}
	return u, nil
}

// tableAfter returns the table after moves, and whether they change it.
func (p *reportPlan) tableAfter(moves []reportMove) (ReportTable, bool) {
	leave := roaring.New()
	var join []joiner
	for _, m := range moves {
		if m.named {
			leave.Add(m.number)
		}
		if m.text != "" {
			join = append(join, joiner{m.number, m.text, m.report.Since})
		}
	}
	if leave.IsEmpty() && len(join) == 0 {
		return p.at.table, false
	}
	return p.at.table.with(leave, join), true
}

// addReportTable adds the write of a table; an empty one is deleted.
func (u *unit) addReportTable(kv *etcdkv.Client, id TableID, t ReportTable) error {
	key := reportTableKey(kv, id)
	if len(t.groups) == 0 {
		u.add(clientv3.OpDelete(key))
		return nil
	}
	text, err := t.encode(key)
	if err == nil {
		u.add(clientv3.OpPut(key, text))
	}
	return err
}

// ReportsAt returns the reports of the given keys, in their order, without those that do not exist.
// It asks etcd only for those that have records of their own. Reports of a set share what they
// refer to.
func (w *Writer) ReportsAt(ctx context.Context, keys []Key) ([]Report, error) {
	asked := map[TableID]bool{}
	for _, k := range keys {
		asked[w.tableOf(k)] = true
	}
	if err := w.settleReports(ctx, maps.Keys(asked)); err != nil {
		return nil, err
	}
	found, parsed := make([]*Report, len(keys)), map[*roaring.Bitmap]Report{}
	var alone []int
	for i, k := range keys {
		at := w.reports[w.tableOf(k)]
		if at == nil {
			continue
		}
		if at.alone[k.Cluster] {
			alone = append(alone, i)
			continue
		}
		r, ok, err := w.inTable(at.table, k, parsed)
		if err != nil {
			return nil, err
		}
		if ok {
			found[i] = &r
		}
	}
	if err := readReports(ctx, w.kv, keys, alone, found); err != nil {
		return nil, err
	}
	return present(found), nil
}

// inTable returns the report that a table holds on a pair. parsed has the sets that were read before.
func (w *Writer) inTable(t ReportTable, k Key, parsed map[*roaring.Bitmap]Report) (Report, bool, error) {
	n, known := w.roster.find(k.Cluster)
	if !known {
		return Report{}, false, nil
	}
	g, s, found := t.find(n)
	if !found {
		return Report{}, false, nil
	}
	set := t.groups[g].sets[s]
	r, known := parsed[set.members]
	if !known {
		var err error
		if r, err = set.report(t.groups[g].text); err != nil {
			return r, false, etcdkv.Corrupt(reportTableKey(w.kv, w.tableOf(k)), err)
		}
		parsed[set.members] = r
	}
	r.Key = k
	return r, true, nil
}

// ReleaseReports gives reports that are stored with others records of their own: another shard will
// have their pairs. Call it before the pairs are handed over.
func (w *Writer) ReleaseReports(ctx context.Context, keys []Key) error {
	var shared []Key
	for _, k := range keys {
		if at := w.reports[w.tableOf(k)]; at != nil && !at.alone[k.Cluster] {
			shared = append(shared, k)
		}
	}
	reports, err := w.ReportsAt(ctx, shared)
	if err != nil || len(reports) == 0 {
		return err
	}
	return w.WriteReports(ctx, ReportChange{Put: reports})
}

// settleReports asks etcd where reports are stored whose last write was not answered.
func (w *Writer) settleReports(ctx context.Context, concerned func(func(TableID) bool)) error {
	var unsure []TableID
	for id := range concerned {
		if at := w.reports[id]; at != nil && len(at.unsure) > 0 {
			unsure = append(unsure, id)
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	if err := w.kv.Barrier(ctx, w.own); err != nil {
		return err
	}
	for _, id := range unsure {
		if err := w.lookUpReports(ctx, id, w.reports[id]); err != nil {
			return err
		}
	}
	return nil
}

// lookUpReports reads the table of a placement, and which of its unsure reports have records.
func (w *Writer) lookUpReports(ctx context.Context, id TableID, at *reportPlacement) error {
	r, err := w.kv.Get(ctx, reportTableKey(w.kv, id))
	if err != nil {
		return err
	}
	var stored ReportTable
	if len(r.Kvs) > 0 {
		if stored, err = ParseReportTable(r.Kvs[0]); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(at.unsure)), etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, c := range some {
			names[i] = reportKey(w.kv, Key{Cluster: c, UID: id.UID, App: id.App})
		}
		found, err := w.kv.GetMany(ctx, names, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for i, c := range some {
			if found[i] == nil {
				delete(at.alone, c)
			} else {
				at.alone[c] = true
			}
		}
	}
	at.table = stored
	clear(at.unsure)
	return nil
}
