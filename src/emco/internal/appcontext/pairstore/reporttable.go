package pairstore

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Bounds of a table of reports. Reports beyond them get records of their own.
const (
	maxReports     = 8        // different reports of a table
	maxReport      = 32 << 10 // bytes of one, as JSON
	maxReportBytes = 64 << 10 // bytes of all of them
	maxReportSets  = 16       // sets of one report; beyond, sets that are close in time are joined
)

// ReportTable is the reports on one app of a deployment that are equal on several clusters.
type ReportTable struct{ groups []reportGroup }

// reportGroup is the clusters that report the same. It is replaced, never changed.
type reportGroup struct {
	text string      // sharedText of the report: equal for equal reports alone
	sets []reportSet // in order of since
}

// reportSet is the clusters whose Ready changed at the same time. It is replaced, never
// changed.
type reportSet struct {
	since   time.Time
	members *roaring.Bitmap // numbers of the roster
}

// storedReports is a reportGroup as etcd holds it.
type storedReports struct {
	Report json.RawMessage   `json:"report"`
	Sets   []storedReportSet `json:"sets"`
}

type storedReportSet struct {
	Since    time.Time `json:"since,omitzero"`
	Clusters string    `json:"clusters"` // a roaring bitmap, in base64
}

func reportTableKey(kv *etcdkv.Client, id TableID) string {
	return kv.Key(reportTableSpace, string(id.Deployment), id.App, id.Shard)
}

// encode returns the value of a table.
func (t ReportTable) encode(key string) (string, error) {
	groups := make([]storedReports, len(t.groups))
	for i, g := range t.groups {
		groups[i].Report = json.RawMessage(g.text)
		for _, s := range g.sets {
			s.members.RunOptimize()
			text, err := s.members.ToBytes()
			if err != nil {
				return "", etcdkv.Corrupt(key, err)
			}
			groups[i].Sets = append(groups[i].Sets, storedReportSet{s.since, base64.StdEncoding.EncodeToString(text)})
		}
	}
	return etcdkv.Encode(key, groups)
}

// ParseReportTable reads the value of a table of reports.
func ParseReportTable(record *mvccpb.KeyValue) (ReportTable, error) {
	stored, err := etcdkv.Decode[[]storedReports](record)
	if err != nil {
		return ReportTable{}, err
	}
	t := ReportTable{groups: make([]reportGroup, len(stored))}
	for i, g := range stored {
		t.groups[i].text = string(g.Report)
		for _, s := range g.Sets {
			text, err := base64.StdEncoding.DecodeString(s.Clusters)
			if err != nil {
				return ReportTable{}, etcdkv.Corrupt(string(record.Key), err)
			}
			members := roaring.New()
			if err := members.UnmarshalBinary(text); err != nil {
				return ReportTable{}, etcdkv.Corrupt(string(record.Key), err)
			}
			t.groups[i].sets = append(t.groups[i].sets, reportSet{s.Since, members})
		}
	}
	return t, nil
}

// find returns the group and the set that have a number.
func (t ReportTable) find(n uint32) (group, set int, found bool) {
	for i, g := range t.groups {
		for j, s := range g.sets {
			if s.members.Contains(n) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// indexOf returns the index of the group with a text, -1 if there is none.
func (t ReportTable) indexOf(text string) int {
	return slices.IndexFunc(t.groups, func(g reportGroup) bool { return g.text == text })
}

// setAt returns the clusters with a report whose Ready changed at a time; nil if there are none.
func (t ReportTable) setAt(text string, since time.Time) *roaring.Bitmap {
	if i := t.indexOf(text); i >= 0 {
		for _, s := range t.groups[i].sets {
			if s.since.Equal(since) {
				return s.members
			}
		}
	}
	return nil
}

// allSets yields the text of each group with each of its sets.
func (t ReportTable) allSets() iter.Seq2[string, reportSet] {
	return func(yield func(string, reportSet) bool) {
		for _, g := range t.groups {
			for _, s := range g.sets {
				if !yield(g.text, s) {
					return
				}
			}
		}
	}
}

// members returns all numbers of the table.
func (t ReportTable) members() *roaring.Bitmap {
	all := roaring.New()
	for _, s := range t.allSets() {
		all.Or(s.members)
	}
	return all
}

// joiner is a cluster that joins a group.
type joiner struct {
	number uint32
	text   string
	since  time.Time
}

func (t ReportTable) empty() bool { return len(t.groups) == 0 }

func (t ReportTable) with(moves []reportMove) (ReportTable, bool) {
	leave := roaring.New()
	var join []joiner
	for _, m := range moves {
		if m.named {
			leave.Add(m.number)
		}
		if m.text != "" {
			join = append(join, joiner{m.number, m.text, m.report.Since})
		}
	}
	if leave.IsEmpty() && len(join) == 0 {
		return t, false
	}
	return t.moved(leave, join), true
}

// moved returns a table that numbers have left and joined. It shares what did not change.
func (t ReportTable) moved(leave *roaring.Bitmap, join []joiner) ReportTable {
	var out ReportTable
	for _, g := range t.groups {
		next := reportGroup{text: g.text}
		for _, s := range g.sets {
			if s.members.Intersects(leave) {
				s.members = roaring.AndNot(s.members, leave)
			}
			if !s.members.IsEmpty() {
				next.sets = append(next.sets, s)
			}
		}
		out.groups = append(out.groups, next)
	}
	own := map[*roaring.Bitmap]bool{} // those that may be changed
	for _, j := range join {
		i := out.indexOf(j.text)
		if i < 0 {
			i = len(out.groups)
			out.groups = append(out.groups, reportGroup{text: j.text})
		}
		out.groups[i].add(j, own)
	}
	out.groups = slices.DeleteFunc(out.groups, func(g reportGroup) bool { return len(g.sets) == 0 })
	for i := range out.groups {
		out.groups[i].limitSets()
	}
	return out
}

// add adds a number to the set of its time. It changes bitmaps that are own, and copies others.
func (g *reportGroup) add(j joiner, own map[*roaring.Bitmap]bool) {
	at, found := slices.BinarySearchFunc(g.sets, j.since, func(s reportSet, since time.Time) int { return s.since.Compare(since) })
	if !found {
		g.sets = slices.Insert(g.sets, at, reportSet{j.since, roaring.New()})
		own[g.sets[at].members] = true
	}
	members := g.sets[at].members
	if !own[members] {
		members = members.Clone()
		g.sets[at].members = members
		own[members] = true
	}
	members.Add(j.number)
}

// limitSets joins the sets that are closest in time, until they are few enough. The later time counts:
// who waits for a report to be old enough waits longer, never shorter.
func (g *reportGroup) limitSets() {
	for len(g.sets) > maxReportSets {
		at := 0
		for i := range len(g.sets) - 1 {
			if g.sets[i+1].since.Sub(g.sets[i].since) < g.sets[at+1].since.Sub(g.sets[at].since) {
				at = i
			}
		}
		g.sets[at+1].members = roaring.Or(g.sets[at].members, g.sets[at+1].members)
		g.sets = slices.Delete(g.sets, at, at+1)
	}
}

// report returns the report of a set.
func (s reportSet) report(text string) (Report, error) {
	r, err := parseShared(text)
	r.Since = s.since
	return r, err
}
