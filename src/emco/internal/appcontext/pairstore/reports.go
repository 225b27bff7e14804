package pairstore

import (
	"context"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// ReportStore reads what clusters report of their apps, of all shards. It is safe for use by many
// goroutines.
type ReportStore struct {
	pairs  *Store
	agents *agents.Store
}

// NewReports returns a store of the reports on pairs.
func NewReports(pairs *Store, agents *agents.Store) *ReportStore {
	return &ReportStore{pairs, agents}
}

// PutReports, which is for tests, writes a record for each report and removes others, fenced by own. A Writer of the
// pairs' shard must not run. A report too large for one value is cut, see cutReport.
func (s *ReportStore) PutReports(ctx context.Context, own etcdkv.Fence, put []Report, remove []Key) error {
	ops := make(map[string]clientv3.Op, len(put)+len(remove))
	for _, k := range remove {
		ops[reportKey(s.pairs.kv, k)] = clientv3.OpDelete(reportKey(s.pairs.kv, k))
	}
	for _, r := range put {
		if err := etcdkv.CheckParts(string(r.Key.Cluster), string(r.Key.Deployment), r.Key.App); err != nil {
			return err
		}
		name := reportKey(s.pairs.kv, r.Key)
		text, err := etcdkv.Encode(name, cutReport(r))
		if err != nil {
			return err
		}
		ops[name] = clientv3.OpPut(name, text)
	}
	return s.pairs.kv.Fenced(own).WriteSorted(ctx, "reports", ops)
}

// reportRecords are the records of reports.
var reportRecords = recordKind[Report]{reportKey, parseReport}

func reportKey(kv *etcdkv.Client, k Key) string {
	return kv.Key(reportSpace, string(k.Cluster), string(k.Deployment), k.App)
}

// ReportsAt returns the reports of the given keys, in their order, without those that do
// not exist. It reads the tables of all shards for these apps.
func (s *ReportStore) ReportsAt(ctx context.Context, keys []Key) (out []Report, err error) {
	err = s.pairs.atOneRevision(ctx, func(rev int64) error {
		out, err = s.reportsAt(ctx, keys, rev)
		return err
	})
	return out, err
}

func (s *ReportStore) reportsAt(ctx context.Context, keys []Key, rev int64) ([]Report, error) {
	kv := s.pairs.kv
	at, tables := map[Key]int{}, map[string]bool{}
	for i, k := range keys {
		at[k], tables[kv.Key(reportTableSpace, string(k.Deployment), k.App)+"/"] = i, true
	}
	shards, err := s.pairs.tablesBelow(ctx, rev, tables)
	if err != nil {
		return nil, err
	}
	found := make([]*Report, len(keys))
	for _, c := range shards {
		for id, t := range c.reports {
			for text, set := range t.allSets() {
				r, err := set.report(text)
				if err != nil {
					return nil, etcdkv.Corrupt(reportTableKey(kv, id), err)
				}
				for n := range roaring.Values(set.members) {
					e, err := c.roster.entry(n)
					if err != nil {
						return nil, err
					}
					if i, asked := at[Key{Cluster: e.Cluster, Deployment: id.Deployment, App: id.App}]; asked {
						one := r
						one.Key = keys[i]
						found[i] = &one
					}
				}
			}
		}
	}
	if err := reportRecords.readInto(ctx, kv, keys, absent(found), found, clientv3.WithRev(rev)); err != nil {
		return nil, err
	}
	return present(found), nil
}

func parseReport(kv *etcdkv.Client, record *mvccpb.KeyValue) (Report, error) {
	key, err := ParseKey(kv, record.Key)
	if err != nil {
		return Report{}, err
	}
	r, err := etcdkv.Decode[Report](record)
	r.Key = key
	return r, err
}

// Reported reports whether a cluster has reported anything: its agent, or a watch of its objects.
func (s *ReportStore) Reported(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return false, err
	}
	r, err := s.pairs.kv.Get(ctx, s.pairs.kv.Key(reportSpace, string(cluster))+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil || len(r.Kvs) > 0 {
		return err == nil, err
	}
	a, err := s.agents.Agent(ctx, cluster) // reports that are stored with others came from it
	return a.Seq > 0, err
}

// LastReport returns the highest stored sequence of a cluster's reports, and when that
// report was received; zero if no agent has reported. It reads the records of the cluster's reports; those that
// are stored with others are not newer than the agent's record.
func (s *ReportStore) LastReport(ctx context.Context, cluster v2.ClusterKey) (seq uint64, at time.Time, err error) {
	a, err := s.agents.Agent(ctx, cluster)
	if err != nil {
		return 0, at, err
	}
	seq, at = a.Seq, a.At
	kv := s.pairs.kv
	records := kv.List(ctx, etcdkv.Scan{Prefix: kv.Key(reportSpace, string(cluster)) + "/"})
	for r, err := range etcdkv.Records(records, func(record *mvccpb.KeyValue) (Report, error) { return parseReport(kv, record) }) {
		if err != nil {
			return 0, at, err
		}
		if r.Seq > seq {
			seq, at = r.Seq, r.At
		}
	}
	return seq, at, nil
}
