package appcontext

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

const reportSpace = "report"

// ReportStore stores what clusters report of their apps.
type ReportStore struct {
	kv     *etcdkv.Client
	agents *agents.Store
}

// PutReports writes and removes reports fenced by own. A report too large for one
// value is cut: long reasons are shortened first, then resources that are Current are left
// out, then others; Truncated counts those that were left out.
func (s *ReportStore) PutReports(ctx context.Context, own Fence, put []Report, remove []PairKey) error {
	cut := make([]Report, len(put))
	for i, r := range put {
		cut[i] = cutReport(r)
	}
	ops := make(map[string]clientv3.Op, len(cut)+len(remove))
	for _, k := range remove {
		ops[s.key(k)] = clientv3.OpDelete(s.key(k))
	}
	for _, r := range cut {
		if err := etcdkv.CheckParts(string(r.Key.Cluster), string(r.Key.UID), r.Key.App); err != nil {
			return err
		}
		name := s.key(r.Key)
		text, err := etcdkv.Encode(name, r)
		if err != nil {
			return err
		}
		ops[name] = clientv3.OpPut(name, text)
	}
	return s.kv.Fenced(own).WriteSorted(ctx, "reports", ops)
}

func (s *ReportStore) key(k PairKey) string {
	return s.kv.Key(reportSpace, string(k.Cluster), string(k.UID), k.App)
}

// ReportsAt returns the reports of the given keys, in their order, without those that do
// not exist.
func (s *ReportStore) ReportsAt(ctx context.Context, keys []PairKey) ([]Report, error) {
	var all []Report
	for some := range slices.Chunk(keys, etcdkv.MaxOps) {
		names := make([]string, len(some))
		for i, k := range some {
			names[i] = s.key(k)
		}
		found, err := s.kv.GetMany(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, record := range found {
			if record == nil {
				continue
			}
			r, err := s.parse(record)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

func (s *ReportStore) parse(kv *mvccpb.KeyValue) (Report, error) {
	key, err := pairstore.ParseKey(s.kv, kv.Key)
	if err != nil {
		return Report{}, err
	}
	r, err := etcdkv.Decode[Report](kv)
	r.Key = key
	return r, err
}

// Reported reports whether a cluster has a report on any app that it holds.
func (s *ReportStore) Reported(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return false, err
	}
	r, err := s.kv.Get(ctx, s.kv.Key(reportSpace, string(cluster))+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	return err == nil && len(r.Kvs) > 0, err
}

// LastReport returns the highest stored sequence of a cluster's reports, and when that
// report was received; zero if no agent has reported. It reads all reports of the cluster.
func (s *ReportStore) LastReport(ctx context.Context, cluster v2.ClusterKey) (seq uint64, at time.Time, err error) {
	a, err := s.agents.Agent(ctx, cluster)
	if err != nil {
		return 0, at, err
	}
	seq, at = a.Seq, a.At
	for r, err := range etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(reportSpace, string(cluster)) + "/"}), s.parse) {
		if err != nil {
			return 0, at, err
		}
		if r.Seq > seq {
			seq, at = r.Seq, r.At
		}
	}
	return seq, at, nil
}

// cutReport returns a report that fits into one value. It does not change r.
func cutReport(r Report) Report {
	key := strings.Join([]string{string(r.Key.Cluster), string(r.Key.UID), r.Key.App}, "/")
	if _, err := etcdkv.Encode(key, r); !errs.Is(err, errs.TooLarge) {
		return r
	}
	kept, room := cutReasons(r.Resources), etcdkv.MaxValue-256
	currentLast := func(x ResourceStatus) int {
		if x.Status == "Current" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(kept, func(a, b ResourceStatus) int { return cmp.Compare(currentLast(a), currentLast(b)) })
	for i, x := range kept {
		text, err := etcdkv.Encode(key, x)
		if room -= len(text) + 1; err != nil || room < 0 {
			r.Truncated += len(kept) - i
			kept = kept[:i]
			break
		}
	}
	r.Resources = kept
	return r
}

// cutReasons returns a copy of list with no reason above 512 bytes.
func cutReasons(list []ResourceStatus) []ResourceStatus {
	const limit = 512
	list = slices.Clone(list)
	for i, x := range list {
		if len(x.Reason) > limit {
			list[i].Reason = strings.ToValidUTF8(x.Reason[:limit], "") + "…"
		}
	}
	return list
}
