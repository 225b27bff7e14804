package orchestrator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

func patchEdit(app, value string, clusters []v2.ClusterKey) customize.Edit {
	return customize.Edit{App: app, Clusters: clusters, Origin: "customizations/" + value, Patch: &customize.Patch{
		Target: customize.Target{Kind: "ConfigMap", Name: "r1"}, Type: patch.Merge, Text: fmt.Appendf(nil, `{"data":{"size":%q}}`, value),
	}}
}

// sizes is a controller whose intents are sizes: it sets one on the clusters with a label.
type sizes struct{ failure error }

func (s *sizes) Customize(_ context.Context, c customize.Deployment) (out customize.Edits, err error) {
	if s.failure != nil {
		return out, s.failure
	}
	for _, app := range c.Apps {
		if clusters := app.Labelled(c.Inventory, "edge", c.Intent); len(clusters) > 0 {
			e := patchEdit(app.Name, c.Intent, clusters)
			e.Patch.Target.Name = "web"
			out.Edits = append(out.Edits, e)
		}
		out.Findings = append(out.Findings, customize.Finding{App: app.Name, Text: c.Intent + " was looked at"})
	}
	return out, nil
}

func TestAnIntentThatNamesAControllerIsCarriedOut(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	controller := &sizes{}
	p.groups.WithControllers(map[string]customize.Controller{"sizes": controller}, nil)
	p.fleet("edge", "a", "b")
	p.want(201, "POST cluster-providers/edge/clusters/b/labels", `{"clusterLabel":"large"}`)
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"k8s"},"spec":{"intent":{"sizes":"large","size":"x"}}}`)
	g.refused("approve", "", 400, `intent k8s: controller "size" is not known: the program has sizes, and no other of this name is registered; register it below /v2/controllers`)
	p.want(200, "PUT "+g.path()+"/intents/k8s", `{"metadata":{"name":"k8s"},"spec":{"intent":{"sizes":"large"}}}`)
	g.acts("approve")
	plan := p.want(200, "POST "+g.path()+"/instantiate?dryRun=true", "")
	if !strings.Contains(plan, `"size":"large"`) || strings.Count(plan, `"change":"add"`) < 2 || !strings.Contains(plan, `"large was looked at"`) {
		t.Errorf("the plan is %s", plan)
	}
	g.acts("instantiate")
	p.work()
	p.settle()
	if a, b := p.dataOf(g, "edge+a"), p.dataOf(g, "edge+b"); strings.Contains(a, "size") || !strings.Contains(b, `"size":"large"`) {
		t.Errorf("a holds %s, b holds %s", a, b)
	}

	controller.failure = errs.New(errs.Invalid, "there is no such size")
	g.refused("update", "", 400, "controller sizes: there is no such size")
}

// A registered controller is called in the order of the priorities. If it fails, the action does,
// and nothing changes.
func TestARegisteredControllerIsCalled(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	far := &sizes{}
	var dialled []string
	p.groups.WithControllers(map[string]customize.Controller{"near": &sizes{}}, nil).WithExternal(func(c v2.Controller) customize.Controller {
		dialled = append(dialled, fmt.Sprint(c.Spec.Host, ":", c.Spec.Port))
		return far
	}, nil)
	p.fleet("edge", "a", "b")
	p.want(201, "POST cluster-providers/edge/clusters/a/labels", `{"clusterLabel":"small"}`)
	p.want(201, "POST cluster-providers/edge/clusters/a/labels", `{"clusterLabel":"large"}`)
	p.want(201, "POST controllers", `{"metadata":{"name":"far"},"spec":{"host":"far.example.org","port":9000,"type":"action","priority":5}}`)
	p.want(201, "POST controllers", `{"metadata":{"name":"places"},"spec":{"host":"places.example.org","port":9000,"type":"advice","priority":1}}`)
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"k8s"},"spec":{"intent":{"places":"x"}}}`)
	g.refused("approve", "", 400, `controller "places" is registered with type "advice"; only controllers of type "action" or "placement" are called`)
	p.want(200, "PUT "+g.path()+"/intents/k8s", `{"metadata":{"name":"k8s"},"spec":{"intent":{"far":"small","near":"large"}}}`)
	g.acts("approve", "instantiate")
	p.work()
	p.settle()
	if a, b := p.dataOf(g, "edge+a"), p.dataOf(g, "edge+b"); !strings.Contains(a, `"size":"small"`) || strings.Contains(b, "size") {
		t.Errorf("a holds %s, b holds %s: the controller of the higher priority number is called last", a, b)
	}
	if len(dialled) == 0 || dialled[0] != "far.example.org:9000" {
		t.Errorf("dialled %v", dialled)
	}
	before := g.history()
	far.failure = errs.New(errs.Unavailable, "it does not answer")
	g.refused("update", "", 503, "controller far: it does not answer")
	equal(t, "history", g.history(), before)
}

// adder is a controller that adds one object everywhere.
type adder string

