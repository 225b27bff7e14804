package pairstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// The key spaces. A watch of all keys from recordSpace to reportTableSpace sees rosters before the
// tables that name their numbers.
const (
	recordSpace      = "pair"
	rosterSpace      = "pairroster"
	tableSpace       = "pairtable"
	reportSpace      = "report"
	reportTableSpace = "reporttable"
)

// Store reads the pairs of all shards, and writes records of pairs. It is safe for use by many
// goroutines.
type Store struct{ kv *etcdkv.Client }

// New returns a store of the pairs below the client's prefix.
func New(kv *etcdkv.Client) *Store { return &Store{kv} }

// RecordKey returns the key of a pair's own record.
func RecordKey(kv *etcdkv.Client, k Key) string {
	return kv.Key(recordSpace, string(k.Cluster), string(k.UID), k.App)
}

// ParseRecord reads a pair's own record.
func ParseRecord(kv *etcdkv.Client, record *mvccpb.KeyValue) (Pair, error) {
	key, err := ParseKey(kv, record.Key)
	if err != nil {
		return Pair{}, err
	}
	p, err := etcdkv.Decode[Pair](record)
	p.Key = key
	return p, err
}

// ParseKey reads the key of a record by cluster, deployment and app.
func ParseKey(kv *etcdkv.Client, key []byte) (Key, error) {
	p := kv.Split(key)
	if len(p) != 4 {
		return Key{}, etcdkv.Corrupt(string(key), fmt.Errorf("the key has %d parts, not 4", len(p)))
	}
	return Key{Cluster: v2.ClusterKey(p[1]), UID: v2.DeploymentID(p[2]), App: p[3]}, nil
}

func (s *Store) parseRecord(record *mvccpb.KeyValue) (Pair, error) { return ParseRecord(s.kv, record) }

// NewWriter returns the writer of a shard's pairs, given what etcd holds of them.
func (s *Store) NewWriter(own etcdkv.Fence, stored *Contents) *Writer {
	return NewWriter(s.kv, own, stored)
}

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
		of(out, p.Shard).Records = append(of(out, p.Shard).Records, p)
	}
	return out, nil
}

