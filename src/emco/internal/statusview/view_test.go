package statusview

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const c1 = "edge+c1"

func TestViews(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, two, before := s.configMap("one", "hello"), s.configMap("two", "hello"), s.configMap("two", "good-bye")
	bundle := s.bundle(one, two)
	applied := &appcontext.Pair{Rev: 1, Desired: bundle, Applied: bundle, Phase: appcontext.Applied}
	moved := objectStatus(two, "Current", "")
	moved.Version = "v2" // clusters may report another version of the same object
	current := objectStatus(one, "Current", "")
	reports := func(list ...appcontext.ResourceStatus) *appcontext.Report {
		return &appcontext.Report{Resources: list, Seq: 1}
	}
	failing := []appcontext.App{{Name: "a"}, {Name: "b", Failure: &appcontext.Failure{Stage: "rendering", File: "x.yaml:3", Reason: "why"}}}
	tests := []struct {
		name, query string
		apps        []appcontext.App
		pair        *appcontext.Pair
		report      *appcontext.Report
		gone        bool
		want        string
		sum         string // readyStatus
	}{
		{name: "no pair yet", query: "status=deployed", want: "Pending:2 a on c1: one Pending, two Pending"},
		{name: "applied", query: "status=deployed", pair: applied, want: "Applied:2 a on c1: one Applied, two Applied"},
		{name: "in the deprecated view", query: "", pair: applied, want: "Applied:2 a on c1: one Applied, two Applied"},
		{name: "failed", query: "status=deployed", pair: &appcontext.Pair{Rev: 1, Phase: appcontext.Failed}, want: "Failed:2 a on c1: one Failed, two Failed"},
		{name: "tried again", query: "status=deployed", pair: &appcontext.Pair{Rev: 1, Phase: appcontext.Retrying}, want: "Retrying:2 a on c1: one Retrying, two Retrying"},
		{name: "an app that is being removed still exists", query: "status=deployed", gone: true, pair: &appcontext.Pair{Rev: 1, Applied: bundle, Phase: appcontext.Deleting}, want: "Applied:2 a on c1: one Applied, two Applied"},
		{name: "what was never proved to be there is not Applied", query: "status=deployed", gone: true, pair: &appcontext.Pair{Rev: 1, Held: []appcontext.Digest{bundle}, Phase: appcontext.Deleting}, want: "Pending:2 a on c1: one Pending, two Pending"},
		{name: "removed", query: "status=deployed", gone: true, want: "Deleted:2 a on c1: one Deleted, two Deleted"},
		{name: "one resource", query: "status=deployed&resource=two", pair: applied, want: "Applied:1 a on c1: two Applied"},
		{name: "another cluster", query: "status=deployed&cluster=edge%2Bc2", pair: applied, want: ""},
		{name: "summary keeps the counts", query: "status=deployed&output=summary", pair: applied, want: "Applied:2"},

		{name: "no cluster has reported", query: "status=ready", pair: applied, want: "Unknown:2 a on c1: one Unknown, two Unknown", sum: "Unknown"},
		{name: "all is well", query: "status=ready", pair: applied, report: reports(current, moved), want: "Ready:2 a on c1: one Ready, two Ready", sum: "Ready"},
		{name: "all is well, asked for in the deprecated way", query: "type=cluster", pair: applied, report: reports(current, moved), want: "Ready:2 a on c1: one Ready, two Ready", sum: "Ready"},
		{name: "one is not there", query: "status=ready", pair: applied, report: reports(current), want: "NotPresent:1 Ready:1 a on c1: one Ready, two NotPresent", sum: "NotReady"},
		{name: "one is away", query: "status=ready", pair: applied, report: reports(current, objectStatus(two, "NotFound", "")), want: "NotPresent:1 Ready:1 a on c1: one Ready, two NotPresent", sum: "NotReady"},
		{name: "one was left out for its length", query: "status=ready", pair: applied, report: &appcontext.Report{Seq: 1, Truncated: 1, Resources: []appcontext.ResourceStatus{current}}, want: "Ready:1 Unknown:1 a on c1: one Ready, two Unknown", sum: "Unknown"},
		{name: "one is on its way", query: "status=ready", pair: applied, report: reports(objectStatus(one, "InProgress", "so"), moved), want: "NotReady:1 Ready:1 a on c1: one NotReady, two Ready", sum: "NotReady"},
		{name: "one failed", query: "status=ready", pair: applied, report: reports(objectStatus(one, "Failed", "so"), moved), want: "NotReady:1 Ready:1 a on c1: one NotReady, two Ready", sum: "NotReady"},
		{name: "one is unknown", query: "status=ready", pair: applied, report: reports(objectStatus(one, "Unknown", "so"), moved), want: "Ready:1 Unknown:1 a on c1: one Unknown, two Ready", sum: "Unknown"},
		{name: "one is ready in the content before", query: "status=ready", pair: applied, report: reports(current, objectStatus(before, "Current", "")), want: "NotReady:1 Ready:1 a on c1: one Ready, two NotReady", sum: "NotReady"},
		{name: "one is ready in unknown content", query: "status=ready", pair: applied, report: reports(current, appcontext.ResourceStatus{ID: two.ID, Status: "Current"}), want: "NotReady:1 Ready:1 a on c1: one Ready, two NotReady", sum: "NotReady"},
		{name: "nothing passes the filters", query: "status=ready&resource=x", pair: applied, sum: "Unknown"},
		{name: "another app could not be rendered", query: "status=ready", apps: failing, pair: applied, report: reports(current, moved), want: "Ready:2 a on c1: one Ready, two Ready", sum: "NotReady"},
		{name: "what the cluster made of it", query: "status=ready", pair: applied, report: reports(current, moved, pod("web-1", "Current"), pod("web-2", "InProgress"), pod("web-0", "NotFound")), want: "NotReady:1 Ready:3 a on c1: one Ready, two Ready, web-1 Ready, web-2 NotReady", sum: "NotReady"},
		{name: "what the cluster made is of no concern when it is deployed", query: "status=deployed", pair: applied, report: reports(pod("web-1", "Current")), want: "Applied:2 a on c1: one Applied, two Applied"},
		{name: "a Pod by name", query: "status=ready&resource=web-1", pair: applied, report: reports(current, moved, pod("web-1", "Current")), want: "Ready:1 a on c1: web-1 Ready", sum: "Ready"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
			g.publish(placedApps{"a": {c1: bundle}}, tt.apps...)
			if tt.gone {
				g.terminate()
			}
			if tt.pair != nil {
				g.pair("a", c1, *tt.pair)
			}
			if tt.report != nil {
				g.report("a", c1, *tt.report)
			}
			st := g.status(tt.query)
			if got := short(st); got != tt.want || st.ReadyStatus != tt.sum {
				t.Errorf("got  %s, readyStatus %q\nwant %s, readyStatus %q", got, st.ReadyStatus, tt.want, tt.sum)
			}
		})
	}
}

