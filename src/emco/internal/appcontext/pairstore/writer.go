package pairstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Bounds of a table. Pairs beyond them get records of their own.
const (
	minTogether = 4                 // a new group needs this many pairs that get the same state in one Write
	maxGroups   = 32                // groups of a table
	maxState    = 2 << 10           // bytes of a group's state, as JSON
	maxRecords  = etcdkv.MaxOps - 8 // records that one transaction writes beside their table
)

// Writer stores the pairs of one shard, and the reports on them. Pairs of the same app and deployment that stand alike
// share a group of a table; the others have a record each. A transaction moves a pair from one
// to the other at once, so no reader finds a pair twice, or not at all. The same holds for reports.
//
// A Writer remembers where each pair is stored, so only one may write to a shard; its fence
// enforces that. It is not safe for concurrent use.
type Writer struct {
	kv      *etcdkv.Client // with the shard's fence
	own     etcdkv.Fence
	shard   string
	roster  *roster
	tables  map[TableID]*placement
	reports map[TableID]*reportPlacement

	claimed map[uint32]bool // numbers that the Write in progress puts into tables
}

// placement is where the pairs of one app of a deployment are stored.
type placement struct {
	table  Table
	alone  map[v2.ClusterKey]bool // those with a record of their own
	unsure map[v2.ClusterKey]bool // those whose last write was not answered: etcd must be asked
}

// NewWriter returns a writer of what etcd holds of a shard.
func NewWriter(kv *etcdkv.Client, own etcdkv.Fence, stored *Contents) *Writer {
	w := &Writer{
		kv: kv.Fenced(own), own: own, shard: stored.Shard, roster: stored.roster,
		tables: map[TableID]*placement{}, reports: map[TableID]*reportPlacement{},
	}
	for id, t := range stored.tables {
		w.placement(id).table = t
	}
	for id, t := range stored.reports {
		w.reportPlacement(id).table = t
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

func (w *Writer) addRecord(k Key) { w.placement(w.tableOf(k)).alone[k.Cluster] = true }

// has reports whether the writer knows a pair.
func (w *Writer) has(k Key) bool {
	at := w.tables[w.tableOf(k)]
	if at == nil || at.alone[k.Cluster] {
		return at != nil
	}
	n, known := w.roster.find(k.Cluster)
	return known && at.table.groupOf(n) >= 0
}

// releaseNumbers frees the numbers that no table names.
func (w *Writer) releaseNumbers() {
	used := roaring.New()
	for _, at := range w.tables {
		for _, g := range at.table.groups {
			used.Or(g.members)
		}
	}
	for _, at := range w.reports {
		used.Or(at.table.members())
	}
	w.roster.release(used.Contains)
}

func (w *Writer) tableOf(k Key) TableID { return TableID{UID: k.UID, App: k.App, Shard: w.shard} }

func (w *Writer) placement(id TableID) *placement {
	at := w.tables[id]
	if at == nil {
		at = &placement{alone: map[v2.ClusterKey]bool{}, unsure: map[v2.ClusterKey]bool{}}
		w.tables[id] = at
	}
	return at
}

// Write stores pairs and removes others, as few transactions as possible; each is refused with
// ErrFenced if the shard is lost. A key that is both put and removed is put; the last of two with
// the same key counts. A pair that names another shard gets a record of its own, and is forgotten.
//
// After an error some may be written. What was not answered is looked up before the next write
// that concerns it.
func (w *Writer) Write(ctx context.Context, put []Pair, remove []Key) error {
	changes := map[TableID]map[v2.ClusterKey]*Pair{} // nil: removed
	add := func(k Key, p *Pair) {
		id := w.tableOf(k)
		if changes[id] == nil {
			changes[id] = map[v2.ClusterKey]*Pair{}
		}
		changes[id][k.Cluster] = p
	}
	for _, k := range remove {
		add(k, nil)
	}
	for i := range put {
		if err := etcdkv.CheckParts(string(put[i].Key.Cluster), string(put[i].Key.UID), put[i].Key.App); err != nil {
			return err
		}
		add(put[i].Key, &put[i])
	}
	if err := w.settle(ctx, changes); err != nil {
		return err
	}
	var plans []*tablePlan
	w.claimed = map[uint32]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(changes), compareTables) {
		plans = append(plans, w.plan(id, changes[id]))
	}
	if err := w.writeRoster(ctx); err != nil {
		return err
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
		if err := w.send(ctx, "pairs", units); err != nil {
			return err
		}
		plans = slices.DeleteFunc(plans, (*tablePlan).done)
	}
	w.forgetEmpty(changes)
	return nil
}

func compareTables(a, b TableID) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.App, b.App), cmp.Compare(a.Shard, b.Shard))
}