func (a adder) Customize(_ context.Context, c customize.Deployment) (out customize.Edits, err error) {
	for _, app := range c.Apps {
		out.Edits = append(out.Edits, customize.Edit{App: app.Name, Origin: "the adder", Object: []byte(a)})
	}
	return out, nil
}

// What controllers add is within the bounds of a logical cloud of level 1, too.
func TestALevel1CloudBoundsItsControllers(t *testing.T) {
	t.Parallel()
	p, g := newLevel1Group(t)
	p.groups.WithControllers(map[string]customize.Controller{"adder": adder("")}, nil)
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"k8s"},"spec":{"intent":{"adder":"i"}}}`)
	g.acts("approve")
	for object, refused := range map[string]bool{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n":                                                     false,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: bank}\n":                                    true,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n":                                                      true,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\nrules: []\n":                true,
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: e, namespace: bank}}]\n": true,
	} {
		p.groups.WithControllers(map[string]customize.Controller{"adder": adder(object)}, nil)
		if f := g.planOf("instantiate").Apps[0].Failure; (f != nil) != refused {
			t.Errorf("%q: the failure is %+v, want one: %v", object, f, refused)
		}
	}
}

// dataOf returns what a cluster holds of a group.
func (p *controlPlane) dataOf(g testGroup, cluster v2.ClusterKey) string {
	p.Helper()
	pairs, err := p.contexts.PairsOf(p.Context(), g.head().Deployment())
	p.must(err)
	var out strings.Builder
	for _, pair := range pairs {
		if pair.Key.Cluster != cluster {
			continue
		}
		b, err := p.contexts.GetBundle(p.Context(), pair.Applied)
		p.must(err)
		for _, o := range b.Objects {
			text, err := p.contexts.GetBlob(p.Context(), o.Digest)
			p.must(err)
			out.Write(text)
		}
	}
	return out.String()
}

// Override values may be for some clusters, and may name facts of clusters.
func TestOverrideValuesDifferByCluster(t *testing.T) {
	t.Parallel()
	counting := &rendertest.Recorder{}
	p := newControlPlane(t)
	p.renderer = counting
	p.boot()
	p.fleet("edge", "a", "b", "c")
	p.want(201, "POST cluster-providers/edge/clusters/c/labels", `{"clusterLabel":"large"}`)
	for cluster, zone := range map[string]string{"a": "north", "b": "north", "c": "south"} {
		p.want(201, "POST cluster-providers/edge/clusters/"+cluster+"/kv-pairs", `{"metadata":{"name":"facts"},"spec":{"kv":[{"zone":"`+zone+`"}]}}`)
	}
	p.onboard("v1")
	g := p.group("v1", "g")
	all, _, _ := strings.Cut(g.path(), "/g")
	group := func(values string) string {
		return `{"metadata":{"name":"g"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores","overrideValues":` + values + `}}`
	}
	p.want(400, "POST "+all, group(`[{"app":"web","values":{"a":"{{ .cluster.size }}"}}]`))
	p.want(400, "POST "+all, group(`[{"app":"web","clusters":[{"clusterLabel":"large"}],"values":{"a":"b"}}]`))
	p.want(201, "POST "+all, group(`[{"app":"web","values":{"a":"b"}},{"app":"web","values":{"zone":"{{ .cluster.kv.zone }}"}},{"app":"web","clusters":[{"clusterProvider":"edge","clusterLabel":"large"}],"values":{"a":"c"}}]`))
	g.intend("edge")
	g.acts("approve", "instantiate")
	p.work()
	p.settle()
	equal(t, "renderings", counting.Taken(), "[{a b} {zone north}] [{a b} {zone south} {a c}]")

	p.want(201, "PUT cluster-providers/edge/clusters/b/kv-pairs/facts", `{"metadata":{"name":"facts"},"spec":{"kv":[{"zone":"west"}]}}`)
	g.acts("update")
	p.work()
	equal(t, "renderings after a fact has changed", counting.Taken(), "[{a b} {zone west}]")
	if classes := len(g.revisionOf(2).Apps[0].Bundles); classes != 3 {
		t.Errorf("%d bundles, want 3", classes)
	}

	p.want(201, "PUT cluster-providers/edge/clusters/b/kv-pairs/facts", `{"metadata":{"name":"facts"},"spec":{"kv":[{"region":"west"}]}}`)
	g.refused("update", "", 400, `app web: cluster edge+b has no key-value pair "zone"`)
}

func (g testGroup) revisionOf(n int64) appcontext.Revision {
	g.Helper()
	rev, err := g.contexts.Revision(g.Context(), g.head().UID, n)
	g.must(err)
	return rev
}

// Revisions of older versions have one class, and it is found.
func TestClassesOfOlderRevisionsAreKnown(t *testing.T) {
	t.Parallel()
	old := appcontext.App{Bundles: []appcontext.Digest{"b"}, Class: "c"}
	equal(t, "the classes", fmt.Sprint(old.ClassList()), "[c]")
	failed := appcontext.App{Classes: []appcontext.Digest{"c", "d"}}
	equal(t, "the classes of a failed app", fmt.Sprint(failed.ClassList()), "[]")
}
