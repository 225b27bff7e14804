package archtest

import (
	"strings"
	"testing"
)

const module = "github.com/emco-orchestrator/emco/src/api"

// arrows lists for each package the others of the module that it may import. Nothing else
// may be imported but the standard library; tests may import certtest too.
var arrows = map[string][]string{
	"audit":    {},
	"certtest": {},
	"errs":     {},
	"v2":       {"errs", "outbound"},
	"client":   {"errs", "outbound"},
	"disktest": {},
	"jsonread": {},
	"nearest":  {},
	"oidctest": {},
	"outbound": {"errs"},
	"rest":     {"audit", "client", "errs", "v2"},
	"status":   {"errs", "jsonread", "v2"},
	"version":  {},
	"archtest": {},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	Check(t, "..", 15, fault)
}

func fault(pkg, name string, test bool) string {
	may, listed := arrows[pkg]
	if !listed {
		return "the package is in no group; add it to arrows"
	}
	if to, inside := strings.CutPrefix(name, module+"/"); inside {
		if test && to == "certtest" {
			return ""
		}
		for _, ok := range append(may, pkg) {
			if to == ok && (to != pkg || test) {
				return ""
			}
		}
		return "arrow goes the wrong way"
	}
	if strings.Contains(strings.Split(name, "/")[0], ".") {
		return "not of the standard library"
	}
	return ""
}

// The rules catch what they are for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, name string
		test, bad bool
	}{
		{"errs", "net/http", false, false},
		{"errs", module + "/v2", false, true},
		{"v2", module + "/errs", false, false},
		{"v2", module + "/client", false, true},
		{"v2", module + "/v2", true, false},
		{"v2", "sigs.k8s.io/yaml", true, true},
		{"client", module + "/certtest", true, false},
		{"client", module + "/certtest", false, true},
		{"client", "golang.org/x/net/http2", false, true},
		{"new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}
