package appcontext

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Record is one thing that a Tap tells. Key and one of the records are set, or Key and
// Gone, or one of the last two alone.
type Record struct {
	Space   Space
	Key     PairKey // UID alone for a head, Cluster alone for an agent
	Head    *Head
	Pair    *Pair
	Report  *Report
	Agent   *Agent
	Gone    bool
	Restart bool  // forget everything: what there is will be told anew
	UpTo    int64 // all up to this revision of etcd has been told
}

// Space is a kind of records.
type Space string

// The spaces that a Tap looks at.
const (
	HeadSpace   Space = "head"
	AgentSpace  Space = "heard"
	PairSpace   Space = "pair"
	ReportSpace Space = "report"
)

// ChangeFeed is one watch of all heads, agents, pairs and reports together, so that they are seen in
// the order in which they were written, across the four.
type ChangeFeed struct {
	s      *Store
	stream string // makes the watch one of its own: others cannot hold back its marks
}

// ChangeFeed returns a watch that has not begun.
func (s *Store) ChangeFeed() *ChangeFeed { return &ChangeFeed{s: s, stream: rand.Text()} }

// Records yields Begin, all records, a Mark, and then changes and Marks. It ends only
// when ctx ends: a lost connection is taken up again where it was lost; after a
// compaction everything is told anew, after another Begin. What was written by one
// transaction comes between the same two Marks. An error stands for one record that
// cannot be read (Space and Key are set); the iteration goes on.
func (t *ChangeFeed) Records(ctx context.Context) iter.Seq2[Record, error] {
	// Heads, agents, operations, ownerships, pairs and reports lie beside each other in this order.
	keys := span{from: t.s.key("head") + "/", end: clientv3.GetPrefixRangeEnd(t.s.key("report") + "/"), whole: true}
	reports := reportReader{}
	return func(yield func(Record, error) bool) {
		for c := range t.s.followSpan(t.own(ctx), keys) {
			out, ok, err := t.s.recordOf(c, reports)
			if ok && !yield(out, err) {
				return
			}
		}
	}
}

// RequestProgress has the watch tell a Mark soon, even if nothing changes. It may be lost: ask again.
func (t *ChangeFeed) RequestProgress(ctx context.Context) error {
	if err := t.s.c.RequestProgress(clientv3.WithRequireLeader(t.own(ctx))); err != nil {
		return classify("watch", "contexts", err)
	}
	t.s.onOp("watch", 0)
	return nil
}

// own gives the watch a stream of its own within the client: etcd answers Ask only when
// all watches of a stream have told everything.
func (t *ChangeFeed) own(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("emco-tap", t.stream))
}

// Revision returns etcd's revision; whatever was written before is at or below it.
func (t *ChangeFeed) Revision(ctx context.Context) (int64, error) {
	r, err := t.s.get(ctx, t.s.prefix, clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// recordOf reads one change; false if it is in another space.
func (s *Store) recordOf(c change, reports reportReader) (out Record, ok bool, err error) {
	if c.kv == nil {
		return Record{Restart: c.begin, UpTo: c.mark}, c.begin || c.mark > 0, nil
	}
	p := s.split(c.kv.Key)
	out = Record{Space: Space(p[0]), Gone: c.deleted}
	switch {
	case out.Space == HeadSpace && len(p) == 2:
		out.Key.UID = p[1]
		if !c.deleted {
			out.Head, err = pointer(s.parseHead(c.kv))
		}
	case out.Space == AgentSpace && len(p) == 2:
		out.Key.Cluster = p[1]
		if !c.deleted {
			out.Agent, err = pointer(s.parseAgent(p[1], c.kv))
		}
	case out.Space == PairSpace && len(p) == 4:
		out.Key = PairKey{Cluster: p[1], UID: p[2], App: p[3]}
		if !c.deleted {
			out.Pair, err = pointer(s.parsePair(c.kv))
		}
	case out.Space == ReportSpace && len(p) == 4:
		out.Key = PairKey{Cluster: p[1], UID: p[2], App: p[3]}
		if !c.deleted {
			out.Report, err = pointer(reports.read(c.kv))
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

// reportReader reads reports. Most of them repeat what others say of the same objects, so
// it keeps what it has read, by its text.
type reportReader map[string]ResourceStatus

// maxRead bounds what a reportReader keeps; it forgets all when it has more.
const maxRead = 1 << 16

func (r reportReader) read(kv *mvccpb.KeyValue) (Report, error) {
	v, err := decode[struct {
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
				return Report{}, corrupt(string(kv.Key), err)
			}
			if len(r) >= maxRead {
				clear(r)
			}
			r[string(text)] = status
		}
		v.Report.Resources[i] = status
	}
	return v.Report, nil
}
