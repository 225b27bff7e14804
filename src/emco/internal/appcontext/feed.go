package appcontext

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

// Record is what a ChangeFeed yields: HeadID or Key with one of the records or with Gone, or one
// of Restart and UpTo alone.
type Record struct {
	Space   Space
	Key     PairKey // of a pair, a table or a report; Cluster alone for an agent
	HeadID  HeadID
	Head    *Head
	Run     *WorkflowRun // of a workflow of HeadID
	RunName RunName
	Pair    *Pair                  // a record of its own
	Table   *pairstore.Table       // of the pairs with Key's Deployment and App in Shard
	Reports *pairstore.ReportTable // on the pairs with Key's Deployment and App in Shard
	Shard   string                 // of Table or Reports
	Roster  *pairstore.RosterPart
	Report  *Report // a record of its own
	Agent   *agents.Agent
	Gone    bool
	Restart bool  // forget everything: all records follow again
	UpTo    int64 // all changes up to this revision of etcd have been yielded
}

// Space is a kind of records.
type Space string

// The spaces of a ChangeFeed.
const (
	HeadSpace        Space = "head"
	AgentSpace       Space = "heard"
	HookSpace        Space = "hook"
	PairSpace        Space = "pair"
	RosterSpace      Space = "pairroster"
	TableSpace       Space = "pairtable"
	ReportSpace      Space = "report"
	ReportTableSpace Space = "reporttable"
)

// ChangeFeed is one watch of eight key spaces (Space), so that records arrive in write order
// across all eight.
type ChangeFeed struct {
	s      *Store
	stream string // of the watch, see etcdkv.OwnStream: other watches cannot delay its UpTo
}

// ChangeFeed returns a feed that has not begun.
func (s *Store) ChangeFeed() *ChangeFeed { return &ChangeFeed{s: s, stream: rand.Text()} }

// Records yields Restart, all records, UpTo, and then changes and UpTo. It ends only when
// ctx ends: a lost connection continues where it was lost; after a compaction everything
// follows again, after another Restart. What one transaction wrote arrives between the same
// two UpTo. An error stands for one record that cannot be read (Space, and HeadID or Key, are set); the
// iteration goes on.
func (f *ChangeFeed) Records(ctx context.Context) iter.Seq2[Record, error] {
	// In the order of keys, rosters come before the tables of pairs and of reports that name their
	// numbers. Other keys in this range are skipped.
	from, end := f.s.kv.Key("head")+"/", clientv3.GetPrefixRangeEnd(f.s.kv.Key(string(ReportTableSpace))+"/")
	reports := reportDecoder{}
	return func(yield func(Record, error) bool) {
		for c := range f.s.kv.WatchRange(etcdkv.OwnStream(ctx, f.stream), from, end) {
			out, ok, err := f.s.decodeChange(c, reports)
			if ok && !yield(out, err) {
				return
			}
		}
	}
}

// RequestProgress has the feed yield UpTo soon, even if nothing changes. The request may be
// lost: repeat it.
func (f *ChangeFeed) RequestProgress(ctx context.Context) error {
	if err := f.s.kv.Etcd().RequestProgress(clientv3.WithRequireLeader(etcdkv.OwnStream(ctx, f.stream))); err != nil {
		return etcdkv.Classify("watch", "contexts", err)
	}
	f.s.kv.CountRequest("watch", 0)
	return nil
}

// Revision returns etcd's revision; everything written before the call is at or below it.
func (f *ChangeFeed) Revision(ctx context.Context) (int64, error) {
	r, err := f.s.kv.Get(ctx, f.s.kv.Key(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// decodeChange decodes one change; false if it is in another space.
func (s *Store) decodeChange(c etcdkv.Change, reports reportDecoder) (out Record, ok bool, err error) {
	if c.KV == nil {
		return Record{Restart: c.Restart, UpTo: c.UpTo}, c.Restart || c.UpTo > 0, nil
	}
	p := s.kv.Split(c.KV.Key)
	out = Record{Space: Space(p[0]), Gone: c.Deleted}
	switch {
	case out.Space == HeadSpace && len(p) == 2:
		out.HeadID = HeadID(p[1])
		if !c.Deleted {
			out.Head, err = pointer(s.parseHead(c.KV))
		}
	case out.Space == HookSpace && len(p) == 3:
		out.HeadID, out.RunName = HeadID(p[1]), RunName(p[2])
		if !c.Deleted {
			out.Run, err = pointer(s.parseRun(c.KV))
		}
	case out.Space == AgentSpace && len(p) == 2:
		out.Key.Cluster = v2.ClusterKey(p[1])
		if !c.Deleted {
			out.Agent, err = pointer(s.ParseAgent(v2.ClusterKey(p[1]), c.KV))
		}
	case out.Space == PairSpace && len(p) == 4:
		out.Key = PairKey{Cluster: v2.ClusterKey(p[1]), Deployment: v2.DeploymentID(p[2]), App: p[3]}
		if !c.Deleted {
			out.Pair, err = pointer(pairstore.ParseRecord(s.kv, c.KV))
		}
	case out.Space == TableSpace && len(p) == 4:
		out.Key, out.Shard = PairKey{Deployment: v2.DeploymentID(p[1]), App: p[2]}, p[3]
		if !c.Deleted {
			out.Table, err = pointer(pairstore.ParseTable(c.KV))
		}
	case out.Space == ReportTableSpace && len(p) == 4:
		out.Key, out.Shard = PairKey{Deployment: v2.DeploymentID(p[1]), App: p[2]}, p[3]
		if !c.Deleted {
			out.Reports, err = pointer(pairstore.ParseReportTable(c.KV))
		}
	case out.Space == RosterSpace && len(p) == 3:
		out.Shard = p[1]
		if !c.Deleted {
			out.Roster, err = pointer(pairstore.ParseRoster(s.kv, c.KV))
		}
	case out.Space == ReportSpace && len(p) == 4:
		out.Key = PairKey{Cluster: v2.ClusterKey(p[1]), Deployment: v2.DeploymentID(p[2]), App: p[3]}
		if !c.Deleted {
			out.Report, err = pointer(reports.decode(c.KV))
			if err == nil {
				out.Report.Key = out.Key
			}
		}
	default:
		return Record{}, false, nil
	}
	return out, true, err
}

func pointer[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// reportDecoder decodes reports. Most reports repeat what others contain of the same
// objects, so it caches decoded parts by their text.
type reportDecoder map[string]ResourceStatus

// maxDecoded bounds a reportDecoder; it forgets everything when it holds more.
const maxDecoded = 1 << 16

func (r reportDecoder) decode(kv *mvccpb.KeyValue) (Report, error) {
	v, err := etcdkv.Decode[struct {
		Report
		Resources []json.RawMessage `json:"resources"`
	}](kv)
	if err != nil {
		return Report{}, err
	}
	v.Report.Resources = make([]ResourceStatus, len(v.Resources))
	for i, text := range v.Resources {
		status, known := r[string(text)]
		if !known {
			if err := json.Unmarshal(text, &status); err != nil {
				return Report{}, etcdkv.Corrupt(string(kv.Key), err)
			}
			if len(r) >= maxDecoded {
				clear(r)
			}
			r[string(text)] = status
		}
		v.Report.Resources[i] = status
	}
	return v.Report, nil
}