// forgetEmpty forgets tables without pairs.
func (w *Writer) forgetEmpty(changes map[TableID]map[v2.ClusterKey]*Pair) {
	for id := range changes {
		if at := w.tables[id]; len(at.table.groups)+len(at.alone)+len(at.unsure) == 0 {
			delete(w.tables, id)
		}
	}
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

// unit is a part of a plan that one transaction must make as a whole.
type unit struct {
	ops       []clientv3.Op
	bytes     int
	onWritten func() // notes that etcd has stored it
	onFailed  func() // notes that etcd may have stored it
}

// send sends units in as few transactions as possible, several at the same time. Units must be of
// different tables.
func (w *Writer) send(ctx context.Context, subject string, units []unit) error {
	var sent errgroup.Group
	sent.SetLimit(etcdkv.Writers)
	var failed []error
	txns := packUnits(units)
	results := make([]error, len(txns))
	for i, txn := range txns {
		sent.Go(func() error {
			var ops []clientv3.Op
			for _, u := range txn {
				ops = append(ops, u.ops...)
			}
			if len(ops) > 0 {
				_, _, results[i] = w.kv.Commit(ctx, subject, nil, ops)
			}
			return nil
		})
	}
	_ = sent.Wait() // its functions keep their errors in results
	for i, txn := range txns {
		for _, u := range txn {
			if results[i] == nil {
				u.onWritten()
				continue
			}
			u.onFailed()
		}
		if results[i] != nil {
			failed = append(failed, results[i])
		}
	}
	if len(failed) > 0 {
		return failed[0]
	}
	return nil
}

// packUnits distributes units over transactions.
func packUnits(units []unit) (txns [][]unit) {
	ops, bytes := 0, 0
	for _, u := range units {
		if len(txns) == 0 || ops+len(u.ops) > etcdkv.MaxOps || bytes+u.bytes > etcdkv.MaxTxnBytes {
			txns, ops, bytes = append(txns, nil), 0, 0
		}
		txns[len(txns)-1] = append(txns[len(txns)-1], u)
		ops, bytes = ops+len(u.ops), bytes+u.bytes
	}
	return txns
}

// settle asks etcd where pairs are stored whose last write was not answered, for the tables that
// are about to change. Barrier renews the fence's key; after that, etcd refuses every earlier
// write that was not answered.
func (w *Writer) settle(ctx context.Context, changes map[TableID]map[v2.ClusterKey]*Pair) error {
	var unsure []TableID
	for id := range changes {
		if at := w.tables[id]; at != nil && len(at.unsure) > 0 {
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
		if err := w.lookUp(ctx, id, w.tables[id]); err != nil {
			return err
		}
	}
	return nil
}

// lookUp reads the table of a placement, and which of its unsure pairs have records of their own.
func (w *Writer) lookUp(ctx context.Context, id TableID, at *placement) error {
	r, err := w.kv.Get(ctx, tableKey(w.kv, id))
	if err != nil {
		return err
	}
	var stored Table
	if len(r.Kvs) > 0 {
		if stored, err = ParseTable(r.Kvs[0]); err != nil {
			return err
		}
	}
	clusters := slices.Sorted(maps.Keys(at.unsure))
	for some := range slices.Chunk(clusters, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, c := range some {
			names[i] = RecordKey(w.kv, Key{Cluster: c, UID: id.UID, App: id.App})
		}
		found, err := w.kv.GetMany(ctx, names)
		if err != nil {
			return err
		}
		for i, c := range some {
			delete(at.alone, c)
			if found[i] == nil {
				continue
			}
			p, err := ParseRecord(w.kv, found[i])
			if err != nil {
				return err
			}
			if p.Shard == w.shard || p.Shard == "" { // else it was handed over
				at.alone[c] = true
			}
		}
	}
	at.table = stored
	clear(at.unsure)
	return nil
}
