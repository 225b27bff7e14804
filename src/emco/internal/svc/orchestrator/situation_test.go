package orchestrator

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// keyOf is a pair of deployment 7 on cluster edge+c1.
func keyOf(app string) appcontext.PairKey {
	return appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: app}
}

// desired is a situation in which revision 2 wants bundle "new" of each app.
func desired(apps ...string) situation {
	s := situation{
		head:  appcontext.Head{UID: "7", State: appcontext.Instantiated, Rev: 2, LastRev: 2},
		rev:   appcontext.Revision{Number: 2},
		wants: []appcontext.Placement{{Cluster: "edge+c1", Apps: map[string]appcontext.Digest{}}},
		pairs: map[appcontext.PairKey]appcontext.Pair{},
	}
	for _, app := range apps {
		s.rev.Apps = append(s.rev.Apps, appcontext.App{Name: app, Bundles: []appcontext.Digest{"new"}})
		s.wants[0].Apps[app] = "new"
	}
	return s
}

// with adds the pair of an app.
func (s situation) with(app string, p appcontext.Pair) situation {
	p.Key = keyOf(app)
	s.pairs[p.Key] = p
	return s
}

// but changes the head.
func (s situation) but(change func(*appcontext.Head)) situation {
	change(&s.head)
	return s
}

func TestDeployedStatus(t *testing.T) {
	t.Parallel()
	var (
		applied  = appcontext.Pair{Rev: 2, Desired: "new", Applied: "new", Phase: appcontext.Applied}
		since    = appcontext.Pair{Rev: 1, Desired: "new", Applied: "new", Phase: appcontext.Applied}
		older    = appcontext.Pair{Rev: 1, Desired: "old", Applied: "old", Phase: appcontext.Applied}
		pending  = appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Pending}
		retrying = appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Retrying, Error: "away"}
		failed   = appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Failed, Error: "refused"}
		failed1  = appcontext.Pair{Rev: 1, Desired: "new", Phase: appcontext.Failed, Error: "refused"}
		deleting = appcontext.Pair{Rev: 2, Phase: appcontext.Deleting}
		stuck    = appcontext.Pair{Rev: 2, Phase: appcontext.Failed, Error: "away"}
	)
	gone := func(h *appcontext.Head) { h.Gone, h.State = true, appcontext.Terminated }
	tests := []struct {
		name string
		s    situation
		want string
	}{
		{"nothing was ever wanted", situation{head: appcontext.Head{UID: "7"}}, ""},
		{"an operation waits, whatever there is", desired("a").with("a", failed).but(func(h *appcontext.Head) { h.Op = &appcontext.Operation{} }), "Instantiating"},
		{"the first operation could not be carried out", situation{head: appcontext.Head{UID: "7", Failure: "why"}}, "InstantiateFailed"},
		{"the last operation could not be carried out", desired("a").with("a", applied).but(func(h *appcontext.Head) { h.Failure = "why" }), "InstantiateFailed"},
		{"rsync has not begun", desired("a"), "Instantiating"},
		{"a pair waits", desired("a", "b").with("a", applied).with("b", pending), "Instantiating"},
		{"a pair is tried again", desired("a", "b").with("a", applied).with("b", retrying), "Instantiating"},
		{"one failed, one is tried again", desired("a", "b").with("a", failed).with("b", retrying), "Instantiating"},
		{"one failed, nothing is left to wait for", desired("a", "b").with("a", failed).with("b", applied), "InstantiateFailed"},
		{"there is proof of all", desired("a", "b").with("a", applied).with("b", applied), "Instantiated"},
		{"an older revision put the same there", desired("a").with("a", since), "Instantiated"},
		{"an older revision put something else there", desired("a").with("a", older), "Instantiating"},
		{"it failed for an older revision", desired("a").with("a", failed1), "Instantiating"},
		{"a pair is still being removed from an earlier life", desired("a").with("a", deleting), "Instantiating"},
		{"all apps failed to render", func() situation {
			s := desired()
			s.rev.Apps = []appcontext.App{{Name: "a", Failure: &appcontext.Failure{Stage: "rendering"}}}
			return s
		}(), "InstantiateFailed"},
		{"terminated, all gone", desired("a").but(gone), "Terminated"},
		{"terminated, rsync has not begun", desired("a").with("a", applied).but(gone), "Terminating"},
		{"terminated, what failed before is not tried yet", desired("a").with("a", failed).but(gone), "Terminating"},
		{"terminated, one is being removed", desired("a", "b").with("a", deleting).with("b", stuck).but(gone), "Terminating"},
		{"terminated, none can be removed", desired("a").with("a", stuck).but(gone), "TerminateFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.outdate()
			if got := tt.s.deployed(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOutdatedPairsLoseTheirErrors(t *testing.T) {
	t.Parallel()
	s := desired("a").with("a", appcontext.Pair{Rev: 1, Desired: "old", Applied: "old", Phase: appcontext.Failed, Error: "refused"})
	s.outdate()
	if p := s.pairs[keyOf("a")]; p.Phase != appcontext.Pending || p.Error != "" || p.Applied != "old" {
		t.Errorf("got %+v", p)
	}
}