// reportKeys returns the keys of the reports that have records of their own.
func (s *Store) reportKeys(ctx context.Context, rev int64) (keys []Key, err error) {
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(reportSpace) + "/", KeysOnly: true, Revision: rev}) {
		if err != nil {
			return nil, err
		}
		k, err := ParseKey(s.kv, kv.Key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func of(all map[string]*Contents, shard string) *Contents {
	if all[shard] == nil {
		all[shard] = NewContents(shard)
	}
	return all[shard]
}

// maxReads is how often a read begins again because etcd has compacted its revision.
const maxReads = 3

// atOneRevision has read read at etcd's newest revision: between two revisions a pair may move from
// its record to a table, so a reader of both could miss it. If etcd compacts the revision
// meanwhile, read is called again with a newer one.
func (s *Store) atOneRevision(ctx context.Context, read func(rev int64) error) error {
	for try := 1; ; try++ {
		now, err := s.kv.Get(ctx, s.kv.Key(tableSpace), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		err = read(now.Header.Revision)
		if !errors.Is(err, rpctypes.ErrCompacted) || try == maxReads {
			return err
		}
	}
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
		of(out, id.Shard).reports[id], err = ParseReportTable(kv)
	} else {
		of(out, id.Shard).tables[id], err = ParseTable(kv)
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

// records yields the records below a prefix at a revision, in order of their keys.
func (s *Store) records(ctx context.Context, prefix string, rev int64) iter.Seq2[Pair, error] {
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: prefix, Revision: rev}), s.parseRecord)
}

// Pairs yields all pairs, as they are at one revision of etcd: first those of tables, then those of
// records, in order of their keys. It ends at the first error.
func (s *Store) Pairs(ctx context.Context) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		var shards map[string]*Contents
		err := s.atOneRevision(ctx, func(rev int64) (err error) {
			shards, err = s.contents(ctx, rev, s.kv.Key(tableSpace)+"/")
			return err
		})
		if err != nil {
			yield(Pair{}, err)
			return
		}
		var records []Pair
		for _, c := range shards {
			for p, err := range c.tablePairs() {
				if !yield(p, err) || err != nil {
					return
				}
			}
			records = append(records, c.Records...)
		}
		slices.SortFunc(records, ComparePairs)
		for _, p := range records {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// PairsAt returns the pairs of the given keys, in their order, without those that do not exist.
func (s *Store) PairsAt(ctx context.Context, keys []Key) (out []Pair, err error) {
	err = s.atOneRevision(ctx, func(rev int64) error {
		out, err = s.pairsAt(ctx, keys, rev)
		return err
	})
	return out, err
}

func (s *Store) pairsAt(ctx context.Context, keys []Key, rev int64) ([]Pair, error) {
	at, apps := map[Key]int{}, map[string]bool{}
	for i, k := range keys {
		at[k], apps[s.kv.Key(tableSpace, string(k.UID), k.App)+"/"] = i, true
	}
	found := make([]*Pair, len(keys))
	shards, err := s.tablesBelow(ctx, rev, apps)
	if err != nil {
		return nil, err
	}
	for _, c := range shards {
		for p, err := range c.tablePairs() {
			if err != nil {
				return nil, err
			}
			if i, ok := at[p.Key]; ok {
				found[i] = &p
			}
		}
	}
	if err := s.recordsAt(ctx, keys, found, rev); err != nil {
		return nil, err
	}
	var out []Pair
	for _, p := range found {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out, nil
}

// recordsAt reads the records of those keys that are not found yet.
func (s *Store) recordsAt(ctx context.Context, keys []Key, found []*Pair, rev int64) error {
	var missing []int
	for i := range keys {
		if found[i] == nil {
			missing = append(missing, i)
		}
	}
	for some := range slices.Chunk(missing, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for j, i := range some {
			names[j] = RecordKey(s.kv, keys[i])
		}
		kvs, err := s.kv.GetMany(ctx, names, clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		for j, kv := range kvs {
			if kv == nil {
				continue
			}
			p, err := s.parseRecord(kv)
			if err != nil {
				return err
			}
			found[some[j]] = &p
		}
	}
	return nil
}

// PairsOn returns the pairs of a cluster, in order of deployment and app. It reads the tables of
// all deployments, so call it rarely; package mirror answers the same from memory.
func (s *Store) PairsOn(ctx context.Context, cluster v2.ClusterKey) (all []Pair, err error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return nil, err
	}
	err = s.atOneRevision(ctx, func(rev int64) error {
		all = nil
		shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace)+"/")
		if err != nil {
			return err
		}
		for _, c := range shards {
			all = append(all, c.on(cluster)...)
		}
		for p, err := range s.records(ctx, s.kv.Key(recordSpace, string(cluster))+"/", rev) {
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		return nil
	})
	slices.SortFunc(all, ComparePairs)
	return all, err
}

// on returns the pairs that tables hold of a cluster.
func (c *Contents) on(cluster v2.ClusterKey) (out []Pair) {
	n, known := c.roster.find(cluster)
	if !known {
		return nil
	}
	for id, t := range c.tables {
		if i := t.groupOf(n); i >= 0 {
			out = append(out, t.groups[i].state.Pair(Key{Cluster: cluster, UID: id.UID, App: id.App}, c.roster.entries[n].Identity))
		}
	}
	return out
}

// PairsOf returns the pairs of a deployment on all clusters, in order of their keys. They include
// clusters that no kept revision names: an unreachable cluster may still hold what an earlier
// revision removed. It reads the keys of all records, so call it rarely; package mirror answers the
// same from memory.
func (s *Store) PairsOf(ctx context.Context, deployment v2.DeploymentID) (all []Pair, err error) {
	err = s.atOneRevision(ctx, func(rev int64) error {
		all, err = s.pairsOf(ctx, deployment, rev)
		return err
	})
	slices.SortFunc(all, ComparePairs)
	return all, err
}

func (s *Store) pairsOf(ctx context.Context, deployment v2.DeploymentID, rev int64) (all []Pair, err error) {
	shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace, string(deployment))+"/")
	if err != nil {
		return nil, err
	}
	for _, c := range shards {
		for p, err := range c.tablePairs() {
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	var keys []Key
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(recordSpace) + "/", KeysOnly: true, Revision: rev}) {
		if err != nil {
			return nil, err
		}
		key, err := ParseKey(s.kv, kv.Key)
		if err != nil {
			return nil, err
		}
		if key.UID == deployment {
			keys = append(keys, key)
		}
	}
	found := make([]*Pair, len(keys))
	err = s.recordsAt(ctx, keys, found, rev)
	for _, p := range found {
		if p != nil {
			all = append(all, *p)
		}
	}
	return all, err
}

