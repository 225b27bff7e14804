package archtest

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "monitor"
)

// monitor is this module.
var monitor = archtest.Module{
	Path: module,
	Arrows: map[string]archtest.Arrow{
		".":                         {Own: []string{"internal/agent", "internal/config"}, Others: []string{root + "api/version"}},
		"internal/agent":            {Own: []string{"internal/bundlestate", "internal/config", "internal/observe", "publish"}, Others: []string{root + "api/v2", root + "api/version", root + "git/batch", root + "git/plain", "k8s.io/client-go/"}},
		"internal/archtest":         {},
		"internal/bundlestate":      {Own: []string{"internal/reconcilerstatus", "internal/observe"}, Others: []string{root + "api/status", root + "kubehealth", "k8s.io/"}},
		"internal/config":           {Others: []string{root + "api/status", root + "api/v2", root + "git"}},
		"internal/fields":           {Others: []string{"k8s.io/apimachinery/"}},
		"internal/reconcilerstatus": {Own: []string{"internal/fields"}, Others: []string{"k8s.io/apimachinery/"}},
		"internal/observe":          {Own: []string{"internal/reconcilerstatus"}, Others: []string{root + "api/status", root + "kubehealth", root + "kubehealth/capacity", "k8s.io/"}},
		"publish":                   {Others: []string{root + "api/status", root + "api/v2", root + "api/errs", root + "git", root + "git/batch"}},
	},
	Never: []string{
		"go.etcd.io", "go.mongodb.org", "helm.sh", "github.com/google/go-github", "gitlab.com", "github.com/stretchr",
		"sigs.k8s.io/controller-runtime", root + "emco",
	},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 20, monitor.Fault)
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
		if got := monitor.Fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("Fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "../..")
}
