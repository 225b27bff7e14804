package statusview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// Reasons that several conditions share.
const (
	reasonPending     = "Pending"
	reasonMaking      = "RevisionPending"
	reasonHooks       = "HooksPending"
	reasonFailed      = "Failed"
	reasonRetrying    = "Retrying"
	reasonBlocked     = "Blocked"
	reasonNotReady    = "NotReady"
	reasonNotReported = "NotReported"
	reasonSilent      = "Silent"
	reasonUnknown     = "NotTold"
	reasonReconciling = "Reconciling"
	reasonOperation   = "OperationFailed"
)

// ranks orders reasons, the worst first: messages name the worst problem.
var ranks = map[string]int{
	reasonFailed: 1, reasonRetrying: 2, reasonNotReady: 3, reasonBlocked: 4, reasonPending: 5,
	reasonReconciling: 6, reasonSilent: 7, reasonNotReported: 8, reasonUnknown: 9,
}

// conditions returns the deployment's conditions, and sets those of the apps in parts, which
// have passed the filters. Filters do not affect conditions. All times are recorded ones.
func (v *statusView) conditions(parts []appPart) []v2.Condition {
	all := map[string][]v2.Condition{} // by type, one of each app
	for _, a := range v.apps {
		own := v.ofApp(a)
		for _, c := range own {
			all[c.Type] = append(all[c.Type], c)
		}
		if len(parts) > 0 && parts[0].status.Name == a.Name {
			parts[0].status.Conditions, parts = own, parts[1:]
		}
	}
	var out []v2.Condition
	for _, kind := range []string{v2.Placed, v2.Rendered, v2.Committed, v2.Synced, v2.Healthy, v2.Stalled} {
		if c := v.ofHead(v.combine(kind, all[kind])); c.Status != "" {
			out = append(out, c)
		}
	}
	return out
}

// combine merges the apps' conditions of a type into one, without a status if there are none.
func (v *statusView) combine(kind string, of []v2.Condition) v2.Condition {
	bad := map[bool]string{true: v2.True, false: v2.False}[kind == v2.Stalled]
	severity := map[string]int{bad: 2, v2.Unknown: 1}
	out := v2.Condition{Type: kind}
	name, n := "", 0
	for i, c := range of {
		switch d := severity[c.Status] - severity[out.Status]; {
		case i == 0 || d > 0:
			out, name, n = c, v.apps[i].Name, 1
		case d == 0:
			out.Since = v.combinedSince(severity[c.Status] > 0, out.Since, c.Since)
			n++
		}
	}
	switch {
	case severity[out.Status] == 0:
		out.Message = ""
	case out.Message != "":
		out.Message = others("app "+name+": "+out.Message, n-1, "app")
	default:
		out.Message = others("app "+name, n-1, "app")
	}
	return out
}

// combinedSince merges the times of two conditions with equal status: a deployment is bad
// since its first app is, and good since its last app is.
func (v *statusView) combinedSince(bad bool, a, b time.Time) time.Time {
	if bad {
		return earlier(a, b)
	}
	return later(a, b)
}

// earlier returns the earlier time; zero times count as unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later time; zero if either is unknown.
func later(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return time.Time{}
	}
	if b.After(a) {
		return b
	}
	return a
}

// ofHead replaces an apps' condition by that of the deployment as a whole, if it has one. A condition that no app has comes
// without a status.
func (v *statusView) ofHead(c v2.Condition) v2.Condition {
	switch c.Type {
	case v2.Placed, v2.Rendered:
		if v.operationFailed() {
			return v2.Condition{Type: c.Type, Status: v2.False, Reason: reasonOperation, Message: v.Head.Failure}
		}
	case v2.Synced:
		if c.Status == v2.True && !v.Head.Gone && len(v.left) > 0 {
			return v.leftUnsynced()
		}
	case v2.Stalled:
		return v.stalledAsWhole(c)
	}
	return c
}

// operationFailed reports whether the last action failed as a whole, and no other was accepted since.
func (v *statusView) operationFailed() bool { return v.Head.Op == nil && v.Head.Failure != "" }

