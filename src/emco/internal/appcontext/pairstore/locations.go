package pairstore

import (
	"context"
	"iter"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// tableValue is a table of pairs, or of reports: clusters with the same value share it.
type tableValue[T any, M tableMove] interface {
	// encode returns the value of key.
	encode(key string) (string, error)
	// empty reports whether the table has no clusters. It is then not stored.
	empty() bool
	// with returns the table after moves, and whether it differs. It shares what did not change.
	with(moves []M) (T, bool)
}

// tableMove is how a pair, or a report, gets another place.
type tableMove interface {
	// clusterKey returns the cluster of the pair, or of the report.
	clusterKey() v2.ClusterKey
	// recordOp returns the change of the record of its own.
	recordOp(key string) (clientv3.Op, error)
	// hasRecord reports whether the shard has that record afterwards.
	hasRecord(shard string) bool
}

// locations is where the pairs of a shard are stored, or the reports on them.
type locations[T tableValue[T, M], M tableMove] struct {
	kv      *etcdkv.Client // with the shard's fence
	own     etcdkv.Fence
	shard   string
	subject string // of errors

	tableKey  func(*etcdkv.Client, TableID) string
	parse     func(*mvccpb.KeyValue) (T, error)
	recordKey func(*etcdkv.Client, Key) string
	// owned reports whether a record is of the shard. A nil one reads only the keys of records: all are.
	owned func(record *mvccpb.KeyValue) (bool, error)

	at map[TableID]*location[T]
}

// location is where the pairs of one app of a deployment are stored, or the reports on them: in a table, or in
// records of their own.
type location[T any] struct {
	table  T
	alone  map[v2.ClusterKey]bool // clusters that have a record of their own; for reports: that may have one
	unsure map[v2.ClusterKey]bool // clusters whose last write was not answered: etcd must be asked
}

// of returns the location of a table; it creates one if there is none.
func (s *locations[T, M]) of(id TableID) *location[T] {
	at := s.at[id]
	if at == nil {
		at = &location[T]{alone: map[v2.ClusterKey]bool{}, unsure: map[v2.ClusterKey]bool{}}
		s.at[id] = at
	}
	return at
}

// isAlone reports whether a pair, or a report, may have a record of its own.
func (s *locations[T, M]) isAlone(id TableID, c v2.ClusterKey) bool {
	at := s.at[id]
	return at != nil && at.alone[c]
}

// forgetEmpty forgets locations without anything.
func (s *locations[T, M]) forgetEmpty(ids iter.Seq[TableID]) {
	for id := range ids {
		if at := s.at[id]; at.table.empty() && len(at.alone)+len(at.unsure) == 0 {
			delete(s.at, id)
		}
	}
}

// settle asks etcd for the places whose last write was not answered, of the tables that are about to change or
// to be read. Barrier renews the fence's key; after that, etcd refuses every earlier write that was
// not answered.
func (s *locations[T, M]) settle(ctx context.Context, ids iter.Seq[TableID]) error {
	var unsure []TableID
	for id := range ids {
		if at := s.at[id]; at != nil && len(at.unsure) > 0 {
			unsure = append(unsure, id)
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	if err := s.kv.Barrier(ctx, s.own); err != nil {
		return err
	}
	for _, id := range unsure {
		if err := s.lookUp(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// lookUp reads a table, and which of those that are unsure have records of their own.
func (s *locations[T, M]) lookUp(ctx context.Context, id TableID) error {
	r, err := s.kv.Get(ctx, s.tableKey(s.kv, id))
	if err != nil {
		return err
	}
	var stored T
	if len(r.Kvs) > 0 {
		if stored, err = s.parse(r.Kvs[0]); err != nil {
			return err
		}
	}
	at := s.at[id]
	clusters := slices.Sorted(maps.Keys(at.unsure))
	keys := make([]string, len(clusters))
	for i, c := range clusters {
		keys[i] = s.recordKey(s.kv, Key{Cluster: c, Deployment: id.Deployment, App: id.App})
	}
	var opts []clientv3.OpOption
	if s.owned == nil {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	err = s.kv.GetEach(ctx, keys, func(i int, record *mvccpb.KeyValue) error {
		owned := record != nil
		if owned && s.owned != nil {
			var err error
			if owned, err = s.owned(record); err != nil {
				return err
			}
		}
		at.note(clusters[i], owned)
		return nil
	}, opts...)
	if err != nil {
		return err
	}
	at.table = stored
	clear(at.unsure)
	return nil
}

// note notes whether there is a record of its own.
func (at *location[T]) note(c v2.ClusterKey, alone bool) {
	if alone {
		at.alone[c] = true
	} else {
		delete(at.alone, c)
	}
}

// tablePlan is how one table changes, with its records. The first transaction makes all moves that change
// only the table. The others make the moves that also write or delete a record.
type tablePlan[M tableMove] struct {
	id      TableID
	inTable []M
	records []M
	started bool
}

// done reports whether the whole plan is written.
func (p *tablePlan[M]) done() bool { return p.started && len(p.records) == 0 }

// next returns the next unit of a plan. The first one has all moves that change only the table.
func (s *locations[T, M]) next(p *tablePlan[M]) (unit, error) {
	var moves []M
	if !p.started {
		moves = p.inTable
	}
	p.started = true
	at := s.of(p.id)
	var u unit
	recorded := map[v2.ClusterKey]bool{} // whether there is a record of the shard afterwards
	for len(p.records) > 0 && len(u.ops) < maxRecords && u.bytes < etcdkv.MaxTxnBytes/2 {
		m := p.records[0]
		op, err := m.recordOp(s.recordKey(s.kv, Key{Cluster: m.clusterKey(), Deployment: p.id.Deployment, App: p.id.App}))
		if err != nil {
			return unit{}, err
		}
		u.add(op)
		recorded[m.clusterKey()] = m.hasRecord(s.shard)
		moves, p.records = append(moves, m), p.records[1:]
	}
	table, changed := at.table.with(moves)
	if changed {
		op, err := tableOp(s.tableKey(s.kv, p.id), table)
		if err != nil {
			return unit{}, err
		}
		u.add(op)
	}
	u.onWritten = func() {
		at.table = table
		for c, alone := range recorded {
			at.note(c, alone)
		}
	}
	u.onFailed = func() {
		for _, m := range moves {
			at.unsure[m.clusterKey()] = true
		}
	}
	return u, nil
}

// tableOp returns the write of a table; an empty one is deleted.
func tableOp[T tableValue[T, M], M tableMove](key string, t T) (clientv3.Op, error) {
	if t.empty() {
		return clientv3.OpDelete(key), nil
	}
	text, err := t.encode(key)
	return clientv3.OpPut(key, text), err
}

// write writes plans of different tables in as few transactions as possible.
func (s *locations[T, M]) write(ctx context.Context, plans []*tablePlan[M]) error {
	for len(plans) > 0 {
		units := make([]unit, len(plans))
		for i, p := range plans {
			var err error
			if units[i], err = s.next(p); err != nil {
				return err
			}
		}
		if err := send(ctx, s.kv, s.subject, units); err != nil {
			return err
		}
		plans = slices.DeleteFunc(plans, (*tablePlan[M]).done)
	}
	return nil
}

// unit is a part of a plan that one transaction must make as a whole.
type unit struct {
	ops       []clientv3.Op
	bytes     int
	onWritten func() // notes that etcd has stored it
	onFailed  func() // notes that etcd may have stored it
}

func (u *unit) add(op clientv3.Op) {
	u.ops, u.bytes = append(u.ops, op), u.bytes+len(op.KeyBytes())+len(op.ValueBytes())
}

// send sends units in as few transactions as possible, several at the same time. Units must be of
// different tables.
func send(ctx context.Context, kv *etcdkv.Client, subject string, units []unit) error {
	var sent errgroup.Group
	sent.SetLimit(etcdkv.Writers)
	txns := packUnits(units)
	results := make([]error, len(txns))
	for i, txn := range txns {
		sent.Go(func() error {
			var ops []clientv3.Op
			for _, u := range txn {
				ops = append(ops, u.ops...)
			}
			if len(ops) > 0 {
				_, _, results[i] = kv.Commit(ctx, subject, nil, ops)
			}
			return nil
		})
	}
	_ = sent.Wait() // its functions keep their errors in results
	var failed error
	for i, txn := range txns {
		for _, u := range txn {
			if results[i] == nil {
				u.onWritten()
			} else {
				u.onFailed()
			}
		}
		if failed == nil {
			failed = results[i]
		}
	}
	return failed
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