func pod(name, status string) appcontext.ResourceStatus {
	return appcontext.ResourceStatus{ID: manifest.ID{Version: "v1", Kind: "Pod", Namespace: "default", Name: name}, Status: status, Extra: true}
}

// Each view contains upstream's members.
func TestMembersOfAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, o := s.group("7"), s.configMap("one", "hello")
	b := s.bundle(o)
	g.publish(placedApps{"a": {c1: b}})
	g.applied("a", c1, b, "")
	g.report("a", c1, appcontext.Report{Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	identity := []string{"project", "compositeApp", "compositeAppVersion", "compositeProfile", "name", "states", "conditions"}
	for query, want := range map[string][]string{
		"":                                {"status", "rsyncStatus", "apps"},
		"type=cluster":                    {"status", "clusterStatus", "readyStatus", "apps"},
		"status=deployed":                 {"deployedStatus", "deployedCounts", "apps"},
		"status=ready":                    {"deployedStatus", "readyCounts", "readyStatus", "apps"},
		"status=deployed&output=summary":  {"deployedStatus", "deployedCounts"},
		"type=rsync&output=summary":       {"status", "rsyncStatus"},
		"status=deployed&cluster=e%2Bc":   {"deployedStatus"},
		"status=ready&type=rsync&app=a":   {"deployedStatus", "readyCounts", "readyStatus", "apps"},
		"status=ready&resource=not-there": {"deployedStatus", "readyStatus"},
	} {
		a, err := g.ask(query)
		s.must(err)
		text, err := a.JSON()
		s.must(err)
		members := map[string]json.RawMessage{}
		s.must(json.Unmarshal(text, &members))
		want = append(want, identity...)
		for name := range members {
			if !slices.Contains(want, name) {
				t.Errorf("%q: the answer has %s", query, name)
			}
		}
		for _, name := range want {
			if members[name] == nil {
				t.Errorf("%q: the answer has no %s", query, name)
			}
		}
	}
	legacy := g.status("type=cluster").Apps[0].Clusters[0]
	if legacy.ReadyStatus != "Available" || legacy.Connectivity != "" {
		t.Errorf("the deprecated view of a cluster: got %+v", legacy)
	}
}

func TestUnknownAppsAreNamed(t *testing.T) {
	t.Parallel()
	g := newStage(t).group("7")
	g.step(func(h *appcontext.Head) { h.LastRev, h.Op = 1, &appcontext.Operation{ID: "1", Rev: 1} }, appcontext.HistoryEntry{Instance: "7", Revision: 1, Time: noon})
	if st := g.status("status=deployed&app=b"); st.DeployedStatus != "Instantiating" { // who knows
		t.Errorf("before there is a revision: got %+v", st)
	}
	g.step(func(h *appcontext.Head) { h.Op, h.LastRev = nil, 0 })
	g.publish(placedApps{"a": {c1: g.bundle(g.configMap("one", "hello"))}})
	_, err := g.ask("app=a&app=b")
	if !errs.Is(err, errs.Invalid) || err.Error() != `Invalid app query: the deployment has no app "b"` {
		t.Errorf("got %v", err)
	}
}

func TestConnectivity(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.bundle(s.configMap("one", "hello"))
	pair := func(phase appcontext.Phase, commit string) *appcontext.Pair {
		return &appcontext.Pair{Rev: 1, Phase: phase, Commit: commit, Applied: b, Desired: b, Error: "why"}
	}
	lost := appcontext.ResourceStatus{ID: s.configMap("one", "hello").ID, Status: "Unknown", Reason: "no word"}
	for i, tt := range []struct {
		name     string
		pair     *appcontext.Pair
		report   *appcontext.Report
		want     string
		revision int64
	}{
		{"nothing is known", nil, nil, "Unknown", 0},
		{"in Git, and it does not report", pair(appcontext.Applied, "c0ffee"), nil, "Unknown", 1},
		{"in Git, and it reports", pair(appcontext.Applied, "c0ffee"), &appcontext.Report{Seq: 1}, "Available", 1},
		{"in Git, and it has not reported for long", pair(appcontext.Applied, "c0ffee"), &appcontext.Report{Seq: 1, At: morning}, "Unknown", 1},
		{"the cluster itself took it", pair(appcontext.Applied, ""), nil, "Available", 1},
		{"the watch is lost", pair(appcontext.Applied, ""), &appcontext.Report{Resources: []appcontext.ResourceStatus{lost}}, "Unknown", 1},
		{"a watched cluster without new reports", pair(appcontext.Applied, ""), &appcontext.Report{At: morning}, "Available", 1},
		{"it cannot be reached now", pair(appcontext.Retrying, ""), &appcontext.Report{}, "Retrying", 0},
		{"it refused", pair(appcontext.Failed, ""), nil, "Unknown", 0},
	} {
		g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
		g.publish(placedApps{"a": {c1: b}})
		if tt.pair != nil {
			g.pair("a", c1, *tt.pair)
		}
		if tt.report != nil {
			g.report("a", c1, *tt.report)
		}
		for _, view := range []string{"ready", "deployed"} {
			c := g.status("status=" + view).Apps[0].Clusters[0]
			if c.Connectivity != tt.want || c.Revision != tt.revision || c.Provider != "edge" || c.Cluster != "c1" {
				t.Errorf("%s, %s: got %+v, want %s and revision %d", tt.name, view, c, tt.want, tt.revision)
			}
		}
		if s := g.status("type=cluster").Apps[0].Clusters[0].ReadyStatus; s != tt.want {
			t.Errorf("%s: the deprecated view has %s", tt.name, s)
		}
	}
}

// The status of a cluster that is silent for too long is Unknown from then on; its last
// report is kept and marked. A late report counts from its arrival.
func TestH59StatusOfASilentAgentIsUnknownSince(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, o := s.group("7"), s.configMap("one", "hello")
	b := s.bundle(o)
	g.publish(placedApps{"a": {c1: b, "edge+c2": b}})
	last := noon.Add(-time.Minute)
	for _, c := range []v2.ClusterKey{c1, "edge+c2"} {
		g.applied("a", c, b, "c0ffee")
		g.report("a", c, appcontext.Report{Seq: 4, At: last, Commit: "c0ffee", Ready: true, Since: morning, Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	}
	a, err := g.ask("status=ready")
	s.must(err)
	if want := last.Add(3 * time.Minute); !a.Expires.Equal(want) {
		t.Errorf("the answer turns at %s, want %s", a.Expires, want)
	}
	s.at(a.Expires)
	if st := g.status("status=ready"); st.ReadyStatus != "Ready" || st.ReadyCounts["Ready"] != 2 {
		t.Errorf("when the time is just not over: got %s %v", st.ReadyStatus, st.ReadyCounts)
	}
	s.at(a.Expires.Add(time.Nanosecond))
	st := g.status("status=ready")
	if st.ReadyStatus != "Unknown" || !reflect.DeepEqual(st.ReadyCounts, map[string]int{"Unknown": 2}) {
		t.Errorf("when the time is over: got %s %v", st.ReadyStatus, st.ReadyCounts)
	}
	c := st.Apps[0].Clusters[0]
	if !c.Stale || c.LastReport == nil || !c.LastReport.Equal(last) || c.Connectivity != "Unknown" || c.Reconciled != "c0ffee" {
		t.Errorf("the cluster: got %+v", c)
	}
	if r := c.Resources[0]; r.Reason != "no report since 2026-11-21T11:59:00Z; was Ready" {
		t.Errorf("the object: got %+v", r)
	}
	healthy := condition(t, st.Conditions, v2.Healthy)
	if healthy.Status != v2.Unknown || healthy.Reason != "Silent" || !healthy.Since.Equal(a.Expires) ||
		healthy.Message != "app a: edge+c1: no report since 2026-11-21T11:59:00Z (and 1 other cluster)" {
		t.Errorf("the condition: got %+v", healthy)
	}
	if st := g.status("status=deployed"); st.DeployedStatus != "Instantiated" || st.DeployedCounts["Applied"] != 2 {
		t.Errorf("what is proved to be in Git does not depend on agents: got %s %v", st.DeployedStatus, st.DeployedCounts)
	}
	g.report("a", c1, appcontext.Report{Seq: 5, At: s.clock(), Commit: "c0ffee", Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	if st := g.status("status=ready"); st.Apps[0].Clusters[0].Stale || st.Apps[0].Clusters[0].Resources[0].ReadyStatus != "Ready" {
		t.Errorf("after a late word: got %+v", st.Apps[0].Clusters[0])
	}
}

func TestReasonsDescribeTheFault(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.group("7")
	one, two, three, old := s.configMap("one", "hello"), s.configMap("two", "hello"), s.configMap("three", "hello"), s.configMap("one", "bye")
	b := s.bundle(one, two, three)
	g.publish(placedApps{"a": {c1: b}})
	g.applied("a", c1, b, "")
	g.report("a", c1, appcontext.Report{Resources: []appcontext.ResourceStatus{objectStatus(old, "InProgress", "it waits"), objectStatus(two, "InProgress", "so"), objectStatus(three, "Failed", "")}})
	var got []string
	for _, r := range g.status("status=ready").Apps[0].Clusters[0].Resources {
		got = append(got, r.Reason)
	}
	if want := []string{"still runs the previous version: it waits", "so", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPairsReportWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b, "edge+c2": b, "edge+c3": b}})
	at := noon.Add(-time.Hour)
	g.pair("a", c1, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Pending, Change: appcontext.Install, Step: 1, Blocked: "waits for app db to be ready on edge+c1"})
	g.pair("a", "edge+c2", appcontext.Pair{Rev: 1, Desired: b, Applied: b, Phase: appcontext.Applied, Change: appcontext.Install, Step: 2, Commit: "c0ffee"})
	g.pair("a", "edge+c3", appcontext.Pair{Rev: 0, Phase: appcontext.Failed, Error: "refused", Blocked: "old", Step: 3, Change: appcontext.Install, Commit: "dead"})
	c := g.status("status=deployed").Apps[0].Clusters
	if c[0].Blocked != "waits for app db to be ready on edge+c1" || c[0].Step != 2 || !c[0].Since.Equal(at) || c[0].Phase != "Pending" {
		t.Errorf("one that is blocked: got %+v", c[0])
	}
	if c[1].Step != 0 || c[1].Commit != "c0ffee" || c[1].Revision != 1 || c[1].Phase != "Applied" {
		t.Errorf("one that is there: got %+v", c[1])
	}
	if c[2].Error != "" || c[2].Blocked != "" || c[2].Step != 0 || c[2].Commit != "" || c[2].Phase != "Pending" || !c[2].Since.Equal(morning.Add(time.Hour)) {
		t.Errorf("one that was worked on for an older revision: got %+v", c[2])
	}
}

func TestFailedAppsAreShownWithoutClusters(t *testing.T) {
	t.Parallel()
	g := newStage(t).group("7")
	g.publish(placedApps{"a": {c1: g.bundle(g.configMap("one", "hello"))}}, appcontext.App{
		Name: "b", Findings: []string{"look"},
		Failure: &appcontext.Failure{Stage: "rendering", File: "templates/x.yaml:3", Reason: "has no name"},
	})
	st := g.status("status=deployed")
	i := slices.IndexFunc(st.Apps, func(a v2.AppStatus) bool { return a.Name == "b" })
	if i < 0 || *st.Apps[i].Failure != (v2.AppFailure{Stage: "rendering", File: "templates/x.yaml:3", Reason: "has no name"}) || len(st.Apps[i].Findings) != 1 {
		t.Errorf("got %+v", st.Apps)
	}
}

// A failed pair shows its attempts and the time of the next one; a pair that waits for
// something else has no next one.
func TestF06AttemptsAreShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b, "edge+c2": b, "edge+c3": b}, "b": {c1: b}})
	g.publish(placedApps{"a": {c1: b, "edge+c2": b, "edge+c3": b}})
	next := noon.Add(40 * time.Second)
	g.pair("a", c1, appcontext.Pair{Rev: 2, Desired: b, Phase: appcontext.Retrying, Error: "away", Attempt: 3, NextRetry: next})
	g.pair("a", "edge+c2", appcontext.Pair{Rev: 2, Desired: b, Phase: appcontext.Retrying, Error: "away", Attempt: 3, NextRetry: next, Blocked: "stopped"})
	g.applied("a", "edge+c3", b, "")
	g.pair("b", c1, appcontext.Pair{Rev: 2, Phase: appcontext.Failed, Error: "away", Applied: b, Attempt: 5, NextRetry: next})
	for _, query := range []string{"status=deployed", "status=ready", "type=rsync"} {
		st := g.status(query)
		for i, want := range []struct {
			attempts int
			next     bool
		}{{3, true}, {3, false}, {0, false}} {
			c := st.Apps[0].Clusters[i]
			if c.Attempts != want.attempts || (c.NextAttempt != nil) != want.next || want.next && !c.NextAttempt.Equal(next) {
				t.Errorf("%s: %s has %d attempts, the next at %v; want %+v", query, c.Cluster, c.Attempts, c.NextAttempt, want)
			}
		}
		if l := st.Leaving[0]; l.Attempts != 5 || !l.NextAttempt.Equal(next) {
			t.Errorf("%s: leaving is %+v", query, l)
		}
	}
}