// ShardsOf returns the clusters on which a deployment has pairs, each with the shard that one of
// the pairs names.
func (s *Store) ShardsOf(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey) (out map[v2.ClusterKey]string, err error) {
	if len(clusters) == 0 {
		return nil, nil
	}
	err = s.atOneRevision(ctx, func(rev int64) error {
		out, err = s.shardsOf(ctx, deployment, clusters, rev)
		return err
	})
	return out, err
}

func (s *Store) shardsOf(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey, rev int64) (map[v2.ClusterKey]string, error) {
	shards, err := s.readTables(ctx, rev, s.kv.Key(tableSpace, string(deployment))+"/")
	if err != nil {
		return nil, err
	}
	out := map[v2.ClusterKey]string{}
	var others []v2.ClusterKey
	for _, cluster := range clusters {
		for shard, c := range shards {
			if c.has(cluster) {
				out[cluster] = shard
			}
		}
		if _, found := out[cluster]; !found {
			others = append(others, cluster)
		}
	}
	for some := range slices.Chunk(others, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, c := range some {
			names[i] = s.kv.Key(recordSpace, string(c), string(deployment)) + "/"
		}
		found, err := s.kv.GetMany(ctx, names, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithRev(rev))
		if err != nil {
			return nil, err
		}
		for _, kv := range found {
			if kv == nil {
				continue
			}
			p, err := s.parseRecord(kv)
			if err != nil {
				return nil, err
			}
			out[p.Key.Cluster] = p.Shard
		}
	}
	return out, nil
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

// HasApplied reports whether a cluster is proved to hold anything, of any deployment.
func (s *Store) HasApplied(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Applied != "" })
}

// HasDesired reports whether any deployment wants anything on a cluster.
func (s *Store) HasDesired(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	return s.anyOn(ctx, cluster, func(p Pair) bool { return p.Desired != "" })
}

func (s *Store) anyOn(ctx context.Context, cluster v2.ClusterKey, is func(Pair) bool) (bool, error) {
	pairs, err := s.PairsOn(ctx, cluster)
	return err == nil && slices.ContainsFunc(pairs, is), err
}

// PutPairs writes a record for each pair and removes others, in transactions of at most 128
// operations, each of which is refused with ErrFenced if own is lost. The zero Fence fences
// nothing. A Writer of the pairs' shard must not run. A key that is both put and removed is put.
//
// Writing the same again does no harm; after an error some may be written.
func (s *Store) PutPairs(ctx context.Context, own etcdkv.Fence, put []Pair, remove []Key) error {
	ops := make(map[string]clientv3.Op, len(put)+len(remove))
	for _, k := range remove {
		ops[RecordKey(s.kv, k)] = clientv3.OpDelete(RecordKey(s.kv, k))
	}
	for _, p := range put {
		if err := etcdkv.CheckParts(string(p.Key.Cluster), string(p.Key.UID), p.Key.App); err != nil {
			return err
		}
		name := RecordKey(s.kv, p.Key)
		text, err := etcdkv.Encode(name, p)
		if err != nil {
			return err
		}
		ops[name] = clientv3.OpPut(name, text)
	}
	return s.kv.Fenced(own).WriteSorted(ctx, "pairs", ops)
}
