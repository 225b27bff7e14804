package archtest

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "kubehealth"
)

// kubehealth is this module.
var kubehealth = archtest.Module{
	Path: module,
	Arrows: map[string]archtest.Arrow{
		".": {Others: []string{
			root + "api/status", "k8s.io/api/core/v1", "k8s.io/apimachinery/", "k8s.io/klog/v2", "github.com/fluxcd/cli-utils/pkg/kstatus/status",
			"k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/tools/cache",
		}},
		"capacity":          {Own: []string{"quantity"}, Others: []string{root + "api/status", "k8s.io/api/core/v1", "k8s.io/apimachinery/", "k8s.io/client-go/dynamic"}},
		"internal/archtest": {},
		"kubehealthtest":    {Others: []string{root + "api/status", "k8s.io/apimachinery/"}},
		"quantity":          {Others: []string{"k8s.io/apimachinery/pkg/api/resource"}},
		"kubetest":          {Others: []string{"k8s.io/api/core/v1", "k8s.io/apimachinery/", "k8s.io/client-go/kubernetes/scheme"}},
	},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 5, kubehealth.Fault)
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
		if got := kubehealth.Fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("Fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
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
	archtest.CheckLinked(t, "../..", 100, func(pkg string) string {
		if archtest.Below(pkg, forbidden) {
			return "the monitor links this package, and is small"
		}
		return ""
	})
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "../..")
}
