package pairstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

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
			if repeated && !w.reports.isAlone(id, r.Key.Cluster) {
				continue // it is stored with others
			}
			if err := etcdkv.CheckParts(string(r.Key.Cluster), string(r.Key.Deployment), r.Key.App); err != nil {
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
	if err := w.reports.settle(ctx, maps.Keys(moves)); err != nil {
		return err
	}
	var plans []*tablePlan[reportMove]
	for _, id := range slices.SortedFunc(maps.Keys(moves), compareTables) {
		plans = append(plans, w.planReports(id, moves[id]))
	}
	if err := w.reports.write(ctx, plans); err != nil {
		return err
	}
	w.reports.forgetEmpty(maps.Keys(moves))
	return nil
}

// ReportsAt returns the reports of the given keys, in their order, without those that do not exist.
// It asks etcd only for those that have records of their own. Reports of a set share what they
// refer to.
func (w *Writer) ReportsAt(ctx context.Context, keys []Key) ([]Report, error) {
	asked := map[TableID]bool{}
	for _, k := range keys {
		asked[w.tableOf(k)] = true
	}
	if err := w.reports.settle(ctx, maps.Keys(asked)); err != nil {
		return nil, err
	}
	found, parsed := make([]*Report, len(keys)), map[*roaring.Bitmap]Report{}
	var alone []int
	for i, k := range keys {
		at := w.reports.at[w.tableOf(k)]
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
	if err := reportRecords.readInto(ctx, w.kv, keys, alone, found); err != nil {
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
		if at := w.reports.at[w.tableOf(k)]; at != nil && !at.alone[k.Cluster] {
			shared = append(shared, k)
		}
	}
	reports, err := w.ReportsAt(ctx, shared)
	if err != nil || len(reports) == 0 {
		return err
	}
	return w.WriteReports(ctx, ReportChange{Put: reports})
}
