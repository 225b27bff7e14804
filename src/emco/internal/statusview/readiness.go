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

// identity names an object without its version, which clusters may convert.
type identity struct{ group, kind, namespace, name string }

func identityOf(id manifest.ID) identity { return identity{id.Group, id.Kind, id.Namespace, id.Name} }

// Why the readiness of an object is not what the cluster's word alone would make it.
const (
	noReport        = "the cluster has not reported; clusters that pull from Git report when they run the monitor"
	truncatedReport = "the cluster's report was too long to hold it"
	outOfDate       = "still runs the version before"
	otherContent    = "it has other content now"
)

// reading is what a cluster says of one app: nothing, something, or something so long ago
// that it cannot be believed any more.
type reading struct {
	report *mirror.Report
	at     time.Time // when that was last said
	stale  bool
}

// readingOf judges the age of a report, said or confirmed at some time. Clusters that are
// watched directly are not judged by it: they say themselves when they are lost, and are
// silent when nothing changes.
func (r *Reader) readingOf(report *mirror.Report, at, now time.Time) reading {
	return reading{report, at, report != nil && report.Seq > 0 && now.Sub(at) > r.options.Stale}
}

// expires is when the word will be too old; zero if never, or if it is already.
func (r *Reader) expires(w reading) time.Time {
	if w.report == nil || w.report.Seq == 0 || w.stale {
		return time.Time{}
	}
	return w.at.Add(r.options.Stale)
}

// silentSince is how a word that is too old begins.
func (w reading) silentSince() string { return "no word since " + w.at.UTC().Format(time.RFC3339) }

// lost reports whether the cluster is known to be out of sight: too long silent, or it
// says so of every object.
func (w reading) lost() bool {
	return w.stale || len(w.report.Objects) > 0 && !slices.ContainsFunc(w.report.Objects, func(s mirror.Status) bool {
		return s.Value().Status != v2.Unknown
	})
}

// objectsByKey indexes what the cluster says of the objects of bundles.
func (w reading) objectsByKey() map[identity]appcontext.ResourceStatus {
	out := make(map[identity]appcontext.ResourceStatus, len(w.report.Objects))
	for _, h := range w.report.Objects {
		s := h.Value()
		out[identityOf(s.ID)] = s
	}
	return out
}

// readiness is EMCO's word for an object, of which exactly the content that ref has must
// be there. past says that other content is to be expected.
func (w reading) readiness(said map[identity]appcontext.ResourceStatus, ref appcontext.Ref, past bool) objectState {
	if w.report == nil {
		return objectState{state: v2.Unknown, reason: noReport}
	}
	s, there := said[identityOf(ref.ID)]
	out := objectState{state: readyStatusOf(s.Status), reason: s.Reason, held: ref.Stamp != "" && s.Content == ref.Stamp}
	switch {
	case !there && w.report.Truncated > 0:
		return objectState{state: v2.Unknown, reason: truncatedReport}
	case !there:
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

// aged makes what was said too long ago unknown, and keeps what it was.
func (w reading) aged(o objectState) objectState {
	if !w.stale || o.state == v2.Unknown {
		return o
	}
	return objectState{state: v2.Unknown, reason: w.silentSince() + "; was " + o.state}
}

// readyStatusOf translates kstatus into EMCO's words.
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

// healthVerdict is what a cluster's word comes to, for all objects that must be there.
type healthVerdict struct {
	bad, unknown problemTally
	held         bool // the cluster says that it holds all of it, in that content
}

func (w reading) verdict(said map[identity]appcontext.ResourceStatus, refs []appcontext.Ref) healthVerdict {
	out := healthVerdict{held: w.report != nil}
	for _, ref := range refs {
		o := w.readiness(said, ref, false)
		out.count(ref.ID, o)
		out.held = out.held && o.held
	}
	return out
}

// addExtras adds what the cluster has besides what was rendered.
func (d *healthVerdict) addExtras(w reading) {
	for _, h := range w.report.Extras {
		s := h.Value()
		if o := w.aged(objectState{state: readyStatusOf(s.Status), reason: s.Reason}); o.state != v2.NotPresent {
			d.count(s.ID, o)
		}
	}
}

func (d *healthVerdict) count(id manifest.ID, o objectState) {
	where, why := id.Kind+" "+id.Name, o.reason
	switch o.state {
	case v2.NotPresent:
		d.bad.add(reasonNotReady, where, cmp.Or(why, "is not there"))
	case v2.NotReady:
		d.bad.add(reasonNotReady, where, cmp.Or(why, "is not ready"))
	case v2.Unknown:
		d.unknown.add(reasonNotTold, where, why)
	}
}
