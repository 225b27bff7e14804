package revision_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
)

const (
	sound    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n"
	nameless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n"
)

// fixture is a builder with what its tests look at.
type fixture struct {
	*testing.T
	revision.Builder
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	renderer := rendertest.Plain{}
	contexts := contexttest.New(t)
	return fixture{t, revision.Builder{Contexts: contexts, Renderer: renderer, Blobs: contexts}}
}

// app is a chart with one template, placed on clusters.
func (s fixture) app(name, template string, clusters ...v2.ClusterKey) plan.App {
	s.Helper()
	packed, err := rendertest.Pack(map[string]string{
		name + "/Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n", name + "/templates/object.yaml": template,
	})
	if err != nil {
		s.Fatal(err)
	}
	return plan.App{
		Name: name, Decision: placement.Decision{Clusters: clusters},
		Request: render.Request{App: name, Package: rendertest.Archive(packed), Release: "r1", Namespace: "default"},
	}
}

// wait queues an operation for revision rev, on top of head.
func (s fixture) wait(head appcontext.Head, rev int64) appcontext.Head {
	s.Helper()
	to := head
	to.UID, to.State, to.LastRev = "7", appcontext.Instantiated, rev
	next, err := s.Contexts.ChangeHead(s.Context(), head, to, nil, &appcontext.Operation{ID: fmt.Sprint("op", rev), Instance: "7", Rev: rev})
	if err != nil {
		s.Fatal(err)
	}
	return next
}

func (s fixture) mustPublish(head appcontext.Head, apps ...plan.App) appcontext.Head {
	s.Helper()
	next, err := s.Publish(s.Context(), head, plan.Plan{Namespace: "default", Apps: apps})
	if err != nil {
		s.Fatal(err)
	}
	return next
}

// placed returns "cluster app digest" of each placement of a revision, sorted by cluster.
func (s fixture) placed(rev int64) map[string]appcontext.Digest {
	s.Helper()
	out := map[string]appcontext.Digest{}
	all, err := s.Contexts.Placements(s.Context(), "7", rev)
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range all {
		for app, bundle := range p.Apps {
			out[string(p.Cluster)+" "+app] = bundle
		}
	}
	return out
}

func (s fixture) revision(n int64) appcontext.Revision {
	s.Helper()
	rev, err := s.Contexts.Revision(s.Context(), "7", n)
	if err != nil {
		s.Fatal(err)
	}
	return rev
}

// A rule that warns of each of many objects in other words does not keep the app from being published.
func TestFindingsAreLimited(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var objects strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&objects, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: the-long-name-of-map-%04d}\n", i)
	}
	app := s.app("web", objects.String(), "p+a")
	rule := v2.Validation{Name: "own-key", Expression: "object.metadata[object.metadata.name] == 'x'", Message: "has no key of its own name"} // its reason quotes the name
	app.Policies = plan.Policies{guard.FromSpec("own", v2.PolicySpec{Mode: v2.PolicyReport, Allow: []string{"kinds"}, Validations: []v2.Validation{rule}})}
	head := s.wait(appcontext.Head{}, 1)
	for rev := range int64(2) { // the second revision takes over the content of the first
		head = s.mustPublish(head, app)
		all := s.revision(rev + 1).Apps[0].Findings
		if len(all) != 51 || !strings.Contains(all[0], "map-0000") || all[50] != "… and 1450 more findings" {
			t.Errorf("revision %d has %d findings, the first %q, the last %q", rev+1, len(all), all[0], all[len(all)-1])
		}
		head = s.wait(head, rev+2)
	}
}

