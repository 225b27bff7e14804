package statusview

import (
	"cmp"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Reasons for a readiness that differs from the status that the cluster reports.
const (
	noReport        = "the cluster has not reported; clusters that pull from Git report when they run the monitor"
	truncatedReport = "the cluster's report was too long to include it"
	outOfDate       = "still runs the previous version"
	otherContent    = "it now has other content"
)

// clusterReading is what a cluster reports of one app: nothing, a report, or a report that is too
// old to be trusted.
type clusterReading struct {
	report *mirror.Report // nil: none
	at     time.Time      // when the cluster last sent or confirmed the report
	stale  bool
}

// readingOf checks the age of a report that was sent or confirmed at some time. Reports of
// clusters that are watched directly do not age: the watch reports when it is lost, and
// sends nothing while nothing changes.
func (r *Reader) readingOf(report *mirror.Report, at, now time.Time) clusterReading {
	return clusterReading{report, at, report != nil && report.Seq > 0 && now.Sub(at) > r.options.Stale}
}

// expires returns when the reading becomes stale; zero if it never does or already is.
func (r *Reader) expires(w clusterReading) time.Time {
	if w.report == nil || w.report.Seq == 0 || w.stale {
		return time.Time{}
	}
	return w.at.Add(r.options.Stale)
}

// silentSince begins the message about a stale reading.
func (w clusterReading) silentSince() string {
	return "no report since " + w.at.UTC().Format(time.RFC3339)
}

// lost reports whether the cluster is known to be unreachable: its report is stale, or all of
// its objects are Unknown.
func (w clusterReading) lost() bool {
	return w.stale || len(w.report.Objects) > 0 && !slices.ContainsFunc(w.report.Objects, func(s mirror.Status) bool {
		return s.Value().Status != v2.Unknown
	})
}

// unanswered reports whether the reading comes from a watch that the cluster has never answered:
// nothing is known of any object.
func (w clusterReading) unanswered() bool {
	return w.report.Seq == 0 && w.report.Truncated == 0 && !slices.ContainsFunc(w.report.Objects, func(s mirror.Status) bool {
		v := s.Value()
		return v.Status != v2.Unknown || v.Content != ""
	}) && len(w.report.Objects) > 0
}

// objectsByKey indexes the reported objects.
func (w clusterReading) objectsByKey() map[manifest.ObjectKey]appcontext.ResourceStatus {
	out := make(map[manifest.ObjectKey]appcontext.ResourceStatus, len(w.report.Objects))
	for _, h := range w.report.Objects {
		s := h.Value()
		out[s.ID.Key()] = s
	}
	return out
}

// readiness returns upstream's status of an object, which must have exactly the content of ref.
// If past is set, other content is no failure.
func (w clusterReading) readiness(reported map[manifest.ObjectKey]appcontext.ResourceStatus, ref appcontext.Ref, past bool) objectState {
	if w.report == nil {
		return objectState{state: v2.Unknown, reason: noReport, absent: true}
	}
	s, found := reported[ref.ID.Key()]
	out := objectState{state: readyStatusOf(s.Status), reason: s.Reason, held: ref.Stamp != "" && s.Content == ref.Stamp}
	out.absent = out.state == v2.Unknown && w.report.Seq == 0 && s.Content == "" // the watch ended before it saw the object
	switch {
	case !found && w.report.Truncated > 0:
		return objectState{state: v2.Unknown, reason: truncatedReport}
	case !found:
		out.state = v2.NotPresent
	case out.state == v2.NotPresent, out.state == v2.Unknown, ref.Stamp == "", s.Content == ref.Stamp:
	case past:
		out = objectState{state: v2.NotPresent, reason: otherContent}
	default:
		out = objectState{state: v2.NotReady, reason: outOfDate}
		if s.Reason != "" {
			out.reason += ": " + s.Reason
		}
	}
	return w.aged(out)
}

// aged replaces a state from a stale reading by Unknown, and names the old state.
func (w clusterReading) aged(o objectState) objectState {
	if !w.stale || o.state == v2.Unknown {
		return o
	}
	return objectState{state: v2.Unknown, reason: w.silentSince() + "; was " + o.state, absent: o.state == v2.NotPresent}
}

// readyStatusOf translates a kstatus to upstream's status.
func readyStatusOf(status string) string {
	switch status {
	case "Current":
		return v2.Ready
	case "NotFound":
		return v2.NotPresent
	case v2.Unknown:
		return v2.Unknown
	}
	return v2.NotReady
}

// healthVerdict sums up a reading over all objects that must exist.
type healthVerdict struct {
	bad, unknown problemTally
	held         bool // the cluster reports every object, with the desired content
}

func (w clusterReading) verdict(reported map[manifest.ObjectKey]appcontext.ResourceStatus, refs []appcontext.Ref) healthVerdict {
	out := healthVerdict{held: w.report != nil}
	for _, ref := range refs {
		o := w.readiness(reported, ref, false)
		out.count(ref.ID, o)
		out.held = out.held && o.held
	}
	return out
}

// addExtras counts the objects that the cluster has in addition to the rendered ones.
func (d *healthVerdict) addExtras(w clusterReading) {
	for _, h := range w.report.Extras {
		s := h.Value()
		if o := w.aged(objectState{state: readyStatusOf(s.Status), reason: s.Reason}); o.state != v2.NotPresent {
			d.count(s.ID, o)
		}
	}
}

func (d *healthVerdict) count(id manifest.ID, o objectState) {
	switch o.state {
	case v2.NotPresent:
		d.bad.add(1, reasonNotReady, id.Kind+" "+id.Name, cmp.Or(o.reason, "does not exist"))
	case v2.NotReady:
		d.bad.add(1, reasonNotReady, id.Kind+" "+id.Name, cmp.Or(o.reason, "is not ready"))
	case v2.Unknown:
		d.unknown.add(1, reasonUnknown, id.Kind+" "+id.Name, o.reason)
	}
}