// The status of an object is its own: what the API server accepted is Applied, though it
// refused another object of the app, and what was never tried is Pending.
func TestF02ObjectsHaveTheirOwnStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, two, three := s.configMap("one", "1"), s.configMap("two", "2"), s.configMap("three", "3")
	b := s.bundle(one, two, three)
	refused := []appcontext.Refusal{{ID: two.ID, Reason: "not valid"}}
	for i, tt := range []struct {
		name string
		pair appcontext.Pair
		want string
	}{
		{"one was refused", appcontext.Pair{Phase: appcontext.Failed, Outcome: &appcontext.Outcome{Refused: refused}}, "Applied:2 Failed:1 a on c1: one Applied, two Failed, three Applied"},
		{"the cluster went away", appcontext.Pair{Phase: appcontext.Retrying, Outcome: &appcontext.Outcome{Ended: true, Accepted: []manifest.ID{one.ID}, Refused: refused}}, "Applied:1 Pending:1 Retrying:1 a on c1: one Applied, two Retrying, three Pending"},
		{"the commit failed", appcontext.Pair{Phase: appcontext.Retrying}, "Retrying:3 a on c1: one Retrying, two Retrying, three Retrying"},
		{"a hook failed before the objects were tried", appcontext.Pair{Phase: appcontext.Failed, Halted: true}, "Pending:3 a on c1: one Pending, two Pending, three Pending"},
		{"a hook failed after they were applied", appcontext.Pair{Phase: appcontext.Failed, Halted: true, Applied: b}, "Applied:3 a on c1: one Applied, two Applied, three Applied"},
		{"it failed for an older revision", appcontext.Pair{Rev: -1, Phase: appcontext.Failed, Outcome: &appcontext.Outcome{Refused: refused}}, "Pending:3 a on c1: one Pending, two Pending, three Pending"},
	} {
		g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
		g.publish(placedApps{"a": {c1: b}})
		tt.pair.Rev, tt.pair.Desired, tt.pair.Error = tt.pair.Rev+1, b, "why"
		g.pair("a", c1, tt.pair)
		st := g.status("status=deployed")
		if got := short(st); got != tt.want {
			t.Errorf("%s: got  %s, want %s", tt.name, got, tt.want)
		}
		if tt.pair.Outcome != nil && tt.pair.Rev == 1 && st.Apps[0].Clusters[0].Resources[1].Reason != "not valid" {
			t.Errorf("%s: the refused object has no reason: %+v", tt.name, st.Apps[0].Clusters[0].Resources[1])
		}
	}
}

