package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "kubehealth"
)

// arrows lists, for each package, what it may import besides the standard library. A name
// that ends in "/" stands for all packages below it. Tests may import anything.
var arrows = map[string][]string{
	".": {
		root + "api/status", "k8s.io/api/core/v1", "k8s.io/apimachinery/", "k8s.io/klog/v2", "github.com/fluxcd/cli-utils/pkg/kstatus/status",
		"k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/tools/cache",
	},
	"internal/archtest": {},
	"kubehealthtest":    {root + "api/status", "k8s.io/apimachinery/"},
	"kubetest":          {"k8s.io/api/core/v1", "k8s.io/apimachinery/"},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 5, fault)
}

func fault(pkg, name string, test bool) string {
	may, listed := arrows[pkg]
	switch {
	case !listed:
		return "the package has no row in arrows; add one"
	case test || !strings.Contains(strings.Split(name, "/")[0], "."):
		return ""
	case !slices.ContainsFunc(may, func(p string) bool { return name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) }):
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
		{".", "k8s.io/client-go/dynamic", false, false},
		{".", "k8s.io/client-go/informers", false, true},
		{".", "k8s.io/apimachinery/pkg/watch", false, false},
		{".", module + "/kubehealthtest", false, true},
		{".", module + "/kubehealthtest", true, false},
		{"kubehealthtest", "k8s.io/client-go/dynamic", false, true},
		{"new", "fmt", false, true},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

// forbidden lists what the package must not link, because the monitor links it and is small.
var forbidden = []string{
	"go.etcd.io", "go.mongodb.org", "helm.sh", "github.com/google/go-github", "gitlab.com", "sigs.k8s.io/controller-runtime",
	"k8s.io/client-go/kubernetes/typed", "k8s.io/client-go/informers", root + "emco", root + "monitor", root + "git",
}

func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 200 {
		t.Fatalf("go list names only %d packages", len(packages))
	}
	for _, p := range packages {
		for _, name := range forbidden {
			if p == name || strings.HasPrefix(p, name+"/") {
				t.Errorf("%s is linked", p)
			}
		}
	}
}
