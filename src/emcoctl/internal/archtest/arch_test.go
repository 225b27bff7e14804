package archtest_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const module = "github.com/emco-orchestrator/emco/src/emcoctl"

// levels is the level of each package: it may import only lower ones.
var levels = map[string]int{
	"internal/printable": 0,
	"internal/jsontree":  0,
	"internal/jsonpath":  1,
	"internal/archtest":  0,
	"internal/anchor":    1,
	"internal/signin":    1,
	"internal/kind":      2,
	"internal/config":    2,
	"internal/progress":  2,
	"internal/document":  3,
	"internal/logins":    3,
	"internal/output":    4,
	"internal/apply":     5,
	"internal/preview":   5,
	"internal/fetch":     5,
	"internal/session":   6,
	"internal/complete":  7,
	"internal/overview":  7,

	"internal/cmd/lifecycle": 8,
	"internal/cmd/status":    8,
	"internal/cmd/clusters":  8,
	"internal/cmd/admin":     8,
	"internal/cmd/identity":  8,
	"internal/cmd/documents": 9, // apply --wait-for-status, and update of a deployment
	"internal/cmd":           10,
	"internal/manpages":      11,
	".":                      11,
}

// outside lists what may be imported from other modules, besides src/api.
var outside = map[string][]string{
	"internal/document": {"go.yaml.in/yaml/v3"},
	"internal/config":   {"go.yaml.in/yaml/v3"},
	"internal/output":   {"go.yaml.in/yaml/v3"},
	"internal/preview":  {"github.com/rogpeppe/go-internal/diff"},
	"internal/signin":   {"golang.org/x/oauth2"},
	"internal/logins":   {"github.com/rogpeppe/go-internal/lockedfile"},
	"internal/session":  {"github.com/spf13/cobra", "golang.org/x/term"},
	"internal/complete": {"github.com/spf13/cobra"},
	"internal/cmd":      {"github.com/spf13/cobra"},

	"internal/cmd/admin":     {"github.com/spf13/cobra"},
	"internal/cmd/clusters":  {"github.com/spf13/cobra"},
	"internal/cmd/documents": {"github.com/spf13/cobra"},
	"internal/cmd/identity":  {"github.com/spf13/cobra"},
	"internal/cmd/lifecycle": {"github.com/spf13/cobra"},
	"internal/cmd/status":    {"github.com/spf13/cobra"},
	"internal/manpages":      {"github.com/spf13/cobra/doc"}, // no part of emcoctl: the release runs it
}

func TestArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 20, fault)
}

// fault returns what is wrong with an import. Tests may import anything.
func fault(pkg, name string, test bool) string {
	level, ok := levels[pkg]
	own, inside := strings.CutPrefix(name, module+"/")
	switch {
	case test:
	case !ok:
		return "the package is new; add it to levels"
	case inside && levels[own] >= level:
		return "it is not on a lower level"
	case !inside && strings.Contains(name, ".") && !allowed(pkg, name):
		return "the package may not use that module"
	}
	return ""
}

func allowed(pkg, name string) bool {
	if strings.HasPrefix(name, "github.com/emco-orchestrator/emco/src/api/") {
		return true
	}
	for _, ok := range outside[pkg] {
		if name == ok {
			return true
		}
	}
	return false
}

// The rules catch what they are for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, name string
		test, bad bool
	}{
		{"internal/printable", "strings", false, false},
		{"internal/printable", module + "/internal/output", false, true},
		{"internal/output", module + "/internal/printable", false, false},
		{"internal/output", "go.yaml.in/yaml/v3", false, false},
		{"internal/printable", "go.yaml.in/yaml/v3", false, true},
		{"internal/cmd", "k8s.io/client-go/rest", false, true},
		{"internal/cmd", "k8s.io/client-go/rest", true, false},
		{"internal/new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "../..")
}