// stalledAsWhole is ofHead for Stalled.
func (v *statusView) stalledAsWhole(c v2.Condition) v2.Condition {
	if v.Head.Stopped {
		return v2.Condition{Type: v2.Stalled, Status: v2.True, Reason: "Stopped", Message: "a user stopped it", Since: v.lastAction}
	}
	if r := v.failedHook(); r != nil {
		name, _ := r.Name.Intent()
		return v2.Condition{
			Type: v2.Stalled, Status: v2.True, Reason: "HookFailed", Since: r.Since,
			Message: fmt.Sprintf("hook %s (%s): %s; %s", name, r.Hook, r.Message, strings.Join(workflow.Actions(*r, &v.Head), ", ")+" it"),
		}
	}
	if v.operationFailed() {
		return v2.Condition{Type: v2.Stalled, Status: v2.True, Reason: reasonOperation, Message: v.Head.Failure}
	}
	if c.Status == v2.False {
		return v.leftStalled(c)
	}
	return c
}

// leftUnsynced returns Synced while something that an update removed is left.
func (v *statusView) leftUnsynced() v2.Condition {
	t := problemTally{}
	for _, p := range v.left {
		t.add(1, reasonOf(p), pairName(p), p.Error)
	}
	return t.condition(v2.Synced, v2.False, v.Rev.At, "to be removed")
}

// failedHook returns the first hook that a user must decide about; nil if there is none.
func (v *statusView) failedHook() *appcontext.WorkflowRun {
	for i, r := range v.runs {
		if r.Hook != "" && workflow.Undecided(r) && workflow.Wanted(r, &v.Head) {
			return &v.runs[i]
		}
	}
	return nil
}

// hooks returns the last run of each hook, in order of type and name.
func (v *statusView) hooks() (out []v2.WorkflowStatus) {
	for _, r := range v.runs {
		if r.Hook != "" {
			out = append(out, workflow.Status(r, &v.Head))
		}
	}
	slices.SortStableFunc(out, func(a, b v2.WorkflowStatus) int { return cmp.Compare(a.HookType, b.HookType) })
	return out
}

// leftStalled returns Stalled if something cannot be removed.
func (v *statusView) leftStalled(c v2.Condition) v2.Condition {
	t := problemTally{}
	for _, p := range v.left {
		if removalFailed(p) {
			t.add(1, reasonFailed, pairName(p), p.Error)
			t.since = earlier(t.since, p.At)
		}
	}
	if t.n == 0 {
		return c
	}
	return t.condition(v2.Stalled, v2.True, t.since, "to be removed")
}

func pairName(p appcontext.Pair) string { return "app " + p.Key.App + " on " + string(p.Key.Cluster) }

// ofApp returns the conditions of one app.
func (v *statusView) ofApp(a appPlaces) []v2.Condition {
	if v.Head.Gone && v.Head.Op == nil {
		return v.removal(a)
	}
	out := []v2.Condition{v.placed(a), v.rendered(a), v.committed(a), v.synced(a)}
	if op := v.Head.Op; op != nil { // the next revision is not known yet, and the previous one is no longer desired
		reason, message := reasonMaking, fmt.Sprintf("revision %d is being made", op.Rev)
		if op.Hooks {
			reason, message = reasonHooks, op.Kind+" waits for the hooks before it"
		}
		for i := range out {
			out[i] = v2.Condition{Type: out[i].Type, Status: v2.Unknown, Reason: reason, Message: message, Since: op.At}
		}
	}
	return append(out, v.healthy(a), v.stalled(a))
}

func (v *statusView) placed(a appPlaces) v2.Condition {
	out := v2.Condition{Type: v2.Placed, Status: v2.True, Reason: "Placed", Since: v.Rev.At}
	switch {
	case a.Failure != nil && a.Failure.Stage == "placement":
		out.Status, out.Reason, out.Message = v2.False, "PlacementFailed", a.Failure.Reason
	case len(a.desired) > 0:
		out.Message = counted(len(a.desired), "cluster")
	case a.Failure == nil:
		out.Status, out.Reason, out.Message = v2.False, "NoCluster", "no cluster was found for it"
	}
	return out
}

func (v *statusView) rendered(a appPlaces) v2.Condition {
	out := v2.Condition{Type: v2.Rendered, Status: v2.True, Reason: "Rendered", Since: v.Rev.At}
	switch f := a.Failure; {
	case f == nil:
	case f.Stage == "placement":
		out.Status, out.Reason, out.Message = v2.Unknown, "NotTried", "no cluster needs it rendered"
	default:
		out.Status, out.Reason, out.Message = v2.False, "RenderingFailed", f.Reason
		if f.File != "" {
			out.Message = f.File + ": " + f.Reason
		}
	}
	return out
}

