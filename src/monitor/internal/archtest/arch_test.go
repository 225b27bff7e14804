package archtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "monitor"
)

// arrows lists, for each package, the packages of this module and of other modules that
// it may import. Tests may import anything except what is in never.
var arrows = map[string]struct{ own, others []string }{
	".":                         {own: []string{"internal/agent", "internal/config"}, others: []string{root + "api/version"}},
	"internal/agent":            {own: []string{"internal/bundlestate", "internal/config", "internal/observe", "publish"}, others: []string{root + "api/v2", root + "api/version", root + "git/batch", root + "git/plain", "k8s.io/client-go"}},
	"internal/archtest":         {},
	"internal/bundlestate":      {own: []string{"internal/reconcilerstatus", "internal/observe"}, others: []string{root + "api/status", root + "kubehealth", "k8s.io"}},
	"internal/config":           {others: []string{root + "api/status", root + "api/v2", root + "git"}},
	"internal/fields":           {others: []string{"k8s.io/apimachinery"}},
	"internal/reconcilerstatus": {own: []string{"internal/fields"}, others: []string{"k8s.io/apimachinery"}},
	"internal/observe":          {own: []string{"internal/reconcilerstatus"}, others: []string{root + "api/status", root + "kubehealth", "k8s.io"}},
	"publish":                   {others: []string{root + "api/status", root + "api/v2", root + "api/errs", root + "git", root + "git/batch"}},
}

// never lists what no package here may import, tests included.
var never = []string{
	"go.etcd.io", "go.mongodb.org", "helm.sh", "github.com/google/go-github", "gitlab.com", "github.com/stretchr",
	"sigs.k8s.io/controller-runtime", root + "emco",
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 20, fault)
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
	if own, ok := strings.CutPrefix(name, module+"/"); ok {
		if !slices.Contains(may.own, own) {
			return "arrow goes the wrong way"
		}
		return ""
	}
	if !slices.ContainsFunc(may.others, func(p string) bool {
		return name == p || !strings.HasPrefix(p, root) && strings.HasPrefix(name, p+"/")
	}) {
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
		{"internal/reconcilerstatus", "k8s.io/apimachinery/pkg/runtime", false, false},
		{"internal/reconcilerstatus", "k8s.io/client-go/dynamic", false, true},
		{"publish", root + "git/plain", false, true},
		{"publish", root + "git/plain", true, false},
		{"publish", module + "/internal/observe", false, true},
		{"internal/agent", module + "/internal/observe", false, false},
		{"internal/agent", "helm.sh/helm/v3/pkg/engine", true, true},
		{"internal/agent", root + "emco/internal/app", true, true},
		{"internal/new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}
