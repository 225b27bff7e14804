package rsync

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// maxEvents bounds what is told of one batch of changes.
const maxEvents = 20

// diary collects what is worth telling of deployments, one line for each app and sort of
// news however many clusters it is about.
type diary struct{ lines map[line]*tally }

// line is one sort of news of an app.
type line struct{ uid, app, reason string }

// tally is what a line is about.
type tally struct {
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
	newsForeign    = "ForeignEdit"
)

var warnings = map[string]bool{newsFailed: true, newsHookFailed: true, newsNotReady: true, newsForeign: true}

func (d *diary) add(k appcontext.PairKey, reason, text string, rev int64) {
	if d.lines == nil {
		d.lines = map[line]*tally{}
	}
	at := line{k.UID, k.App, reason}
	t := d.lines[at]
	if t == nil {
		t = &tally{}
		d.lines[at] = t
	}
	if t.n++; t.n == 1 || k.Cluster < t.cluster {
		t.cluster, t.text = k.Cluster, text
	}
	t.rev = max(t.rev, rev)
}

// changed notes what a change of a pair is to people.
func (d *diary) changed(old, p appcontext.Pair) {
	switch {
	case p.Phase == appcontext.Applied && (old.Phase != appcontext.Applied || old.Applied != p.Applied):
		d.add(p.Key, newsApplied, p.Commit, p.Rev)
	case p.Halted && !old.Halted:
		d.add(p.Key, newsHookFailed, p.Error, p.Rev)
	case p.Error != "" && p.Error != old.Error:
		d.add(p.Key, newsFailed, p.Error, p.Rev)
	case gated(p) && !gated(old):
		d.add(p.Key, newsBlocked, p.Blocked, p.Rev)
	case gated(old) && open(p) && old.Rev == p.Rev:
		d.add(p.Key, newsUnblocked, "", p.Rev)
	}
}

func (d *diary) removed(k appcontext.PairKey) { d.add(k, newsRemoved, "", 0) }

// heard notes that a pair became ready, or is not any more what it was.
func (d *diary) heard(k appcontext.PairKey, h hearing) {
	switch {
	case h.ready:
		d.add(k, newsReady, "", 0)
	case h.fell:
		d.add(k, newsNotReady, h.why, 0)
	}
}

// news returns what was collected as events, at most maxEvents of them.
func (l *ledger) news(ctx context.Context) []appcontext.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.SortedFunc(maps.Keys(l.diary.lines), func(a, b line) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.app, b.app), cmp.Compare(a.reason, b.reason))
	})
	var out []appcontext.Event
	for _, at := range lines {
		head := l.heads[at.uid]
		if head == "" || len(out) == maxEvents || at.reason == newsReady && !l.allReady(ctx, at) {
			continue
		}
		e := l.diary.lines[at].event(at)
		e.UID = head
		out = append(out, e)
	}
	l.diary = diary{}
	return out
}

// allReady reports whether an app is ready wherever it is to be.
func (l *ledger) allReady(ctx context.Context, at line) bool {
	var keys []appcontext.PairKey
	for t := range l.targets[at.uid] {
		if p, there := l.pairs[t][at.app]; there && p.Desired != "" {
			keys = append(keys, p.Key)
		}
	}
	if err := l.reports.read(ctx, keys, false); err != nil {
		return false
	}
	for _, k := range keys {
		if !l.reports.of[k].ready {
			return false
		}
		l.reports.trim(k)
	}
	return l.readyAbroad(ctx, at)
}

// readyAbroad reports whether an app is ready wherever other shards have it.
func (l *ledger) readyAbroad(ctx context.Context, at line) bool {
	if l.elsewhere == nil {
		return true
	}
	snap, err := l.elsewhere.Snapshot(ctx, cmp.Or(l.heads[at.uid], at.uid))
	for place, e := range snap.Places {
		if place.App != at.app || e.Pair == nil || e.Pair.Shard == l.shard || e.Pair.Desired == "" {
			continue
		}
		if e.Pair.Phase != appcontext.Applied || e.Report == nil || !e.Report.Ready {
			return false
		}
	}
	return err == nil
}

func (t *tally) event(at line) appcontext.Event {
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

func (t *tally) message(reason string) string {
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
	return " on " + t.cluster + ": " + strings.TrimSpace(t.text) + others(t.n-1)
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
