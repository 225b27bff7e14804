// Package events collects in memory what happens to the pairs of a deployment, one event for
// each app and kind of news however many clusters it concerns. It stores nothing: the shard
// drains the recorder and stores the events (Shard.writeEvents).
package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// MaxPerBatch bounds the events of one batch of changes.
const MaxPerBatch = 20

// Recorder collects events: one for each app and topic, however many clusters it concerns.
type Recorder struct{ topics map[topic]*topicSummary }

// topic is one kind of news about an app.
type topic struct {
	deployment  v2.DeploymentID
	app, reason string
}

// topicSummary is what happened under a topic.
type topicSummary struct {
	n       int
	cluster v2.ClusterKey // the first one, by name
	text    string        // of that one
	rev     int64
}

var warnings = map[string]bool{v2.EventReasonFailed: true, v2.EventReasonHookFailed: true, v2.EventReasonNotReady: true, v2.EventReasonExternalEdit: true}

// Add records an event about a pair.
func (r *Recorder) Add(k appcontext.PairKey, reason, text string, rev int64) {
	if r.topics == nil {
		r.topics = map[topic]*topicSummary{}
	}
	at := topic{k.Deployment, k.App, reason}
	t := r.topics[at]
	if t == nil {
		t = &topicSummary{}
		r.topics[at] = t
	}
	if t.n++; t.n == 1 || k.Cluster < t.cluster {
		t.cluster, t.text = k.Cluster, text
	}
	t.rev = max(t.rev, rev)
}

// PairChanged records what a change of a pair means to people.
func (r *Recorder) PairChanged(old, p appcontext.Pair) {
	switch {
	case p.Phase == appcontext.Applied && (old.Phase != appcontext.Applied || old.Applied != p.Applied):
		r.Add(p.Key, v2.EventReasonApplied, p.Commit, p.Rev)
	case p.Halted && !old.Halted:
		r.Add(p.Key, v2.EventReasonHookFailed, p.Error, p.Rev)
	case p.Error != "" && p.Error != old.Error:
		r.Add(p.Key, v2.EventReasonFailed, p.Error, p.Rev)
	case pair.AtGate(p) && (!pair.AtGate(old) || awaitsPromotion(p) && !awaitsPromotion(old)):
		r.Add(p.Key, v2.EventReasonBlocked, p.Blocked, p.Rev)
	case pair.AtGate(old) && pair.Deliverable(p) && old.Rev == p.Rev:
		r.Add(p.Key, v2.EventReasonUnblocked, "", p.Rev)
	}
}

// awaitsPromotion reports whether a pair waits for a person, who must learn of it.
func awaitsPromotion(p appcontext.Pair) bool {
	return strings.HasPrefix(p.Blocked, pair.AwaitsPromotion)
}

// PairRemoved records that a pair is gone from its cluster.
func (r *Recorder) PairRemoved(k appcontext.PairKey) { r.Add(k, v2.EventReasonRemoved, "", 0) }

// ReadinessChanged records that a pair became ready, or lost what made it ready.
func (r *Recorder) ReadinessChanged(k appcontext.PairKey, isReady, fell bool, why string) {
	switch {
	case isReady:
		r.Add(k, v2.EventReasonReady, "", 0)
	case fell:
		r.Add(k, v2.EventReasonNotReady, why, 0)
	}
}

func (t *topicSummary) event(at topic) appcontext.Event {
	e := appcontext.Event{Type: appcontext.Normal, Reason: at.reason, App: at.app, Rev: t.rev}
	if warnings[at.reason] {
		e.Type = appcontext.Warning
	}
	if t.n == 1 && at.reason != v2.EventReasonReady {
		e.Cluster = t.cluster
	}
	e.Message = "app " + at.app + t.message(at.reason)
	return e
}

func (t *topicSummary) message(reason string) string {
	where := fmt.Sprintf("%d clusters", t.n)
	if t.n == 1 {
		where = string(t.cluster)
	}
	switch reason {
	case v2.EventReasonApplied:
		return " is on " + where + carriedBy(t.text)
	case v2.EventReasonRemoved:
		return " is gone from " + where
	case v2.EventReasonReady:
		return " is ready on all its clusters"
	case v2.EventReasonUnblocked:
		return " goes on, on " + where
	}
	return " on " + string(t.cluster) + pair.AndMore(t.n-1) + ": " + strings.TrimSpace(t.text)
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

// Drain returns what was recorded as events, at most MaxPerBatch, and forgets it. headOf
// returns the head that a deployment belongs to; events without a head are dropped.
func (r *Recorder) Drain(headOf func(deployment v2.DeploymentID) appcontext.HeadID, allReady func(deployment v2.DeploymentID, app string) bool) []appcontext.Event {
	lines := slices.SortedFunc(maps.Keys(r.topics), func(a, b topic) int {
		return cmp.Or(cmp.Compare(a.deployment, b.deployment), cmp.Compare(a.app, b.app), cmp.Compare(a.reason, b.reason))
	})
	var out []appcontext.Event
	for _, at := range lines {
		head := headOf(at.deployment)
		if head == "" || len(out) == MaxPerBatch || at.reason == v2.EventReasonReady && !allReady(at.deployment, at.app) {
			continue
		}
		e := r.topics[at].event(at)
		e.UID = head
		out = append(out, e)
	}
	r.topics = nil
	return out
}