// A direct cluster that has never answered has no last report; one whose watch was lost has
// one, and a monitor's report counts whatever its content.
func TestF08AClusterThatNeverAnsweredHasNoLastReport(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	o := s.configMap("one", "hello")
	b := s.bundle(o)
	unknown := appcontext.ResourceStatus{ID: o.ID, Status: "Unknown", Reason: "no answer yet; first tried at 2026-11-21T12:00:00Z"}
	lost := unknown
	lost.Content, lost.Reason = o.Stamp(), "no answer since 2026-11-21T12:00:00Z; was Current"
	for i, tt := range []struct {
		name   string
		report appcontext.Report
		want   bool
	}{
		{"never answered", appcontext.Report{Resources: []appcontext.ResourceStatus{unknown}}, false},
		{"the watch was lost", appcontext.Report{Resources: []appcontext.ResourceStatus{lost}}, true},
		{"a monitor", appcontext.Report{Seq: 1, Resources: []appcontext.ResourceStatus{unknown}}, true},
	} {
		g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
		g.publish(placedApps{"a": {c1: b}})
		g.report("a", c1, tt.report)
		c := g.status("status=ready").Apps[0].Clusters[0]
		if (c.LastReport != nil) != tt.want || c.Connectivity != "Unknown" && i < 2 {
			t.Errorf("%s: last report %v, connectivity %s", tt.name, c.LastReport, c.Connectivity)
		}
	}
}

