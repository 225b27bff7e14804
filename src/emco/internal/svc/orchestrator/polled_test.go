package orchestrator

import (
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
