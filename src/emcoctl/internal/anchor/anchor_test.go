package anchor_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

// TestResolve has every row of upstream's anchor rule, with our corrections.
func TestResolve(t *testing.T) {
	t.Parallel()
	named := anchor.Names{Name: "n"}
	ca := anchor.Names{Name: "a", Version: "v1"}
	none := anchor.Names{}
	type row struct {
		name   string
		verb   anchor.Verb
		anchor string
		names  anchor.Names
		want   anchor.Call
	}
	rows := []row{
		{"apply takes the anchor as it is", anchor.Apply, "projects", named, anchor.Call{Method: "POST", Path: "projects"}},
		{"apply of an action", anchor.Apply, dig + "/instantiate", none, anchor.Call{Method: "POST", Path: dig + "/instantiate"}},
		{"apply of terminate", anchor.Apply, dig + "/terminate", none, anchor.Call{Method: "POST", Path: dig + "/terminate"}},
		{"update adds the name", anchor.Update, "projects", named, anchor.Call{Method: "PUT", Path: "projects/n"}},
		{"get adds the name", anchor.Get, "projects", named, anchor.Call{Method: "GET", Path: "projects/n"}},
		{"delete adds the name", anchor.Delete, "projects", named, anchor.Call{Method: "DELETE", Path: "projects/n"}},
		{"composite apps have a version", anchor.Get, "projects/p/composite-apps", ca, anchor.Call{Method: "GET", Path: "projects/p/composite-apps/a/v1"}},
		{"others have not", anchor.Get, "projects", ca, anchor.Call{Method: "GET", Path: "projects/a"}},
		{"a label stands for the name", anchor.Delete, "cluster-providers/p/clusters/c/labels", anchor.Names{Label: "west"}, anchor.Call{Method: "DELETE", Path: "cluster-providers/p/clusters/c/labels/west"}},
		{"a name comes before a label", anchor.Update, "x", anchor.Names{Name: "n", Label: "l"}, anchor.Call{Method: "PUT", Path: "x/n"}},
		{"without either the anchor stays", anchor.Get, "projects", none, anchor.Call{Method: "GET", Path: "projects"}},
		{"a nameless item can be deleted", anchor.Delete, "projects/p", none, anchor.Call{Method: "DELETE", Path: "projects/p"}},
		{"delete ends what was instantiated", anchor.Delete, dig + "/instantiate", none, anchor.Call{Method: "POST", Path: dig + "/terminate", Empty: true}},
		{"delete ends applied networks", anchor.Delete, "cluster-providers/p/clusters/c/apply", named, anchor.Call{Method: "POST", Path: "cluster-providers/p/clusters/c/terminate", Empty: true}},
		{"odd names are escaped", anchor.Get, "projects", anchor.Names{Name: "a/b?c d"}, anchor.Call{Method: "GET", Path: "projects/a%2Fb%3Fc%20d"}},
	}
	skips := map[anchor.Verb][]string{
		anchor.Update: {"instantiate", "apply", "approve", "terminate", "migrate", "update", "rollback", "promote", "stop", "status"},
		anchor.Get:    {"instantiate", "apply", "approve", "terminate", "migrate", "update", "rollback", "promote", "stop"},
		anchor.Delete: {"approve", "status", "migrate", "update", "rollback", "promote", "terminate", "stop"},
	}
	for verb, lasts := range skips {
		for _, last := range lasts {
			rows = append(rows, row{string(verb) + " skips " + last, verb, dig + "/" + last, named, anchor.Call{}})
		}
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := anchor.Resolve(tt.verb, tt.anchor, tt.names); got != tt.want || err != nil {
				t.Errorf("Resolve(%s, %s, %+v) = %+v, %v; want %+v", tt.verb, tt.anchor, tt.names, got, err, tt.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		verb   anchor.Verb
		anchor string
		names  anchor.Names
	}{
		{"deleting a collection", anchor.Delete, dig + "/hpa-intents", anchor.Names{}},
		{"deleting a root collection", anchor.Delete, "projects", anchor.Names{}},
		{"deleting a collection below a composite app", anchor.Delete, "projects/p/composite-apps/a/v1/apps", anchor.Names{}},
		{"a name that climbs", anchor.Get, "projects", anchor.Names{Name: ".."}},
		{"a version that climbs", anchor.Update, "projects/p/composite-apps", anchor.Names{Name: "a", Version: "."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := anchor.Resolve(tt.verb, tt.anchor, tt.names); !errs.Is(err, errs.Invalid) {
				t.Errorf("Resolve = %+v, %v; want Invalid", got, err)
			}
		})
	}
}

func TestCollections(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		whole bool
		word  string
	}{
		"projects":                                          {true, "projects"},
		"projects/p":                                        {false, "projects"},
		"projects/labels":                                   {false, "projects"},
		"projects/p/composite-apps":                         {true, "composite-apps"},
		"projects/p/composite-apps/a/v1":                    {false, "composite-apps"},
		"projects/p/composite-apps/a/v1/apps":               {true, "apps"},
		"projects/p/composite-apps/a/v1/apps/x":             {false, "apps"},
		dig:                                                 {false, "deployment-intent-groups"},
		dig + "/status?output=all":                          {true, "status"},
		"policy/agents":                                     {true, "agents"},
		"policy/agents/a":                                   {false, "agents"},
		"cluster-providers/p/clusters?label=x":              {true, "clusters"},
		"projects/p/logical-clouds/l/cluster-quotas/q1":     {false, "cluster-quotas"},
		"projects/p/ca-certs/x":                             {false, "ca-certs"},
		"projects/p/ca-certs/x/logical-clouds":              {true, "ca-certs/logical-clouds"},
		"projects/p/ca-certs/x/logical-clouds/l/clusters/c": {false, "ca-certs/clusters"},
		"cluster-providers/p/ca-certs/x/clusters":           {true, "ca-certs/clusters"},
		"cluster-providers/ca-certs/clusters/c":             {false, "clusters"},
	} {
		if got := anchor.IsCollection(path); got != want.whole {
			t.Errorf("IsCollection(%s) = %v, want %v", path, got, want.whole)
		}
		if got := anchor.Collection(path); got != want.word {
			t.Errorf("Collection(%s) = %q, want %q", path, got, want.word)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"projects/p/composite-apps/a/v1/apps/x":      true,
		"cluster-providers/p/clusters/c":             true,
		dig + "/generic-k8s-intents/g/resources/r":   true,
		dig + "/g/g/resources/r/customizations/c":    true,
		"projects/p/c/a/v1/composite-profiles/c":     false,
		"projects/p/c/a/v1/c-p/c/profiles/x":         true,
		"cluster-providers/p/clusters":               false,
		"cluster-providers/p/clusters/c/status?x=y/": false,
		"projects": false,
	} {
		if got := anchor.WantsJSON(path); got != want {
			t.Errorf("WantsJSON(%s) = %v, want %v", path, got, want)
		}
	}
}

// FuzzResolve holds for all anchors and names: a call stays below its anchor, adds at
// most two segments, never deletes a collection, and is one request line.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"projects", dig + "/instantiate", "projects/p/composite-apps", "", "/", "a//b", "policy/agents"} {
		f.Add(seed, "name", "v1", "label")
	}
	f.Add("projects", "..", "", "")
	f.Add("projects", "a\r\nb", "%2e", "x?y")
	f.Fuzz(func(t *testing.T, path, name, version, label string) {
		for _, verb := range []anchor.Verb{anchor.Apply, anchor.Update, anchor.Get, anchor.Delete} {
			call, err := anchor.Resolve(verb, path, anchor.Names{Name: name, Version: version, Label: label})
			if err != nil || call.Skip() {
				continue
			}
			rest, below := strings.CutPrefix(call.Path, path)
			if call.Empty {
				rest, below = strings.CutPrefix(call.Path, anchor.Parent(path))
			}
			switch {
			case !below:
				t.Errorf("%s %q: %q is not below it", verb, path, call.Path)
			case strings.Count(rest, "/") > 2 || strings.ContainsAny(rest, "?# \r\n"):
				t.Errorf("%s %q: %q adds more than names", verb, path, rest)
			case call.Method == http.MethodDelete && anchor.IsCollection(call.Path):
				t.Errorf("delete %q would delete the collection %q", path, call.Path)
			}
			_ = anchor.Check(call.Path)
			_ = anchor.Collection(call.Path)
			_, _ = anchor.SectionOf(call.Path)
		}
	})
}