// An app that renders to nothing is shown, with its clusters and without objects.
func TestF76AnAppWithoutObjectsIsShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, none, b := s.group("7"), s.bundle(), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}, "nothing": {c1: none}})
	g.applied("a", c1, b, "")
	g.applied("nothing", c1, none, "")
	for _, query := range []string{"status=deployed", "status=ready"} {
		st := g.status(query)
		if len(st.Apps) != 2 || len(st.Apps[1].Clusters) != 1 || st.Apps[1].Clusters[0].Phase != "Applied" || len(st.Apps[1].Clusters[0].Resources) != 0 {
			t.Errorf("%s: got %+v", query, st.Apps)
		}
	}
	if st := g.status("status=deployed&resource=one"); len(st.Apps) != 1 {
		t.Errorf("with a filter of resources: got %+v", st.Apps)
	}
}

// What was delivered and what other deployments place are findings alike.
func TestFindingsIncludeOverlaps(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}})
	g.pair("a", c1, appcontext.Pair{Rev: 1, Desired: b, Applied: b, Phase: appcontext.Applied, Findings: []string{"left out"}, Overlaps: []string{"placed twice"}})
	if got := g.status("status=deployed").Apps[0].Clusters[0].Findings; !slices.Equal(got, []string{"left out", "placed twice"}) {
		t.Errorf("the findings are %q", got)
	}
}

func TestWhatHasToGoIsListed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b, "edge+c2": b}, "b": {c1: b}})
	g.publish(placedApps{"a": {c1: b}})
	g.applied("a", c1, b, "")
	g.pair("a", "edge+c2", appcontext.Pair{Rev: 2, Phase: appcontext.Deleting, Applied: b})
	g.pair("b", c1, appcontext.Pair{Rev: 2, Phase: appcontext.Retrying, Error: "away", Applied: b})
	st := g.status("status=deployed")
	var got []string
	for _, l := range st.Leaving {
		got = append(got, strings.TrimSpace(fmt.Sprint(l.App, " on ", l.Provider, "+", l.Cluster, " ", l.Phase, " ", l.Error)))
	}
	if want := []string{"a on edge+c2 Deleting", "b on edge+c1 Retrying away"}; !slices.Equal(got, want) || st.DeployedStatus != "Instantiating" {
		t.Errorf("got %q, %s; want %q", got, st.DeployedStatus, want)
	}
	synced := condition(t, st.Conditions, v2.Synced)
	if synced.Status != v2.False || synced.Message != "app b on edge+c1: away (and 1 more to be removed)" {
		t.Errorf("got %+v", synced)
	}
	if st := g.status("status=deployed&app=a"); len(st.Leaving) != 1 {
		t.Errorf("of app a: got %+v", st.Leaving)
	}
	if st := g.status("status=deployed&output=summary"); st.Leaving != nil {
		t.Errorf("in a summary: got %+v", st.Leaving)
	}
	g.gone("a", "edge+c2")
	g.gone("b", c1)
	if st := g.status("status=deployed"); st.Leaving != nil || st.DeployedStatus != "Instantiated" {
		t.Errorf("when all is gone: got %+v, %s", st.Leaving, st.DeployedStatus)
	}
}

func TestMovedGroupsShowTheirHistoryOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	source, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	source.publish(placedApps{"a": {c1: b}})
	source.applied("a", c1, b, "")
	target := s.group("8")
	target.step(func(h *appcontext.Head) {
		h.State, h.Inherited, h.LastRev, h.Op = appcontext.Instantiated, "7", 1, &appcontext.Operation{ID: "1", Rev: 1}
	}, appcontext.HistoryEntry{State: appcontext.Instantiated, Instance: "x", Revision: 1, Time: noon})
	source.step(func(h *appcontext.Head) { h.State, h.MovedTo = appcontext.Updated, "8" }, appcontext.HistoryEntry{State: appcontext.Updated, Time: noon})
	st := source.status("status=deployed")
	if st.MovedTo != groupKey || st.DeployedStatus != "" || st.Apps != nil || st.Conditions != nil || len(st.States.Actions) != 2 {
		t.Errorf("the source: got %+v", st)
	}
	st = target.status("status=deployed")
	if st.States.StatusCtxID != "7" || st.DeployedStatus != "Instantiating" || st.Leaving != nil {
		t.Errorf("the target, before its first revision: got %+v", st)
	}
	target.step(func(h *appcontext.Head) { h.Op = nil; h.LastRev = 0 })
	target.publish(placedApps{"a": {c1: b}})
	if st := target.status("status=deployed"); st.DeployedStatus != "Instantiated" || st.DeployedCounts["Applied"] != 1 {
		t.Errorf("the target: got %s %v", st.DeployedStatus, st.DeployedCounts)
	}
}

