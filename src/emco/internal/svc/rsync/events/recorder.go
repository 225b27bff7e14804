// Package events records what happens to the pairs of a deployment, one event for each app
// and kind of news however many clusters it concerns.
package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// maxEvents bounds what is told of one batch of changes.
const MaxPerBatch = 20

// eventRecorder collects what is worth telling of deployments, one line for each app and sort of
// news however many clusters it is about.
type Recorder struct{ topics map[topic]*topicSummary }

// topic is one sort of news of an app.
type topic struct{ uid, app, reason string }

// topicSummary is what a line is about.
type topicSummary struct {
	n       int
	cluster string // the first one, by name
	text    string // of that one
	rev     int64
}

// The sorts of news.
const (
	newsApplied    = "Applied"
	newsFailed     = "Failed"
	newsHookFailed = "HookFailed"
	newsBlocked    = "Blocked"
	newsUnblocked  = "Unblocked"
	newsRemoved    = "Removed"
	newsReady      = "Ready"
	newsNotReady   = "NotReady"
	ExternalEdit   = "ForeignEdit"
)

var warnings = map[string]bool{newsFailed: true, newsHookFailed: true, newsNotReady: true, ExternalEdit: true}

func (d *Recorder) Add(k appcontext.PairKey, reason, text string, rev int64) {
	if d.topics == nil {
		d.topics = map[topic]*topicSummary{}
	}
	at := topic{k.UID, k.App, reason}
	t := d.topics[at]
	if t == nil {
		t = &topicSummary{}
		d.topics[at] = t
	}
	if t.n++; t.n == 1 || k.Cluster < t.cluster {
		t.cluster, t.text = k.Cluster, text
	}
	t.rev = max(t.rev, rev)
}

// pairChanged notes what a change of a pair is to people.
func (d *Recorder) PairChanged(old, p appcontext.Pair) {
	switch {
	case p.Phase == appcontext.Applied && (old.Phase != appcontext.Applied || old.Applied != p.Applied):
		d.Add(p.Key, newsApplied, p.Commit, p.Rev)
	case p.Halted && !old.Halted:
		d.Add(p.Key, newsHookFailed, p.Error, p.Rev)
	case p.Error != "" && p.Error != old.Error:
		d.Add(p.Key, newsFailed, p.Error, p.Rev)
	case pair.AtGate(p) && !pair.AtGate(old):
		d.Add(p.Key, newsBlocked, p.Blocked, p.Rev)
	case pair.AtGate(old) && pair.Deliverable(p) && old.Rev == p.Rev:
		d.Add(p.Key, newsUnblocked, "", p.Rev)
	}
}

func (d *Recorder) PairRemoved(k appcontext.PairKey) { d.Add(k, newsRemoved, "", 0) }

// readinessChanged notes that a pair became ready, or is not any more what it was.
func (d *Recorder) ReadinessChanged(k appcontext.PairKey, ready, fell bool, why string) {
	switch {
	case ready:
		d.Add(k, newsReady, "", 0)
	case fell:
		d.Add(k, newsNotReady, why, 0)
	}
}

func (t *topicSummary) event(at topic) appcontext.Event {
	e := appcontext.Event{Type: appcontext.Normal, Reason: at.reason, App: at.app, Rev: t.rev}
	if warnings[at.reason] {
		e.Type = appcontext.Warning
	}
	if t.n == 1 && at.reason != newsReady {
		e.Cluster = t.cluster
	}
	e.Message = "app " + at.app + t.message(at.reason)
	return e
}

func (t *topicSummary) message(reason string) string {
	where := fmt.Sprintf("%d clusters", t.n)
	if t.n == 1 {
		where = t.cluster
	}
	switch reason {
	case newsApplied:
		return " is on " + where + carriedBy(t.text)
	case newsRemoved:
		return " is gone from " + where
	case newsReady:
		return " is ready wherever it is to be"
	case newsUnblocked:
		return " goes on, on " + where
	}
	return " on " + t.cluster + ": " + strings.TrimSpace(t.text) + pair.AndMore(t.n-1)
}

// carriedBy names a commit, or the digest of what was published, shortened.
func carriedBy(commit string) string {
	if digest, published := strings.CutPrefix(commit, "sha256:"); published {
		return ", published as sha256:" + digest[:min(len(digest), 12)]
	}
	if commit == "" {
		return ""
	}
	return ", with commit " + commit[:min(len(commit), 12)]
}

// drain returns what was collected as events, at most maxEvents of them, and forgets it.
// headOf returns the head that a deployment belongs to; what belongs to none is dropped.
func (d *Recorder) Drain(headOf func(deployment string) string, allReady func(deployment, app string) bool) []appcontext.Event {
	lines := slices.SortedFunc(maps.Keys(d.topics), func(a, b topic) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.app, b.app), cmp.Compare(a.reason, b.reason))
	})
	var out []appcontext.Event
	for _, at := range lines {
		head := headOf(at.uid)
		if head == "" || len(out) == MaxPerBatch || at.reason == newsReady && !allReady(at.uid, at.app) {
			continue
		}
		e := d.topics[at].event(at)
		e.UID = head
		out = append(out, e)
	}
	d.topics = nil
	return out
}