// committed covers what is delivered through Git: pairs that have commits.
func (v *statusView) committed(a appPlaces) v2.Condition {
	var late, open problemTally
	commits, since := 0, v.Rev.At
	for _, p := range a.places {
		applied, git := p.state == string(appcontext.Applied), p.pair != nil && p.pair.Commit != ""
		switch {
		case applied && git:
			commits += p.n
			since = later(since, p.pair.At)
		case applied:
		case git:
			late.add(v.why(p))
		default:
			open.add(v.why(p))
		}
	}
	switch {
	case late.n > 0:
		return late.condition(v2.Committed, v2.False, v.Rev.At, "cluster")
	case open.n > 0:
		return open.condition(v2.Committed, v2.Unknown, v.Rev.At, "cluster")
	case commits == 0:
		return v2.Condition{Type: v2.Committed, Status: v2.True, Reason: "NotNeeded", Message: "nothing is delivered through Git", Since: v.Rev.At}
	}
	return v2.Condition{Type: v2.Committed, Status: v2.True, Reason: "Committed", Message: "for " + counted(commits, "cluster"), Since: since}
}

// synced reports what was applied, by the API server's answer or the reconciler's report.
func (v *statusView) synced(a appPlaces) v2.Condition {
	var not, open problemTally
	since := v.Rev.At
	for _, p := range a.places {
		w := p.reading
		switch {
		case p.state != string(appcontext.Applied):
			not.add(v.why(p))
		case p.pair.Commit == "":
			since = later(since, p.pair.At)
		case w.report == nil:
			open.add(p.n, reasonNotReported, string(p.cluster), "it has not reported")
		case w.stale:
			open.add(p.n, reasonSilent, string(p.cluster), w.silentSince())
		case w.report.Commit == revisionID(p.pair.Commit), p.ready.verdict.held:
			since = later(since, w.report.Since)
		case p.ready.verdict.unknown.n > 0:
			open.add(p.n, reasonUnknown, string(p.cluster), p.ready.verdict.unknown.first)
		default:
			not.add(p.n, reasonReconciling, string(p.cluster), "its reconciler has not applied it yet")
		}
	}
	switch {
	case not.n > 0:
		return not.condition(v2.Synced, v2.False, v.Rev.At, "cluster")
	case open.n > 0:
		return open.condition(v2.Synced, v2.Unknown, v.Rev.At, "cluster")
	}
	return v2.Condition{Type: v2.Synced, Status: v2.True, Reason: "Synced", Since: since}
}

// revisionID returns the id in a commit or in the digest of an artifact ("sha256:…"): agents report the bare id.
func revisionID(delivered string) string { return strings.TrimPrefix(delivered, "sha256:") }

// healthy returns the reported health of the objects.
func (v *statusView) healthy(a appPlaces) v2.Condition {
	var bad, open problemTally
	since := v.Rev.At
	for _, p := range a.places {
		w := p.reading
		if w.report == nil {
			open.add(p.n, reasonNotReported, string(p.cluster), "it has not reported")
			continue
		}
		d := p.ready.verdict
		d.addExtras(w)
		switch {
		case w.stale:
			open.add(p.n, reasonSilent, string(p.cluster), w.silentSince())
			open.since = earlier(open.since, w.at.Add(v.reader.options.Stale))
		case d.bad.n > 0:
			bad.add(p.n, reasonNotReady, string(p.cluster), d.bad.first)
			if !w.report.Ready {
				bad.since = earlier(bad.since, w.report.Since)
			}
		case d.unknown.n > 0:
			open.add(p.n, reasonUnknown, string(p.cluster), d.unknown.first)
		default:
			since = later(since, w.report.Since)
		}
	}
	switch {
	case bad.n > 0:
		return bad.condition(v2.Healthy, v2.False, bad.since, "cluster")
	case open.n > 0:
		return open.condition(v2.Healthy, v2.Unknown, open.since, "cluster")
	case len(a.places) == 0:
		return v2.Condition{Type: v2.Healthy, Status: v2.Unknown, Reason: "NotPlaced", Message: "it is on no cluster"}
	}
	return v2.Condition{Type: v2.Healthy, Status: v2.True, Reason: "Ready", Since: since}
}

