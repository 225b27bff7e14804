package statusview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// line is a condition in one line: type, status, reason, hours since morning, message.
func line(c v2.Condition) string {
	since := "-"
	if !c.Since.IsZero() {
		since = c.Since.Sub(morning).String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", c.Type, c.Status, c.Reason, since, c.Message))
}

func TestConditions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	o := s.configMap("one", "hello")
	b := s.bundle(o)
	well := appcontext.Report{Seq: 1, Commit: "c2", Ready: true, Since: morning.Add(150 * time.Minute), Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}}
	sick := appcontext.Report{Seq: 1, Commit: "c1", Since: morning.Add(170 * time.Minute), Resources: []appcontext.ResourceStatus{objectStatus(o, "InProgress", "it starts")}}
	const c2, c3 = "edge+c2", "edge+c3"
	three := placedApps{"a": {c1: b, c2: b, c3: b}}
	for i, tt := range []struct {
		name string
		do   func(g *testGroup)
		want []string
	}{
		{"nothing was done yet", func(g *testGroup) { g.publish(three) }, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed Unknown Pending 1h0m0s app a: edge+c1 (and 2 other clusters)",
			"Synced False Pending 1h0m0s app a: edge+c1 (and 2 other clusters)",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported (and 2 other clusters)",
			"Stalled False Progressing -",
		}},
		{"direct clusters hold it and are well", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}, "b": {c2: b}})
			g.applied("a", c1, b, "")
			g.pair("b", c2, appcontext.Pair{Rev: 1, Desired: b, Applied: b, Phase: appcontext.Applied, At: morning.Add(2 * time.Hour)})
			g.report("a", c1, well)
			g.report("b", c2, well)
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed True NotNeeded 1h0m0s",
			"Synced True Synced 3h0m0s",
			"Healthy True Ready 2h30m0s",
			"Stalled False Done -",
		}},
		{"a branch was rewritten, and another one refuses", func(g *testGroup) {
			g.publish(three)
			g.pair("a", c1, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Failed, Error: "refused", At: morning.Add(4 * time.Hour)})
			g.pair("a", c2, appcontext.Pair{Rev: 1, Desired: b, Applied: b, Commit: "c2", Phase: appcontext.Failed, Error: "it was forced", Reason: "HistoryRewritten", At: morning.Add(3 * time.Hour)})
			g.applied("a", c3, b, "c3")
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed False HistoryRewritten 1h0m0s app a: edge+c2: it was forced",
			"Synced False HistoryRewritten 1h0m0s app a: edge+c2: it was forced (and 1 other cluster)",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported (and 2 other clusters)",
			"Stalled True HistoryRewritten 3h0m0s app a: edge+c2: it was forced (and 1 other cluster)",
		}},
		{"one refuses, one is away, one waits", func(g *testGroup) {
			g.publish(three)
			g.pair("a", c1, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Pending, Blocked: "waits for app db"})
			g.pair("a", c2, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Retrying, Error: "away"})
			g.pair("a", c3, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Failed, Error: "refused"})
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed Unknown Failed 1h0m0s app a: edge+c3: refused (and 2 other clusters)",
			"Synced False Failed 1h0m0s app a: edge+c3: refused (and 2 other clusters)",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported (and 2 other clusters)",
			"Stalled True Failed 3h0m0s app a: edge+c3: refused",
		}},
		{"a newer commit is due, and the agents know of the one before", func(g *testGroup) {
			g.publish(three)
			g.publish(three)
			g.applied("a", c1, b, "c2")
			g.applied("a", c2, b, "c2")
			g.pair("a", c3, appcontext.Pair{Rev: 2, Desired: b, Applied: "old", Commit: "c1", Phase: appcontext.Retrying, Error: "push was refused"})
			g.report("a", c1, well)
			g.report("a", c2, sick)
			g.report("a", c3, sick)
		}, []string{
			"Placed True Placed 2h0m0s",
			"Rendered True Rendered 2h0m0s",
			"Committed False Retrying 2h0m0s app a: edge+c3: push was refused",
			"Synced False Retrying 2h0m0s app a: edge+c3: push was refused",
			"Healthy False NotReady 2h50m0s app a: edge+c2: ConfigMap one: it starts (and 1 other cluster)",
			"Stalled False Progressing -",
		}},
		{"it is on the branch, and reconcilers are on their way", func(g *testGroup) {
			g.publish(three)
			for _, c := range []v2.ClusterKey{c1, c2, c3} {
				g.applied("a", c, b, "c2")
			}
			old := sick
			old.Resources = []appcontext.ResourceStatus{objectStatus(s.configMap("one", "bye"), "Current", "")}
			g.report("a", c1, well)
			g.report("a", c2, old)
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed True Committed 3h0m0s",
			"Synced False Reconciling 1h0m0s app a: edge+c2: its reconciler has not applied it yet",
			"Healthy False NotReady 2h50m0s app a: edge+c2: ConfigMap one: still runs the previous version",
			"Stalled False Done -",
		}},
		{"an artifact is applied, although an object of it is an old one", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "sha256:c0ffee")
			old := sick
			old.Commit, old.Resources = "c0ffee", []appcontext.ResourceStatus{objectStatus(s.configMap("one", "bye"), "Current", "")}
			g.report("a", c1, old)
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed True Committed 3h0m0s",
			"Synced True Synced 2h50m0s",
			"Healthy False NotReady 2h50m0s app a: edge+c1: ConfigMap one: still runs the previous version",
			"Stalled False Done -",
		}},
		{"the report names the content but no commit, and the cluster has failed Pods", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "c2")
			r := well
			r.Commit, r.Resources = "", append([]appcontext.ResourceStatus{pod("web", "Failed")}, well.Resources...)
			g.report("a", c1, r)
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed True Committed 3h0m0s",
			"Synced True Synced 2h30m0s",
			"Healthy False NotReady - app a: edge+c1: Pod web: is not ready",
			"Stalled False Done -",
		}},
		{"a cluster that pulls from Git does not report", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "c2")
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed True Committed 3h0m0s",
			"Synced Unknown NotReported 1h0m0s app a: edge+c1: it has not reported",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported",
			"Stalled False Done -",
		}},
		{"one app has no place, two cannot be rendered", func(g *testGroup) {
			bad := func(name, stage string) appcontext.App {
				return appcontext.App{Name: name, Failure: &appcontext.Failure{Stage: stage, File: "x.yaml:3", Reason: "why"}}
			}
			g.publish(placedApps{}, bad("a", "placement"), bad("b", "rendering"), bad("c", "rendering"))
		}, []string{
			"Placed False PlacementFailed 1h0m0s app a: why",
			"Rendered False RenderingFailed 1h0m0s app b: x.yaml:3: why (and 1 other app)",
			"Committed True NotNeeded 1h0m0s",
			"Synced True Synced 1h0m0s",
			"Healthy Unknown NotPlaced - app a: it is on no cluster (and 2 other apps)",
			"Stalled True AppFailed 1h0m0s app a: placement failed: why (and 2 other apps)",
		}},
		{"a revision is being made", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "")
			g.report("a", c1, well)
			g.step(func(h *appcontext.Head) { h.Op = &appcontext.Operation{ID: "1", Rev: 2, At: noon} })
		}, []string{
			"Placed Unknown RevisionPending 4h0m0s app a: revision 2 is being made",
			"Rendered Unknown RevisionPending 4h0m0s app a: revision 2 is being made",
			"Committed Unknown RevisionPending 4h0m0s app a: revision 2 is being made",
			"Synced Unknown RevisionPending 4h0m0s app a: revision 2 is being made",
			"Healthy True Ready 2h30m0s",
			"Stalled False Done -",
		}},
		{"the last operation could not be carried out", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "")
			g.step(func(h *appcontext.Head) { h.Failure = "no chart" })
		}, []string{
			"Placed False OperationFailed - no chart",
			"Rendered False OperationFailed - no chart",
			"Committed True NotNeeded 1h0m0s",
			"Synced True Synced 3h0m0s",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported",
			"Stalled True OperationFailed - no chart",
		}},
		{"not even the first operation could be carried out", func(g *testGroup) {
			g.step(func(h *appcontext.Head) { h.LastRev, h.Failure = 1, "no chart" }, appcontext.HistoryEntry{Instance: "7", Revision: 1, Time: noon})
		}, []string{"Placed False OperationFailed - no chart", "Rendered False OperationFailed - no chart", "Stalled True OperationFailed - no chart"}},
		{"it was stopped", func(g *testGroup) {
			g.publish(placedApps{"a": {c1: b}})
			g.step(func(h *appcontext.Head) { h.Stopped = true }, appcontext.HistoryEntry{State: appcontext.InstantiateStopped, Time: noon})
		}, []string{
			"Placed True Placed 1h0m0s",
			"Rendered True Rendered 1h0m0s",
			"Committed Unknown Pending 1h0m0s app a: edge+c1",
			"Synced False Pending 1h0m0s app a: edge+c1",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported",
			"Stalled True Stopped 4h0m0s a user stopped it",
		}},
		{"it is being removed", func(g *testGroup) {
			g.publish(three)
			g.terminate()
			g.pair("a", c1, appcontext.Pair{Rev: 1, Applied: b, Phase: appcontext.Deleting})
			g.pair("a", c2, appcontext.Pair{Rev: 1, Applied: b, Phase: appcontext.Failed, Error: "away"})
		}, []string{
			"Synced False Failed 4h0m0s app a: edge+c2: away (and 1 other cluster)",
			"Stalled True Failed 3h0m0s app a: edge+c2: away",
		}},
		{"it is removed", func(g *testGroup) {
			g.publish(three)
			g.terminate()
		}, []string{"Synced True Removed -", "Stalled False Done -"}},
		{"something that has to go cannot", func(g *testGroup) {
			g.publish(three)
			g.publish(placedApps{"a": {c1: b}})
			g.applied("a", c1, b, "")
			g.pair("a", c2, appcontext.Pair{Rev: 2, Applied: b, Phase: appcontext.Failed, Error: "away"})
		}, []string{
			"Placed True Placed 2h0m0s",
			"Rendered True Rendered 2h0m0s",
			"Committed True NotNeeded 2h0m0s",
			"Synced False Failed 2h0m0s app a on edge+c2: away",
			"Healthy Unknown NotReported - app a: edge+c1: it has not reported",
			"Stalled True Failed 3h0m0s app a on edge+c2: away",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := s.group(appcontext.HeadID(fmt.Sprint(i + 1)))
			tt.do(g)
			var got []string
			for _, c := range g.status("status=ready").Conditions {
				got = append(got, line(c))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if one, two := asJSON(g.status("status=ready").Conditions), asJSON(g.status("status=deployed&output=summary&cluster=x%2By").Conditions); one != two {
				t.Errorf("the view changes the conditions: %s\n%s", one, two)
			}
		})
	}
}

func TestAppsHaveConditions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}, "b": {c1: b, "edge+c2": b}})
	g.applied("b", c1, b, "c1")
	g.applied("b", "edge+c2", b, "c1")
	var got []string
	for _, c := range g.status("status=deployed&app=b").Apps[0].Conditions {
		got = append(got, line(c))
	}
	want := []string{
		"Placed True Placed 1h0m0s 2 clusters",
		"Rendered True Rendered 1h0m0s",
		"Committed True Committed 3h0m0s for 2 clusters",
		"Synced Unknown NotReported 1h0m0s edge+c1: it has not reported (and 1 other cluster)",
		"Healthy Unknown NotReported - edge+c1: it has not reported (and 1 other cluster)",
		"Stalled False Done -",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
