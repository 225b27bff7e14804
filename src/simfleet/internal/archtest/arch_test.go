package archtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "simfleet"
)

// arrows lists, for each package, the packages of this module and of other modules that
// it may import. Tests may import anything except what is in never.
var arrows = map[string]struct{ own, others []string }{
	".":                  {own: []string{"internal/fleet", "internal/script", "internal/seed"}, others: []string{root + "api/client", root + "api/status", root + "api/v2", root + "api/version", root + "git"}},
	"internal/archtest":  {},
	"internal/fetch":     {own: []string{"internal/inventory"}, others: []string{root + "git", root + "git/plain"}},
	"internal/fleet":     {own: []string{"internal/fetch", "internal/inventory", "internal/scheduler", "internal/script"}, others: []string{root + "api/errs", root + "api/status", root + "api/v2", root + "git", root + "git/plain", root + "monitor/publish"}},
	"internal/inventory": {others: []string{root + "api/status", root + "git", "sigs.k8s.io/yaml"}},
	"internal/scheduler": {},
	"internal/script":    {others: []string{"sigs.k8s.io/yaml"}},
	"internal/seed":      {others: []string{root + "api/client", root + "api/v2"}},
}

// never lists what no package here may import, tests included: a simulated cluster has no
// API server, and the simulator meets the control plane over REST and Git only.
var never = []string{"k8s.io", "go.etcd.io", "go.mongodb.org", "helm.sh", "github.com/stretchr", root + "emco"}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 15, fault)
}

func fault(pkg, name string, test bool) string {
	may, listed := arrows[pkg]
	switch {
	case !listed:
		return "the package has no row in arrows; add one"
	case slices.ContainsFunc(never, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }):
		return "no package here may import it"
	case test || !strings.Contains(strings.Split(name, "/")[0], "."):
		return ""
	}
	allowed := may.others
	if own, ok := strings.CutPrefix(name, module+"/"); ok {
		name, allowed = own, may.own
	}
	if !slices.Contains(allowed, name) {
		return "not a package that it may import"
	}
	return ""
}

// The rules reject what they are meant to reject.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, name string
		test, bad bool
	}{
		{"internal/fleet", root + "monitor/publish", false, false},
		{"internal/fetch", root + "monitor/publish", false, true},
		{"internal/fetch", module + "/internal/fleet", false, true},
		{"internal/fleet", module + "/internal/fetch", false, false},
		{"internal/fleet", root + "git/gittest", false, true},
		{"internal/fleet", root + "git/gittest", true, false},
		{"internal/fleet", "k8s.io/client-go/dynamic", true, true},
		{"internal/fleet", root + "emco/internal/app", true, true},
		{"internal/new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}
