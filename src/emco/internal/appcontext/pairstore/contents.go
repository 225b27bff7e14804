package pairstore

import (
	"context"
	"iter"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Contents is what etcd holds of the pairs of one shard, and of the reports on them.
type Contents struct {
	Shard   string
	Records []Pair // those that have records of their own
	Reports []Key  // of the reports that have records of their own, of all shards

	roster  *roster
	tables  map[TableID]Table
	reports map[TableID]ReportTable
}

// NewContents returns the contents of a shard that has only pairs with records of their own.
func NewContents(shard string, records ...Pair) *Contents {
	return &Contents{Shard: shard, Records: records, roster: newRoster(), tables: map[TableID]Table{}, reports: map[TableID]ReportTable{}}
}

// Pairs yields all pairs, in no order. Pairs that stand alike share what they refer to.
func (c *Contents) Pairs() iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		for p, err := range c.tablePairs() {
			if !yield(p, err) || err != nil {
				return
			}
		}
		for _, p := range c.Records {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// tablePairs yields the pairs of tables, in no order.
func (c *Contents) tablePairs() iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		for id, t := range c.tables {
			for p, err := range t.pairs(id, c.roster) {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// on returns the pairs that tables hold of a cluster.
func (c *Contents) on(cluster v2.ClusterKey) (out []Pair) {
	n, known := c.roster.find(cluster)
	if !known {
		return nil
	}
	for id, t := range c.tables {
		if i := t.groupOf(n); i >= 0 {
			out = append(out, t.groups[i].state.Pair(Key{Cluster: cluster, Deployment: id.Deployment, App: id.App}, c.roster.entries[n].Registration))
		}
	}
	return out
}

// has reports whether a table names a cluster.
func (c *Contents) has(cluster v2.ClusterKey) bool {
	n, known := c.roster.find(cluster)
	if !known {
		return false
	}
	for _, t := range c.tables {
		if t.groupOf(n) >= 0 {
			return true
		}
	}
	return false
}

// Contents reads the pairs of all shards at one revision of etcd, by shard, and where the reports on
// them are stored; records that name no shard are under "".
func (s *Store) Contents(ctx context.Context) (out map[string]*Contents, err error) {
	err = s.atOneRevision(ctx, func(rev int64) error {
		out, err = s.contents(ctx, rev, s.kv.Key(tableSpace)+"/", s.kv.Key(reportTableSpace)+"/")
		if err != nil {
			return err
		}
		reports, err := s.reportKeys(ctx, rev)
		for _, c := range out {
			c.Reports = reports
		}
		return err
	})
	return out, err
}

// contents reads the tables below prefixes, and the records of pairs.
func (s *Store) contents(ctx context.Context, rev int64, tables ...string) (map[string]*Contents, error) {
	out, err := s.readTables(ctx, rev, tables...)
	if err != nil {
		return nil, err
	}
	for p, err := range s.records(ctx, s.kv.Key(recordSpace)+"/", rev) {
		if err != nil {
			return nil, err
		}
		shard := contentsOf(out, p.Shard)
		shard.Records = append(shard.Records, p)
	}
	return out, nil
}

// reportKeys returns the keys of the reports that have records of their own.
func (s *Store) reportKeys(ctx context.Context, rev int64) (keys []Key, err error) {
	for k, err := range s.keys(ctx, reportSpace, rev) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func contentsOf(all map[string]*Contents, shard string) *Contents {
	if all[shard] == nil {
		all[shard] = NewContents(shard)
	}
	return all[shard]
}

// readTables reads the tables below prefixes, and their rosters.
func (s *Store) readTables(ctx context.Context, rev int64, prefixes ...string) (map[string]*Contents, error) {
	out := map[string]*Contents{}
	for _, prefix := range prefixes {
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: prefix, Revision: rev}) {
			if err != nil {
				return nil, err
			}
			if err := s.addTable(out, kv); err != nil {
				return nil, err
			}
		}
	}
	return out, s.readRosters(ctx, rev, out)
}

// addTable adds a table of pairs or reports.
func (s *Store) addTable(out map[string]*Contents, kv *mvccpb.KeyValue) error {
	id, err := ParseTableID(s.kv, kv.Key)
	if err != nil {
		return err
	}
	if s.kv.Split(kv.Key)[0] == reportTableSpace {
		contentsOf(out, id.Shard).reports[id], err = ParseReportTable(kv)
	} else {
		contentsOf(out, id.Shard).tables[id], err = ParseTable(kv)
	}
	return err
}

// tablesBelow reads the tables below some prefixes, and their rosters.
func (s *Store) tablesBelow(ctx context.Context, rev int64, prefixes map[string]bool) (map[string]*Contents, error) {
	out := map[string]*Contents{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(prefixes)), etcdkv.MaxOps) {
		tables, err := s.kv.GetRanges(ctx, some, clientv3.WithPrefix(), clientv3.WithRev(rev))
		if err != nil {
			return nil, err
		}
		for _, kv := range slices.Concat(tables...) {
			if err := s.addTable(out, kv); err != nil {
				return nil, err
			}
		}
	}
	return out, s.readRosters(ctx, rev, out)
}

// readRosters reads the rosters of shards that have tables.
func (s *Store) readRosters(ctx context.Context, rev int64, shards map[string]*Contents) error {
	for shard, c := range shards {
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(rosterSpace, shard) + "/", Revision: rev}) {
			if err != nil {
				return err
			}
			part, err := ParseRoster(s.kv, kv)
			if err != nil {
				return err
			}
			c.roster.set(part.chunk, part.entries)
		}
	}
	return nil
}
