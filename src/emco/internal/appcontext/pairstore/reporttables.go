package pairstore

import (
	"iter"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// ReportSet is the clusters of a table that sent the same report and whose Ready changed at the
// same time.
type ReportSet struct {
	text  string
	since int64
}

func setOf(text string, since time.Time) ReportSet { return ReportSet{text, moment(since)} }

// Report returns the report of the set, without Key.
func (s ReportSet) Report() (Report, error) {
	r, err := parseShared(s.text)
	if s.since != 0 {
		r.Since = time.Unix(0, s.since).UTC()
	}
	return r, err
}

// ReportSets returns the sets of a table of reports, as it was given to ReplaceReports.
func (t *Tables) ReportSets(id TableID) map[ReportSet]bool {
	out := map[ReportSet]bool{}
	for text, s := range t.reports[id].allSets() {
		out[setOf(text, s.since)] = true
	}
	return out
}

// ReportSetChange is a pair whose report moves between sets of a table.
type ReportSetChange struct {
	Key Key
	To  *ReportSet // the same for all pairs of a set; nil: the table no longer has the report
}

// ReplaceReports replaces a table of reports, nil for none, and yields the pairs that are in another
// set. An error stands for a pair whose cluster is not known.
func (t *Tables) ReplaceReports(id TableID, next *ReportTable) iter.Seq2[ReportSetChange, error] {
	old, now := t.reports[id], ReportTable{}
	if next != nil {
		now = *next
	}
	if len(now.groups) > 0 {
		t.reports[id] = now
	} else {
		delete(t.reports, id)
	}
	return func(yield func(ReportSetChange, error) bool) {
		for text, s := range now.allSets() {
			joined, to := s.members, setOf(text, s.since)
			if before := old.setAt(text, s.since); before != nil {
				joined = roaring.AndNot(joined, before)
			}
			if !t.yieldReports(id, joined, &to, yield) {
				return
			}
		}
		t.yieldReports(id, roaring.AndNot(old.members(), now.members()), nil, yield)
	}
}

func (t *Tables) yieldReports(id TableID, numbers *roaring.Bitmap, to *ReportSet, yield func(ReportSetChange, error) bool) bool {
	r := t.roster(id.Shard)
	for n := range roaring.Values(numbers) {
		e, err := r.entry(n)
		if !yield(ReportSetChange{Key{Cluster: e.Cluster, Deployment: id.Deployment, App: id.App}, to}, err) {
			return false
		}
	}
	return true
}
