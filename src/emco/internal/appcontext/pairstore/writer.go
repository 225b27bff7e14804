package pairstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Bounds of a table. Pairs beyond them get records of their own.
const (
	minTogether = 4                 // a new group needs this many pairs that get the same state in one Write
	maxGroups   = 32                // groups of a table
	maxState    = 2 << 10           // bytes of a group's state, as JSON
	maxRecords  = etcdkv.MaxOps - 8 // records that one transaction writes with their table
)

// Writer stores the pairs of one shard, and the reports on them. Pairs of the same app and deployment that stand alike
// share a group of a table; the others have a record each. A transaction moves a pair from one
// to the other at once, so no reader finds a pair twice, or not at all. The same holds for reports.
//
// A Writer remembers where each pair is stored, so only one may write to a shard; its fence
// enforces that. It is not safe for concurrent use.
type Writer struct {
	kv      *etcdkv.Client // with the shard's fence
	shard   string
	roster  *roster
	pairs   locations[Table, move]
	reports locations[ReportTable, reportMove]

	claimed map[uint32]bool // numbers that the Write in progress puts into tables
}

// NewWriter returns a writer of what etcd holds of a shard.
func NewWriter(kv *etcdkv.Client, own etcdkv.Fence, stored *Contents) *Writer {
	kv = kv.Fenced(own)
	w := &Writer{
		kv: kv, shard: stored.Shard, roster: stored.roster,
		pairs: locations[Table, move]{
			kv: kv, own: own, shard: stored.Shard, subject: "pairs",
			tableKey: tableKey, parse: ParseTable, recordKey: RecordKey, at: map[TableID]*location[Table]{},
		},
		reports: locations[ReportTable, reportMove]{
			kv: kv, own: own, shard: stored.Shard, subject: "reports",
			tableKey: reportTableKey, parse: ParseReportTable, recordKey: reportKey, at: map[TableID]*location[ReportTable]{},
		},
	}
	w.pairs.owned = func(record *mvccpb.KeyValue) (bool, error) {
		p, err := ParseRecord(kv, record)
		return p.Shard == w.shard || p.Shard == "", err // else it was handed over
	}
	for id, t := range stored.tables {
		w.pairs.of(id).table = t
	}
	for id, t := range stored.reports {
		w.reports.of(id).table = t
	}
	for _, p := range stored.Records {
		w.addRecord(p.Key)
	}
	for _, k := range stored.Reports {
		if w.has(k) {
			w.addReportRecord(k)
		}
	}
	w.releaseNumbers()
	return w
}

// AddRecords notes pairs that have records of their own, as the reports on them have: another writer
// has written them.
func (w *Writer) AddRecords(pairs ...Pair) {
	for _, p := range pairs {
		w.addRecord(p.Key)
		w.addReportRecord(p.Key)
	}
}

func (w *Writer) addRecord(k Key) { w.pairs.of(w.tableOf(k)).alone[k.Cluster] = true }

// addReportRecord notes that a report may have a record of its own.
func (w *Writer) addReportRecord(k Key) { w.reports.of(w.tableOf(k)).alone[k.Cluster] = true }

// has reports whether the writer knows a pair.
func (w *Writer) has(k Key) bool {
	at := w.pairs.at[w.tableOf(k)]
	if at == nil || at.alone[k.Cluster] {
		return at != nil
	}
	n, known := w.roster.find(k.Cluster)
	return known && at.table.groupOf(n) >= 0
}

// releaseNumbers frees the numbers that no table names.
func (w *Writer) releaseNumbers() {
	used := roaring.New()
	for _, at := range w.pairs.at {
		used.Or(at.table.members())
	}
	for _, at := range w.reports.at {
		used.Or(at.table.members())
	}
	w.roster.release(used.Contains)
}

func (w *Writer) tableOf(k Key) TableID {
	return TableID{Deployment: k.Deployment, App: k.App, Shard: w.shard}
}

// Write stores pairs and removes others, as few transactions as possible; each is refused with
// ErrFenced if the shard is lost. A key that is both put and removed is put; the last of two with
// the same key counts. A pair that names another shard gets a record of its own, and is forgotten.
//
// After an error some may be written. What was not answered is looked up before the next write
// that concerns it.
func (w *Writer) Write(ctx context.Context, put []Pair, remove []Key) error {
	changes := map[TableID][]pairChange{}
	for _, k := range remove {
		id := w.tableOf(k)
		changes[id] = append(changes[id], pairChange{k.Cluster, nil})
	}
	for i := range put {
		k := &put[i].Key
		if err := etcdkv.CheckParts(string(k.Cluster), string(k.Deployment), k.App); err != nil {
			return err
		}
		id := w.tableOf(*k)
		changes[id] = append(changes[id], pairChange{k.Cluster, &put[i]})
	}
	if err := w.pairs.settle(ctx, maps.Keys(changes)); err != nil {
		return err
	}
	var plans []*tablePlan[move]
	w.claimed = map[uint32]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(changes), compareTables) {
		plans = append(plans, w.plan(id, lastOfEach(changes[id])))
	}
	if err := w.writeRoster(ctx); err != nil {
		return err
	}
	if err := w.pairs.write(ctx, plans); err != nil {
		return err
	}
	w.pairs.forgetEmpty(maps.Keys(changes))
	return nil
}

// pairChange is a pair of a table that changes.
type pairChange struct {
	cluster v2.ClusterKey
	pair    *Pair // nil: it is removed
}

// lastOfEach returns the changes in order of clusters, the last one of each. It reuses the memory of changes, which
// callers mostly have in order.
func lastOfEach(changes []pairChange) []pairChange {
	slices.SortStableFunc(changes, func(a, b pairChange) int { return cmp.Compare(a.cluster, b.cluster) })
	out := changes[:0]
	for i, c := range changes {
		if i+1 == len(changes) || changes[i+1].cluster != c.cluster {
			out = append(out, c)
		}
	}
	return out
}

func compareTables(a, b TableID) int {
	return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.App, b.App), cmp.Compare(a.Shard, b.Shard))
}

// writeRoster writes the changed parts of the roster. Tables that name their numbers follow.
func (w *Writer) writeRoster(ctx context.Context) error {
	if len(w.roster.dirty) == 0 {
		return nil
	}
	batch := w.kv.NewBatch("rosters")
	for _, k := range slices.Sorted(maps.Keys(w.roster.dirty)) {
		key := rosterKey(w.kv, w.shard, k)
		text, err := etcdkv.Encode(key, w.roster.chunk(k))
		if err != nil {
			return err
		}
		if err := batch.Add(ctx, clientv3.OpPut(key, text)); err != nil {
			return err
		}
	}
	if err := batch.Flush(ctx); err != nil {
		return err
	}
	clear(w.roster.dirty)
	return nil
}