func TestARevisionHoldsWhatCouldBeBuilt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	lost := s.app("lost", sound)
	lost.Refusal = errors.New("no cluster has the label")
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("bad", nameless, "p+a"), s.app("good", sound, "p+a", "p+b"), lost)
	if head.Rev != 1 || head.Op != nil || head.Gone {
		t.Errorf("head is %+v", head)
	}
	placed := s.placed(1)
	if len(placed) != 2 || placed["p+a good"] == "" || placed["p+a good"] != placed["p+b good"] {
		t.Errorf("placed %v, want one bundle on both clusters", placed)
	}
	apps := s.revision(1).Apps
	if f := apps[0].Failure; f == nil || f.Stage != "rendering" || !strings.Contains(f.File, "templates/object.yaml") || f.Reason == "" || len(apps[0].Bundles) > 0 {
		t.Errorf("the bad app: %+v, failure %+v", apps[0], f)
	}
	if apps[1].Failure != nil || len(apps[1].Bundles) != 1 {
		t.Errorf("the good app: %+v", apps[1])
	}
	if f := apps[2].Failure; f == nil || f.Stage != "placement" || f.Reason != "no cluster has the label" {
		t.Errorf("the app without a place: %+v", f)
	}
}

func TestWhatFailsStaysWhereItWas(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("a", sound, "p+a", "p+b"), s.app("b", sound, "p+a"))
	first := s.placed(1)
	head = s.mustPublish(s.wait(head, 2), s.app("a", nameless, "p+c"), s.app("b", sound, "p+c"))
	second := s.placed(2)
	want := map[string]appcontext.Digest{"p+a a": first["p+a a"], "p+b a": first["p+b a"], "p+c b": first["p+a b"]}
	if fmt.Sprint(second) != fmt.Sprint(want) {
		t.Errorf("placed %v, want %v", second, want)
	}

	gone := head
	gone.Gone = true
	gone, err := s.Contexts.ChangeHead(t.Context(), head, gone, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.mustPublish(s.wait(gone, 3), s.app("a", nameless, "p+a"), s.app("b", sound, "p+a"))
	if third := s.placed(3); len(third) != 1 || third["p+a b"] == "" {
		t.Errorf("after a termination nothing is left as it was; placed %v", third)
	}
}

// brokenRenderer is a renderer that is out of order.
type brokenRenderer struct{ err error }

func (brokenRenderer) Edition() string { return "out" }

func (o brokenRenderer) Render(context.Context, render.Request) (render.Result, error) {
	return render.Result{}, o.err
}

func TestABrokenPartMakesNoRevision(t *testing.T) {
	t.Parallel()
	for _, kind := range []errs.Kind{errs.Internal, errs.Unavailable, errs.Throttled} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.Renderer = brokenRenderer{errs.New(kind, "the disk is away")}
			head := s.wait(appcontext.Head{}, 1)
			_, err := s.Publish(t.Context(), head, plan.Plan{Apps: []plan.App{s.app("a", sound, "p+a")}})
			if !errs.Is(err, kind) {
				t.Errorf("got %v, want kind %s", err, kind)
			}
			now, err := s.Contexts.Head(t.Context(), "7")
			if err != nil || now.Rev != 0 || now.Op == nil {
				t.Errorf("head is %+v, %v; want it to wait still", now, err)
			}
		})
	}
}

// An app with the same inputs as in the revision before is not rendered again, even for other
// clusters: a broken renderer is not called.
func TestWhatHasNotChangedIsNotRenderedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("a", sound, "p+a"), s.app("b", sound, "p+a"))
	first := s.placed(1)
	working := s.Renderer
	s.Renderer = sameEdition{brokenRenderer{errs.New(errs.Unavailable, "the disk is away")}, working.Edition()}
	head = s.mustPublish(s.wait(head, 2), s.app("a", sound, "p+a", "p+b"), s.app("b", sound, "p+a"))
	second := s.placed(2)
	want := map[string]appcontext.Digest{"p+a a": first["p+a a"], "p+b a": first["p+a a"], "p+a b": first["p+a b"]}
	if fmt.Sprint(second) != fmt.Sprint(want) {
		t.Errorf("placed %v, want %v", second, want)
	}

	other := s.app("a", sound, "p+a")
	other.Request.Overrides = []render.Override{{Key: "k", Value: "v"}}
	if _, err := s.Publish(t.Context(), s.wait(head, 3), plan.Plan{Apps: []plan.App{other}}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("another value: got %v, want it to be rendered", err)
	}
	s.Renderer = brokenRenderer{errs.New(errs.Unavailable, "the disk is away")}
	if _, err := s.Publish(t.Context(), head, plan.Plan{Apps: []plan.App{s.app("b", sound, "p+a")}}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("another edition: got %v, want it to be rendered", err)
	}
}

