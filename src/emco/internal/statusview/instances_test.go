package statusview

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func TestOlderInstancesShowWhatOfThemIsThere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.group("7")
	same, was, is, only, next := s.configMap("same", "hello"), s.configMap("other", "bye"), s.configMap("other", "hello"), s.configMap("only", "x"), s.configMap("next", "y")
	old, now := s.bundle(same, was, only), s.bundle(same, is, next)
	g.publish(placedApps{"a": {c1: old, "edge+c2": old}})
	g.publish(placedApps{"a": {c1: now}})
	want := func(what, query, status, states string) v2.Status {
		t.Helper()
		st := g.status(query)
		if got := short(st); got != states || st.DeployedStatus != status {
			t.Errorf("%s: got %s, %q\nwant %s, %q", what, st.DeployedStatus, got, status, states)
		}
		return st
	}
	g.applied("a", "edge+c2", old, "")
	g.pair("a", c1, appcontext.Pair{Rev: 2, Desired: now, Applied: old, Held: []appcontext.Digest{old, now}, Phase: appcontext.Pending})
	want("the update has not begun", "status=deployed&instance=7", "Instantiated", "Applied:6 a on c1: same Applied, other Applied, only Applied; a on c2: same Applied, other Applied, only Applied")

	g.pair("a", c1, appcontext.Pair{Rev: 2, Desired: now, Held: []appcontext.Digest{old, now}, Phase: appcontext.Retrying})
	g.gone("a", "edge+c2")
	st := want("nothing is proved", "status=deployed&instance=7", "Updated", "Deleted:3 Retrying:3 a on c1: same Retrying, other Retrying, only Retrying; a on c2: same Deleted, other Deleted, only Deleted")
	if r := st.Apps[0].Clusters[0].Resources[1].Reason; !strings.Contains(r, "may exist") {
		t.Errorf("the reason is %q", r)
	}

	g.applied("a", c1, now, "c0ffee")
	st = want("the update is done", "status=deployed&instance=7", "Updated", "Applied:1 Deleted:5 a on c1: same Applied, other Deleted, only Deleted; a on c2: same Deleted, other Deleted, only Deleted")
	c := st.Apps[0].Clusters[0]
	if c.Resources[1].Reason != "it now has other content" || c.Resources[2].Reason != "" || c.Commit != "" || c.Revision != 0 || c.Phase != "" || st.Conditions != nil {
		t.Errorf("got %+v, %+v", c, st.Conditions)
	}

	g.report("a", c1, appcontext.Report{Resources: []appcontext.ResourceStatus{objectStatus(same, "Current", ""), objectStatus(is, "Current", ""), objectStatus(next, "Current", ""), pod("web", "Current")}})
	st = want("and ready", "status=ready&instance=7", "Updated", "NotPresent:2 Ready:1 Unknown:3 a on c1: same Ready, other NotPresent, only NotPresent; a on c2: same Unknown, other Unknown, only Unknown")
	if r := st.Apps[0].Clusters[0].Resources[1].Reason; r != "it now has other content" {
		t.Errorf("the reason is %q", r)
	}
	want("the latest instance", "status=ready&instance=72", "Instantiated", "Ready:4 a on c1: same Ready, other Ready, next Ready, web Ready")
	want("a part of it", "status=deployed&instance=7&output=summary&cluster=edge%2Bc1&resource=same", "Updated", "Applied:1")

	g.terminate()
	g.gone("a", c1)
	want("all is terminated", "status=deployed&instance=7", "Terminated", "Deleted:6 a on c1: same Deleted, other Deleted, only Deleted; a on c2: same Deleted, other Deleted, only Deleted")
}

func TestInstancesWithoutRevisions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}})
	g.step(func(h *appcontext.Head) { h.LastRev = 2; h.Failure = "why" }, appcontext.HistoryEntry{State: appcontext.Instantiated, Instance: "never-made", Revision: 2, Time: noon})
	g.publish(placedApps{"a": {c1: b}})
	for instance, kind := range map[string]errs.Kind{"never-made": errs.NotFound, "5": errs.Invalid} {
		if _, err := g.ask("instance=" + instance); !errs.Is(err, kind) {
			t.Errorf("instance %s: got %v, want one of kind %s", instance, err, kind)
		}
	}
	if _, err := g.ask("instance=5"); err.Error() != "Invalid query instance: the history has none with this id" {
		t.Errorf("got %v", err)
	}
	var states []string
	for _, a := range g.status("instance=7").States.Actions {
		states = append(states, a.Instance)
	}
	if want := []string{"7", "never-made", "73"}; !slices.Equal(states, want) {
		t.Errorf("the history is %q, want %q", states, want)
	}
}
