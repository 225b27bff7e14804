package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Clients poll statuses. A status reads what places the apps only if a document has changed that the places may follow from.
func TestAPolledStatusReadsFewDocuments(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	p := newControlPlaneOn(t, store.New(reads, blobs, seal.New(seal.NewKey())), contexttest.New(t), rendertest.Plain{})
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	p.onboard("v2")
	g := p.runs("v1", "g", "edge")
	label := "cluster-providers/edge/clusters/b/labels"
	intents := g.path() + "/generic-placement-intents/places/app-intents"
	g.status()
	for _, tt := range []struct {
		name, do, body string
		lists          bool
		outdated       string // how it ends
	}{
		{name: "nothing"},
		{name: "another version of the composite app", do: "DELETE projects/shop/composite-apps/till/v2/composite-profiles/small/profiles/web"},
		{name: "another project", do: "POST projects", body: name("other")},
		{name: "a label", do: "DELETE " + label + "/all", lists: true, outdated: "remove app web from edge+b"},
		{name: "nothing, while an update would change something", outdated: "remove app web from edge+b"},
		{name: "the label again", do: "POST " + label, body: `{"clusterLabel":"all"}`, lists: true},
		{name: "an intent", do: "PUT " + intents + "/web", body: `{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"a"}]}}}`, lists: true, outdated: "remove app web from edge+b"},
		{name: "the intent again", do: "PUT " + intents + "/web", body: `{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`, lists: true},
		{name: "the clusters of a logical cloud", do: "POST projects/shop/logical-clouds", body: `{"metadata":{"name":"more"},"spec":{"level":"0"}}`, lists: true},
		{name: "an unknown controller", do: "POST controllers", body: `{"metadata":{"name":"c"},"spec":{"host":"127.0.0.1","port":1,"type":"action","priority":1}}`, lists: true},
	} {
		if tt.do != "" {
			method, path, _ := strings.Cut(tt.do, " ")
			if a := p.send(apiRequest{do: method + " " + path, body: tt.body}); a.status >= 300 {
				t.Fatalf("%s: got %d %s", tt.name, a.status, a.body)
			}
		}
		reads.Got.Store(0)
		reads.Listed.Store(0)
		s := g.status()
		if !strings.HasSuffix(s.Outdated, tt.outdated) || tt.outdated == "" && s.Outdated != "" {
			t.Errorf("%s: outdated is %q, want …%q", tt.name, s.Outdated, tt.outdated)
		}
		if n := reads.Listed.Load(); n > 0 != tt.lists {
			t.Errorf("%s: %d documents were listed", tt.name, n)
		}
		if n := reads.Got.Load(); !tt.lists && n > 2 {
			t.Errorf("%s: %d documents were read, want the group for the request and for its answer", tt.name, n)
		}
	}
}

// The status tells that an update would render an app again: after changes of its package and its profile, and of the facts and labels
// that its override values follow from. It does not if an update would fail.
func TestTheStatusTellsWhatAnUpdateWouldRenderAgain(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	facts := "cluster-providers/edge/clusters/b/kv-pairs"
	fact := func(do, zone string) func() {
		return func() {
			p.want(201, do, `{"metadata":{"name":"facts"},"spec":{"kv":[{`+zone+`}]}}`)
		}
	}
	fact("POST "+facts, `"zone":"north"`)()
	fact("POST cluster-providers/edge/clusters/a/kv-pairs", `"zone":"north"`)()
	p.want(201, "POST cluster-providers/edge/clusters/a/labels", `{"clusterLabel":"large"}`)
	g := p.group("v1", "g")
	all, _, _ := strings.Cut(g.path(), "/g")
	p.want(201, "POST "+all, `{"metadata":{"name":"g"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores","overrideValues":[
		{"app":"web","values":{"zone":"{{ .cluster.kv.zone }}"}},{"app":"web","clusters":[{"clusterProvider":"edge","clusterLabel":"large"}],"values":{"size":"2"}}]}}`)
	g.intend("edge")
	g.acts("approve", "instantiate")
	p.work()
	p.settle()

	app := strings.TrimSuffix(all, "/deployment-intent-groups")
	profile := func(values string) func() {
		return func() {
			p.upload("PUT "+app+"/composite-profiles/small/profiles/web", `{"metadata":{"name":"web"},"spec":{"app":"web"}}`,
				p.pack(map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": values}))
		}
	}
	chart := func(archive string) func() {
		return func() { p.upload("PUT "+app+"/apps/web", name("web"), archive) }
	}
	const again = "packages, profiles, labels or key-value pairs have changed: an update would render app web again"
	check := func(when, want string) {
		t.Helper()
		equal(t, when, g.status().Outdated, want)
	}
	check("nothing", "")
	for _, tt := range []struct {
		name   string
		change func()
		want   string
	}{
		{"the same package", chart(p.chart("v1")), ""},
		{"another package", chart(p.chart("v2")), again},
		{"another profile", profile("a: c\n"), again},
		{"a fact", fact("PUT "+facts+"/facts", `"zone":"south"`), again},
		{"a fact that no value names", fact("PUT "+facts+"/facts", `"zone":"south","region":"x"`), ""},
		{"a fact that is missing, so that an update would fail", fact("PUT "+facts+"/facts", `"region":"x"`), ""},
		{"the fact again", fact("PUT "+facts+"/facts", `"zone":"south"`), ""},
		{"a label", func() { p.want(204, "DELETE cluster-providers/edge/clusters/a/labels/large", "") }, again},
		{"a label that values follow from", func() { p.want(201, "POST cluster-providers/edge/clusters/b/labels", `{"clusterLabel":"large"}`) }, again},
		{
			"a place", func() { p.want(204, "DELETE cluster-providers/edge/clusters/b/labels/all", "") },
			"labels, intents or the logical cloud have changed: an update would remove app web from edge+b",
		},
	} {
		tt.change()
		check(tt.name, tt.want)
		if tt.want != "" {
			g.acts("update")
			p.work()
			p.settle()
			check("an update after "+tt.name, "")
		}
	}
	equal(t, "the rollback", g.act("rollback", `{"spec":{"revision":"`+fmt.Sprint(g.head().Rev-1)+`"}}`).status, 202)
	p.work()
	p.settle()
	check("a rollback", "labels, intents or the logical cloud have changed: an update would remove app web from edge+b")
	g.acts("update")
	p.work()
	p.settle()

	chart(p.chart("v3"))()
	rev := g.revisionOf(g.head().Rev)
	places, err := p.contexts.Placements(t.Context(), g.head().UID, rev.Number)
	p.must(err)
	rev.Number, rev.Apps[0].Sources = rev.Number+1, "" // as an older version writes it
	_, err = p.contexts.Publish(t.Context(), g.head(), rev, slices.Values(places))
	p.must(err)
	check("a revision of an older version", "")
}
