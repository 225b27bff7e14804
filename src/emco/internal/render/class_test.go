package render_test

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

func request() render.Request {
	return render.Request{
		App:       "web",
		Package:   render.Archive{Digest: manifest.DigestOf([]byte("p"))},
		Profile:   render.Archive{Digest: manifest.DigestOf([]byte("q"))},
		Overrides: []render.Override{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}},
		Release:   "r1",
		Namespace: "ns",
		Labels:    []render.Label{{Key: "x", Value: "1"}, {Key: "y", Value: "2"}},
	}
}

func TestEverythingThatCountsChangesTheClass(t *testing.T) {
	t.Parallel()
	classes := map[manifest.Digest]string{render.Class("e", request()): "the request itself", render.Class("f", request()): "another edition"}
	for name, change := range map[string]func(*render.Request){
		"another app":                 func(r *render.Request) { r.App = "db" },
		"another package":             func(r *render.Request) { r.Package.Digest = "p2" },
		"another profile":             func(r *render.Request) { r.Profile.Digest = "q2" },
		"no profile":                  func(r *render.Request) { r.Profile = render.Archive{} },
		"swapped archives":            func(r *render.Request) { r.Package, r.Profile = r.Profile, r.Package },
		"another override":            func(r *render.Request) { r.Overrides[0].Value = "3" },
		"another order of overrides":  func(r *render.Request) { r.Overrides[0], r.Overrides[1] = r.Overrides[1], r.Overrides[0] },
		"fewer overrides":             func(r *render.Request) { r.Overrides = r.Overrides[:1] },
		"no overrides":                func(r *render.Request) { r.Overrides = nil },
		"an override cut differently": func(r *render.Request) { r.Overrides[0] = render.Override{Key: "a1", Value: ""} },
		"another release":             func(r *render.Request) { r.Release = "r2" },
		"another namespace":           func(r *render.Request) { r.Namespace = "ns2" },
		"another label":               func(r *render.Request) { r.Labels[0].Value = "3" },
		"a label turned override": func(r *render.Request) {
			r.Overrides = append(r.Overrides, render.Override(r.Labels[0]))
			r.Labels = r.Labels[1:]
		},
	} {
		r := request()
		change(&r)
		class := render.Class("e", r)
		if other, ok := classes[class]; ok {
			t.Errorf("%s has the class of %s", name, other)
		}
		classes[class] = name
	}
}

func TestTheOrderOfLabelsDoesNotCount(t *testing.T) {
	t.Parallel()
	a, b := request(), request()
	b.Labels[0], b.Labels[1] = b.Labels[1], b.Labels[0]
	if render.Class("e", a) != render.Class("e", b) || b.Labels[0].Key != "y" {
		t.Errorf("classes are %s and %s, labels now %v", render.Class("e", a), render.Class("e", b), b.Labels)
	}
}

func TestFaultsReportKnownFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault render.Fault
		want  string
	}{
		{render.Fault{App: "web", File: "web/a.yaml", Line: 3, Reason: "is odd"}, "app web: web/a.yaml:3: is odd"},
		{render.Fault{App: "web", File: "web/a.yaml", Reason: "is odd"}, "app web: web/a.yaml: is odd"},
		{render.Fault{App: "web", Reason: "is odd"}, "app web: is odd"},
	} {
		if got := fmt.Sprint(tt.fault.Invalid()); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