// stalled reports problems that a user must solve. Pairs that failed pair.MaxAttempts times count, although a server may be
// the cause: a pair does not hold the kind of its error.
func (v *statusView) stalled(a appPlaces) v2.Condition {
	if a.Failure != nil && v.Head.Op == nil {
		return v2.Condition{Type: v2.Stalled, Status: v2.True, Reason: "AppFailed", Message: a.Failure.Stage + " failed: " + a.Failure.Reason, Since: v.Rev.At}
	}
	failed, moving := problemTally{}, false
	for _, p := range a.places {
		moving = moving || p.state != string(appcontext.Applied)
		if p.pair != nil && !v.outdated(p) && (p.pair.Phase == appcontext.Failed || p.pair.Halted) {
			failed.add(p.n, cmp.Or(p.pair.Reason, reasonFailed), string(p.cluster), p.pair.Error)
			failed.since = earlier(failed.since, p.pair.At)
		}
	}
	switch {
	case failed.n > 0:
		return failed.condition(v2.Stalled, v2.True, failed.since, "cluster")
	case moving:
		return v2.Condition{Type: v2.Stalled, Status: v2.False, Reason: "Progressing"}
	}
	return v2.Condition{Type: v2.Stalled, Status: v2.False, Reason: "Done"}
}

// removal returns the conditions of an app of a terminated deployment.
func (v *statusView) removal(a appPlaces) []v2.Condition {
	var rest, failed problemTally
	for _, p := range v.left {
		if p.Key.App != a.Name {
			continue
		}
		rest.add(1, reasonOf(p), string(p.Key.Cluster), cmp.Or(p.Error, p.Blocked, p.Waiting))
		if removalFailed(p) {
			failed.add(1, cmp.Or(p.Reason, reasonFailed), string(p.Key.Cluster), p.Error)
			failed.since = earlier(failed.since, p.At)
		}
	}
	synced := v2.Condition{Type: v2.Synced, Status: v2.True, Reason: "Removed"}
	if rest.n > 0 {
		synced = rest.condition(v2.Synced, v2.False, v.lastAction, "cluster")
	}
	stalled := v2.Condition{Type: v2.Stalled, Status: v2.False, Reason: "Done"}
	switch {
	case failed.n > 0:
		stalled = failed.condition(v2.Stalled, v2.True, failed.since, "cluster")
	case rest.n > 0:
		stalled.Reason = "Progressing"
	}
	return []v2.Condition{synced, stalled}
}

// why returns the reason why a place is not Applied, and for how many that holds.
func (v *statusView) why(p placeStatus) (n int, reason, where, why string) {
	if p.pair == nil || v.outdated(p) {
		return p.n, reasonPending, string(p.cluster), ""
	}
	return p.n, reasonOf(*p.pair), string(p.cluster), cmp.Or(p.pair.Error, p.pair.Blocked, p.pair.Waiting)
}

func reasonOf(p appcontext.Pair) string {
	switch {
	case p.Phase == appcontext.Failed || p.Halted:
		return cmp.Or(p.Reason, reasonFailed)
	case p.Phase == appcontext.Retrying:
		return cmp.Or(p.Reason, reasonRetrying)
	case p.Blocked != "":
		return reasonBlocked
	}
	return reasonPending
}

// problemTally counts problems and keeps the first one with the worst reason.
type problemTally struct {
	n      int
	reason string
	first  string
	since  time.Time
}

// add counts a problem of n places; where is the first.
func (t *problemTally) add(n int, reason, where, why string) {
	t.n += n
	if t.n > n && ranks[reason] >= ranks[t.reason] {
		return
	}
	t.reason, t.first = reason, where
	if why != "" {
		t.first += ": " + why
	}
}

// condition names the kept problem and counts the others.
func (t *problemTally) condition(kind, status string, since time.Time, what string) v2.Condition {
	return v2.Condition{Type: kind, Status: status, Reason: t.reason, Message: others(t.first, t.n-1, what), Since: since}
}

func others(first string, n int, what string) string {
	switch {
	case n <= 0:
		return first
	case what == "to be removed":
		return fmt.Sprintf("%s (and %d more to be removed)", first, n)
	}
	return fmt.Sprintf("%s (and %s)", first, counted(n, "other "+what))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
