package kind_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

const dig = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"

// Each document that the server keeps is in the table: a new one is a line there.
func TestEveryDocumentOfTheServerIsKnown(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../emco/internal/svc/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	served, known := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`resource\.Def\[v2\.(\w+)\]`).FindAllStringSubmatch(string(text), -1) {
			served[m[1]] = true
		}
	}
	for _, k := range kind.All() {
		if k.Type != "" {
			known[k.Type] = true
		}
		if k.Type != "" && len(k.Members) == 0 {
			t.Errorf("%s have no members", k.Collection)
		}
		for _, parent := range k.Parents {
			if _, ok := kind.Of(parent); !ok && parent != "" {
				t.Errorf("%s are below %s, which do not exist", k.Collection, parent)
			}
		}
	}
	delete(served, "OwnResource") // of collections that only the operator of a server knows
	if len(served) < 15 || !maps.Equal(served, known) {
		t.Errorf("the server keeps %v\nthe table has %v", slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(known)))
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, k := range kind.All() {
		names := slices.Clone(k.Short)
		for _, parent := range k.Parents {
			names = append(names, parent+"/"+k.Collection)
		}
		for _, name := range names {
			if other, twice := seen[name]; twice {
				t.Errorf("%s means %s and %s", name, other, k.Type)
			}
			seen[name] = k.Type
		}
	}
}

func TestTheKindOfAPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"projects": "Project", "projects/p": "Project", "projects/p/composite-apps": "CompositeApp", "projects/p/composite-apps/a/v1": "CompositeApp",
		dig + "?x=y": "DeploymentIntentGroup", dig + "/network-chains/c/provider-networks": "ChainProviderNetwork",
		dig + "/network-chains/c/provider-networks/n": "ChainProviderNetwork", "projects/p/role-bindings/b": "RoleBinding", "role-bindings": "RoleBinding", "zebra/x": "",
	} {
		if k, ok := kind.At(path); ok != (want != "") || k.Type != want {
			t.Errorf("At(%s) = %s, want %s", path, k.Type, want)
		}
	}
}

func TestF58SuggestCorrectsEveryLevel(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"project/p":                            "projects/p",
		"projects/p/composite-app":             "projects/p/composite-apps",
		"projects/p/composite-apps/a/v1/app":   "projects/p/composite-apps/a/v1/apps",
		dig + "/instantiat":                    dig + "/instantiate",
		dig + "/generic-placement-intent/i/ap": dig + "/generic-placement-intents/i/ap",
		"projects/p/composite-aps/a/v1/deployment-intent-group/d/aprove": dig + "/approve",
		"cluster-providers/e/clusters/c/label?x=y":                       "cluster-providers/e/clusters/c/labels?x=y",
		"cluster-providers/e/ca-cert/x/cluster/y":                        "cluster-providers/e/ca-certs/x/clusters/y",
		dig: "", dig + "/status?output=all": "", "projects": "", dig + "/sfc-clients": "", "zebra/x": "",
	} {
		got, ok := kind.Suggest(path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("Suggest(%s) = %q, %v; want %q", path, got, ok, want)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"cp":                       "cluster-providers",
		"cp/cl/cl":                 "cluster-providers/cl/clusters",
		"proj/p/ca/a/v1/dig/d":     dig,
		"proj/p/lc?x=lc":           "projects/p/logical-clouds?x=lc",
		"projects/p/zebra/dig/d":   "projects/p/zebra/dig/d",
		dig + "/approve":           dig + "/approve",
		"dig":                      "dig",
		"cp/e/ca-certs/x/clusters": "cluster-providers/e/ca-certs/x/clusters",
		"proj/p/ca-certs/x/logical-clouds/l/clusters": "projects/p/ca-certs/x/logical-clouds/l/clusters",
	} {
		if got := kind.Expand(path); got != want {
			t.Errorf("Expand(%s) = %q, want %q", path, got, want)
		}
	}
}
