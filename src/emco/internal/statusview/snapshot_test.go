package statusview

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// appPair is one app of a case with its pair, nil for none.
type appPair struct {
	app  string
	pair *appcontext.Pair
}

func TestDeployedStatus(t *testing.T) {
	t.Parallel()
	var (
		applied  = &appcontext.Pair{Rev: 2, Desired: "new", Applied: "new", Phase: appcontext.Applied}
		since    = &appcontext.Pair{Rev: 1, Desired: "new", Applied: "new", Phase: appcontext.Applied}
		older    = &appcontext.Pair{Rev: 1, Desired: "old", Applied: "old", Phase: appcontext.Applied}
		unproved = &appcontext.Pair{Rev: 2, Desired: "new", Applied: "old", Phase: appcontext.Applied}
		pending  = &appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Pending}
		retrying = &appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Retrying, Error: "away"}
		failed   = &appcontext.Pair{Rev: 2, Desired: "new", Phase: appcontext.Failed, Error: "refused"}
		failed1  = &appcontext.Pair{Rev: 1, Desired: "new", Phase: appcontext.Failed, Error: "refused"}
		deleting = &appcontext.Pair{Rev: 2, Phase: appcontext.Deleting}
		stuck    = &appcontext.Pair{Rev: 2, Phase: appcontext.Failed, Error: "away"}
	)
	op := func(h *appcontext.Head) { h.Op = &appcontext.Operation{} }
	gone := func(h *appcontext.Head) { h.Gone, h.State = true, appcontext.Terminated }
	stopped := func(h *appcontext.Head) { h.Stopped = true }
	fail := func(h *appcontext.Head) { h.Failure = "why" }
	never := func(h *appcontext.Head) { h.Rev = 0 }
	tests := []struct {
		name   string
		places []appPair
		left   []*appcontext.Pair
		head   []func(*appcontext.Head)
		want   string
	}{
		{"nothing was ever wanted", nil, nil, []func(*appcontext.Head){never}, ""},
		{"an operation waits, whatever there is", []appPair{{"a", failed}}, nil, []func(*appcontext.Head){op}, "Instantiating"},
		{"the first operation could not be carried out", nil, nil, []func(*appcontext.Head){never, fail}, "InstantiateFailed"},
		{"the last operation could not be carried out", []appPair{{"a", applied}}, nil, []func(*appcontext.Head){fail}, "InstantiateFailed"},
		{"rsync has not begun", []appPair{{"a", nil}}, nil, nil, "Instantiating"},
		{"a pair waits", []appPair{{"a", applied}, {"b", pending}}, nil, nil, "Instantiating"},
		{"a pair is tried again", []appPair{{"a", applied}, {"b", retrying}}, nil, nil, "Instantiating"},
		{"one failed, one is tried again", []appPair{{"a", failed}, {"b", retrying}}, nil, nil, "Instantiating"},
		{"one failed, nothing is left to wait for", []appPair{{"a", failed}, {"b", applied}}, nil, nil, "InstantiateFailed"},
		{"there is proof of all", []appPair{{"a", applied}, {"b", applied}}, nil, nil, "Instantiated"},
		{"an older revision put the same there", []appPair{{"a", since}}, nil, nil, "Instantiated"},
		{"an older revision put something else there", []appPair{{"a", older}}, nil, nil, "Instantiating"},
		{"the proof is one of something else", []appPair{{"a", unproved}}, nil, nil, "Instantiating"},
		{"it failed for an older revision", []appPair{{"a", failed1}}, nil, nil, "Instantiating"},
		{"a pair is still being removed from an earlier life", []appPair{{"a", deleting}}, nil, nil, "Instantiating"},
		{"something has to go, and goes", []appPair{{"a", applied}}, []*appcontext.Pair{deleting}, nil, "Instantiating"},
		{"something has to go, and cannot", []appPair{{"a", applied}}, []*appcontext.Pair{stuck}, nil, "InstantiateFailed"},
		{"terminated, all gone", []appPair{{"a", nil}}, nil, []func(*appcontext.Head){gone}, "Terminated"},
		{"terminated, rsync has not begun", []appPair{{"a", applied}}, []*appcontext.Pair{applied}, []func(*appcontext.Head){gone}, "Terminating"},
		{"terminated, what failed before is not tried yet", []appPair{{"a", failed}}, []*appcontext.Pair{failed}, []func(*appcontext.Head){gone}, "Terminating"},
		{"terminated, one is being removed", nil, []*appcontext.Pair{deleting, stuck}, []func(*appcontext.Head){gone}, "Terminating"},
		{"terminated, none can be removed", nil, []*appcontext.Pair{stuck}, []func(*appcontext.Head){gone}, "TerminateFailed"},
		{"F05: none could be removed, and a user asked again", nil, []*appcontext.Pair{stuck}, []func(*appcontext.Head){gone, func(h *appcontext.Head) { h.Terminated = noon }}, "Terminating"},
		{"stopped on the way", []appPair{{"a", pending}}, nil, []func(*appcontext.Head){stopped, op}, "InstantiateFailed"},
		{"stopped while it was removed", []appPair{{"a", deleting}}, []*appcontext.Pair{deleting}, []func(*appcontext.Head){stopped, gone}, "TerminateFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Snapshot{
				Head: appcontext.Head{UID: "7", State: appcontext.Instantiated, Rev: 2, LastRev: 2},
				Rev:  appcontext.Revision{Number: 2},
			}
			for _, change := range tt.head {
				change(&s.Head)
			}
			for _, p := range tt.left {
				s.left = append(s.left, *p)
			}
			for _, p := range tt.places {
				one := placeStatus{desiredPlace: &desiredPlace{"edge+c1", "new"}, pair: p.pair}
				one.state = s.state(one)
				s.apps = append(s.apps, appPlaces{App: appcontext.App{Name: p.app}, places: []placeStatus{one}})
			}
			if got := s.Deployed(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAppsThatFailedMakeADeploymentFail(t *testing.T) {
	t.Parallel()
	s := Snapshot{Head: appcontext.Head{Rev: 1}, apps: []appPlaces{{App: appcontext.App{Name: "a", Failure: &appcontext.Failure{Stage: "rendering"}}}}}
	if got := s.Deployed(); got != "InstantiateFailed" {
		t.Errorf("got %q", got)
	}
}