func TestGroupsThatWereNeverInstantiated(t *testing.T) {
	t.Parallel()
	g := newStage(t).group("7")
	a, err := g.ask("")
	g.must(err)
	text, err := a.JSON()
	g.must(err)
	want := `{"project":"p","compositeApp":"ca","compositeAppVersion":"v1","compositeProfile":"cp","name":"d",` +
		`"states":{"statusctxid":"","actions":[{"state":"Created","instance":"","time":"2026-11-21T08:00:00Z","revision":0}]}}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if _, err := g.ask("instance=5"); !errs.Is(err, errs.Invalid) {
		t.Errorf("an instance that it never had: got %v", err)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"), s.configMap("two", "hello"))
	g.publish(placedApps{"a": {c1: b, "edge+c2": b}, "b": {c1: b}})
	for query, want := range map[string]string{
		"apps":                         `"apps":["a","b"]`,
		"apps&clusters&resources":      `"apps":["a","b"]`,
		"clusters":                     `"clustersByApp":[{"app":"a","clusters":[{"clusterProvider":"edge","cluster":"c1"},{"clusterProvider":"edge","cluster":"c2"}]},{"app":"b","clusters":[{"clusterProvider":"edge","cluster":"c1"}]}]`,
		"clusters&app=b":               `"clustersByApp":[{"app":"b","clusters":[{"clusterProvider":"edge","cluster":"c1"}]}]`,
		"resources&app=b&resource=two": `"resourcesByApp":[{"app":"b","clusterProvider":"edge","cluster":"c1","resources":[{"name":"two","GVK":{"Group":"","Version":"v1","Kind":"ConfigMap"}}]}]`,
		"resources&cluster=edge%2Bc9":  `"resourcesByApp":[]`,
	} {
		a, err := g.ask(query)
		s.must(err)
		text, err := a.JSON()
		s.must(err)
		if got := string(text); got != `{"project":"p","compositeApp":"ca","compositeAppVersion":"v1","compositeProfile":"cp","name":"d",`+want+`}` {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

func TestDetails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.group("7")
	secret := s.object("{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {token: planted}}")
	old, now := s.configMap("one", "bye"), s.configMap("one", "hello")
	b := s.bundle(secret, now, s.configMap("two", "hello"))
	g.publish(placedApps{"a": {c1: b}})
	g.applied("a", c1, b, "")
	g.report("a", c1, appcontext.Report{Resources: []appcontext.ResourceStatus{objectStatus(secret, "Current", ""), objectStatus(old, "Current", ""), pod("web", "Current")}})
	details := func(query string) (out []string) {
		for _, r := range g.status(query).Apps[0].Clusters[0].Resources {
			out = append(out, string(r.Detail))
		}
		return out
	}
	stamp := func(o manifest.Object) string {
		return `"metadata":{"annotations":{"emco/content":"` + o.Stamp() + `"},"name":"` + o.ID.Name + `","namespace":"default"}`
	}
	masked := `{"apiVersion":"v1","kind":"Secret",` + stamp(secret) + `,"stringData":{"token":"***"}}`
	if got := details("status=deployed&output=detail"); len(got) != 3 || got[0] != masked || got[1] != strings.TrimSpace(string(now.Content)) {
		t.Errorf("what was rendered: got %q", got)
	}
	outlined := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}`
	if got, want := details("status=ready&output=detail"), []string{masked, outlined, "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"}}`}; !slices.Equal(got, want) {
		t.Errorf("what is on the cluster: got %q\nwant %q", got, want)
	}
	if got := details("status=ready"); strings.Join(got, "") != "" {
		t.Errorf("without being asked: got %q", got)
	}
}

// An answer costs the same number of requests for ten pairs and for a thousand, and none
// of them is a read of pairs or objects.
func TestAnswersCostTheSameForManyPairs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.bundle(s.configMap("one", "hello"))
	cost := map[int]string{}
	var last *testGroup
	for _, n := range []int{10, 400} {
		g := s.group(appcontext.HeadID(fmt.Sprint(n)))
		last = g
		w := placedApps{"a": {}}
		for i := range n {
			w["a"][v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))] = b
		}
		g.publish(w)
		for c := range w["a"] {
			g.applied("a", c, b, "")
		}
		g.status("status=ready")
		cost[n] = fmt.Sprint(s.requests(func() { _, err := g.ask("status=ready&output=detail"); s.must(err) }))
	}
	if cost[10] != cost[400] || cost[10] != "map[get:1]" {
		t.Errorf("got %v, want the revision of etcd", cost)
	}
	s.reader.revisions = newRevisionCache()
	if n := fmt.Sprint(s.requests(func() { _, err := last.ask("status=ready"); s.must(err) })); n != "map[get:2]" {
		t.Errorf("of a revision that was not read before: got %v, want one read of the revision; its placements are cached", n)
	}
	last.terminate()
	var after Answer
	if n := fmt.Sprint(s.requests(func() { after, _ = last.ask("status=ready") })); n != "map[get:1 list:1]" {
		t.Errorf("after an action: got %v, want one list of the history", n)
	}
	if acts := after.status.States.Actions; len(acts) == 0 || acts[len(acts)-1].State != "Terminated" {
		t.Errorf("after an action the history is %v", acts)
	}
}

// A summary is polled while thousands of pairs change. It allocates nothing for a pair but one value in a list.
func TestASummaryMakesNothingForEachPair(t *testing.T) {
	cost := func(g *testGroup, query string) (allocations, bytes uint64) {
		g.status(query) // its revision is in memory now
		allocations, bytes = math.MaxUint64, math.MaxUint64
		for range 10 { // the least: other goroutines allocate too
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := g.ask(query)
			runtime.ReadMemStats(&after)
			g.must(err)
			allocations, bytes = min(allocations, after.Mallocs-before.Mallocs), min(bytes, after.TotalAlloc-before.TotalAlloc)
		}
		return allocations, bytes
	}
	ten, many := newStage(t).large(1, 10, 3), newStage(t).large(1, 2000, 3)
	for _, query := range []string{"status=deployed&output=summary", "status=ready&output=summary"} {
		few, _ := cost(ten, query)
		all, bytes := cost(many, query)
		if all > few+200 || bytes > 2000*150+64<<10 {
			t.Errorf("%s: got %d allocations for 10 pairs, and %d with %d bytes for 2000; want no allocation and at most 150 bytes for each pair", query, few, all, bytes)
		}
	}
}

// A summary of a large fleet has one status for all places that stand alike, and is that of all places.
func TestASummaryTakesPlacesThatStandAlikeTogether(t *testing.T) {
	const clusters = 2000
	s := newStage(t)
	g, w := s.group("7"), placedApps{"web": {}}
	bundle := s.bundle(s.configMap("web", "hello"))
	for i := range clusters {
		w["web"][v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))] = bundle
	}
	g.publish(w)
	writer := s.store.NewWriter(appcontext.Fence{}, pairstore.NewContents("s1"))
	var put []appcontext.Pair
	for i := 1; i < clusters; i++ { // none for the first
		p := appcontext.Pair{Key: g.key("web", v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))), Shard: "s1", Rev: 1, Desired: bundle, At: noon, Phase: appcontext.Pending}
		switch {
		case i%100 == 7:
			p.Phase, p.Error, p.Reason = appcontext.Failed, "refused", "Refused"
		case i%10 > 1:
			p.Phase, p.Applied, p.Held, p.Commit = appcontext.Applied, bundle, []appcontext.Digest{bundle}, "c0ffee"
		}
		put = append(put, p)
	}
	s.must(writer.Write(s.Context(), put, nil))
	const query = "status=deployed&output=summary"
	for _, q := range []string{"status=deployed", "status=ready", query} {
		g.status(q) // compares with the summary
	}
	st := g.status(query)
	if got := short(st); got != "Applied:1580 Failed:20 Pending:400" {
		t.Errorf("got %s", got)
	}
	if c := condition(t, st.Conditions, v2.Stalled); c.Message != "app web: edge+c0007: refused (and 19 other clusters)" {
		t.Errorf("got %+v", c)
	}
	least := uint64(math.MaxUint64)
	for range 10 { // other goroutines allocate too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := g.ask(query)
		runtime.ReadMemStats(&after)
		s.must(err)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > clusters*20 {
		t.Errorf("a summary of what has not changed allocates %d bytes for %d places", least, clusters)
	}
	snap, err := s.reader.Snapshot(s.Context(), "7")
	s.must(err)
	n := 0
	for _, p := range snap.apps[0].places {
		n += p.n
	}
	if got := len(snap.apps[0].places); got != 4 || n != clusters {
		t.Errorf("%d statuses stand for %d places, want 4 for %d", got, n, clusters)
	}
}

// A summary counts the places of the apps that have changed since the last one, and of no other.
func TestASummaryCountsTheAppsThatChanged(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}, "b": {c1: b}})
	g.applied("a", c1, b, "c0ffee")
	g.applied("b", c1, b, "c0ffee")
	counted := func(want string) map[string]*countedPlaces {
		t.Helper()
		if got := short(g.status("status=deployed&output=summary")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		snap, err := s.reader.mirror.Snapshot(t.Context(), "7")
		s.must(err)
		out := map[string]*countedPlaces{}
		for _, app := range []string{"a", "b"} {
			k := countedKey{snap.Pairs.Version(app), revisionKey{"7", snap.Head.Rev}, noon.UnixNano() / int64(Default().Stale/turnsOfStale)}
			out[app], _ = s.reader.counted.Get(k)
		}
		return out
	}
	before := counted("Applied:2")
	g.applied("b", c1, b, "c0ffee2")
	after := counted("Applied:2")
	if before["a"] == nil || before["a"] != after["a"] || after["b"] == nil || before["b"] == after["b"] {
		t.Errorf("before %v, after %v: the places of b alone must be counted again", before, after)
	}
}

// Counted places are kept while nothing changes: a change of a pair and the age of a report count at once.
func TestKeptSummariesAreTrue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, o := s.group("7"), s.configMap("one", "hello")
	b := s.bundle(o)
	g.publish(placedApps{"a": {"edge+c1": b, "edge+c2": b}})
	const query = "status=ready&output=summary"
	for range 2 {
		if got := short(g.status(query)); got != "Unknown:2" {
			t.Errorf("before any report: %s", got)
		}
	}
	for i, c := range []v2.ClusterKey{"edge+c1", "edge+c2"} {
		g.applied("a", c, b, "c0ffee")
		at := noon.Add(-time.Duration(i) * time.Minute)
		g.report("a", c, appcontext.Report{Seq: 1, At: at, Commit: "c0ffee", Ready: true, Since: at, Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
		if got, want := short(g.status(query)), []string{"Ready:1 Unknown:1", "Ready:2"}[i]; got != want {
			t.Errorf("after report %d: %s, want %s", i, got, want)
		}
	}
	stale := Default().Stale
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{stale - time.Minute, "Ready:2"}, {stale - time.Minute + time.Second, "Ready:1 Unknown:1"}, {stale + time.Second, "Unknown:2"}} {
		s.at(noon.Add(tt.after))
		for range 2 {
			if got := short(g.status(query)); got != tt.want {
				t.Errorf("%s after the first report: %s, want %s", tt.after, got, tt.want)
			}
		}
	}
	g.report("a", "edge+c2", appcontext.Report{Seq: 2, At: noon.Add(stale), Commit: "c0ffee", Ready: true, Since: noon, Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	if got := short(g.status(query)); got != "Ready:1 Unknown:1" {
		t.Errorf("after the next report: %s", got)
	}
}

func condition(t *testing.T, list []v2.Condition, kind string) v2.Condition {
	t.Helper()
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("no condition %s in %+v", kind, list)
	return v2.Condition{}
}

// Upstream's word for what is not known is NotPresent if the cluster never reported the object, or last reported that it does
// not exist.
func TestUpstreamsWordForWhatWasNeverReported(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.reader.options.UpstreamWords = true
	o, other := s.configMap("one", "hello"), s.configMap("other", "hello")
	b := s.bundle(o)
	long := noon.Add(-time.Hour)
	held := objectStatus(o, "Unknown", "no answer; was Current")
	unheld := held
	unheld.Content = ""
	for i, tt := range []struct {
		name   string
		report appcontext.Report
		want   string
	}{
		{"a silent cluster, before the object was desired", appcontext.Report{Seq: 1, At: long}, "NotPresent"},
		{"a silent cluster that reported others", appcontext.Report{Seq: 1, At: long, Resources: []appcontext.ResourceStatus{objectStatus(other, "Current", "")}}, "NotPresent"},
		{"a silent cluster without the object", appcontext.Report{Seq: 1, At: long, Resources: []appcontext.ResourceStatus{objectStatus(o, "NotFound", "")}}, "NotPresent"},
		{"a silent cluster with the object", appcontext.Report{Seq: 1, At: long, Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}}, "NotReady"},
		{"a report that was too long", appcontext.Report{Seq: 1, At: noon, Truncated: 1}, "NotReady"},
		{"a watch that was never answered", appcontext.Report{Resources: []appcontext.ResourceStatus{unheld}}, "NotPresent"},
		{"a watch that was lost", appcontext.Report{Resources: []appcontext.ResourceStatus{held}}, "NotReady"},
		{"a monitor that does not know", appcontext.Report{Seq: 1, At: noon, Resources: []appcontext.ResourceStatus{unheld}}, "NotReady"},
	} {
		g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
		g.publish(placedApps{"a": {c1: b}})
		g.report("a", c1, tt.report)
		if got := g.status("status=ready").Apps[0].Clusters[0].Resources[0]; got.ReadyStatus != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, got.ReadyStatus, got.Reason, tt.want)
		}
	}
}

// With upstream's words alone, what is not known is not ready: never reported, silent, or in a report that is too long.
func TestUpstreamsWordsHaveNoUnknown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.reader.options.UpstreamWords = true
	g, o := s.group("7"), s.configMap("one", "hello")
	b := s.bundle(o)
	g.publish(placedApps{"a": {c1: b, "edge+c2": b}})
	want := func(what, sum string, counts map[string]int) {
		t.Helper()
		for _, query := range []string{"status=ready", "status=ready&output=summary"} {
			if st := g.status(query); st.ReadyStatus != sum || !reflect.DeepEqual(st.ReadyCounts, counts) {
				t.Errorf("%s, %s: got %s %v, want %s %v", what, query, st.ReadyStatus, st.ReadyCounts, sum, counts)
			}
		}
		if st := g.status("type=cluster"); !reflect.DeepEqual(st.ClusterCounts, counts) {
			t.Errorf("%s: the deprecated view has %v, want %v", what, st.ClusterCounts, counts)
		}
	}
	want("nothing is reported", "NotReady", map[string]int{"NotPresent": 2})
	for _, c := range []v2.ClusterKey{c1, "edge+c2"} {
		g.applied("a", c, b, "c0ffee")
		g.report("a", c, appcontext.Report{Seq: 4, At: noon, Commit: "c0ffee", Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	}
	want("all is reported", "Ready", map[string]int{"Ready": 2})
	s.at(noon.Add(time.Hour))
	want("the agents are silent", "NotReady", map[string]int{"NotReady": 2})
	st := g.status("status=ready")
	if r := st.Apps[0].Clusters[0].Resources[0]; r.ReadyStatus != "NotReady" || !strings.HasSuffix(r.Reason, "; was Ready") {
		t.Errorf("the object reads %+v", r)
	}
	if c := condition(t, st.Conditions, v2.Healthy); c.Status != v2.Unknown {
		t.Errorf("the condition reads %+v", c)
	}
}