// sameEdition is a renderer with another edition.
type sameEdition struct {
	render.Renderer
	edition string
}

func (s sameEdition) Edition() string { return s.edition }

func TestARevisionThatWasOvertakenIsDropped(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.wait(appcontext.Head{}, 1)
	to := head
	to.State, to.Op, to.Gone = appcontext.Terminated, nil, true
	if _, err := s.Contexts.ChangeHead(t.Context(), head, to, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.Publish(t.Context(), head, plan.Plan{Apps: []plan.App{s.app("a", sound, "p+a")}})
	if !errs.Is(err, errs.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if _, err := s.Contexts.Revision(t.Context(), "7", 1); !errs.Is(err, errs.NotFound) {
		t.Errorf("the revision can be read: %v", err)
	}
}

func TestVerdictsAreCapped(t *testing.T) {
	t.Parallel()
	const limit = 50
	s := newFixture(t)
	a := s.app("a", sound, "p+a")
	for i := range limit + 10 {
		a.Decision.Refused = append(a.Decision.Refused, placement.Verdict{Cluster: v2.ClusterKey(fmt.Sprint("p+", i)), Reason: "full"})
	}
	s.mustPublish(s.wait(appcontext.Head{}, 1), a)
	if got := s.revision(1).Apps[0].Verdicts; len(got) != limit || got[0] != (appcontext.Verdict{Cluster: "p+0", Reason: "full"}) {
		t.Errorf("%d verdicts, the first is %+v", len(got), got[0])
	}
}

// What the run time needs to keep the order goes with the revision, and comes back with
// a rollback: the order of then, not that of now.
func TestRevisionsCarryTheOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	db, web := s.app("db", sound, "p+a"), s.app("web", sound, "p+a")
	web.Order = plan.Order{DependsOn: []appcontext.Dependency{{App: "db", Ready: true, Delay: 5}}, LeaveLast: true}
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), db, web)
	web.Order = plan.Order{Rollout: &appcontext.Rollout{Waves: []appcontext.Wave{{Percent: 10, Pause: true}}, Bake: 60}}
	head = s.mustPublish(s.wait(head, 2), db, web)

	head = s.wait(head, 3)
	head.Op.Kind, head.Op.From, head.Op.Reason = "rollback", 1, "as before"
	if _, err := s.Restore(t.Context(), head, nil); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]string{
		1: "[{db true 5}] true <nil>", 2: "[] false &{[{0 10  <nil> true}] 60}", 3: "[{db true 5}] true <nil>",
	} {
		a := s.revision(n).Apps[1]
		if got := fmt.Sprint(a.DependsOn, a.LeaveLast, " ", a.Rollout); got != want {
			t.Errorf("revision %d: got %s, want %s", n, got, want)
		}
	}
	if r := s.revision(3); r.Kind != "rollback" || r.From != 1 || r.Reason != "as before" {
		t.Errorf("the rollback's revision is %+v", r)
	}
}

// A cluster reports the stamps of its objects. Without the stamps in the bundle any old
// content would count as Ready.
func TestBundlesHoldTheStampOfEachObject(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("web", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n", "p+a"))
	rev, err := s.Contexts.Revision(t.Context(), "7", 1)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := s.Contexts.GetBundle(t.Context(), rev.Apps[0].Bundles[0])
	if err != nil || len(bundle.Objects) != 1 {
		t.Fatalf("bundle %+v, %v, want one object", bundle, err)
	}
	ref := bundle.Objects[0]
	content, err := s.Contexts.GetBlob(t.Context(), ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Object{ID: ref.ID, Content: content}.Stamp()
	if want == "" || ref.Stamp != want {
		t.Errorf("the bundle has the stamp %q, the object %q", ref.Stamp, want)
	}
}
