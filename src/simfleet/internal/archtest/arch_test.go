package archtest

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "simfleet"
)

// simfleet is this module. A simulated cluster has no API server, and the simulator meets the
// control plane over REST and Git only.
var simfleet = archtest.Module{
	Path: module,
	Arrows: map[string]archtest.Arrow{
		".":                  {Own: []string{"internal/demo", "internal/fleet", "internal/script", "internal/seed"}, Others: []string{root + "api/client", root + "api/status", root + "api/v2", root + "api/version", root + "git"}},
		"internal/archtest":  {},
		"internal/demo":      {Others: []string{root + "git/githttp", "github.com/emco-orchestrator/emco/examples"}},
		"internal/fetch":     {Own: []string{"internal/inventory"}, Others: []string{root + "git", root + "git/plain"}},
		"internal/fleet":     {Own: []string{"internal/fetch", "internal/inventory", "internal/scheduler", "internal/script"}, Others: []string{root + "api/errs", root + "api/status", root + "api/v2", root + "git", root + "git/plain", root + "monitor/publish"}},
		"internal/inventory": {Others: []string{root + "api/status", root + "git", "sigs.k8s.io/yaml"}},
		"internal/scheduler": {},
		"internal/script":    {Others: []string{"sigs.k8s.io/yaml"}},
		"internal/seed":      {Others: []string{root + "api/client", root + "api/v2"}},
	},
	Never: []string{"k8s.io", "go.etcd.io", "go.mongodb.org", "helm.sh", "github.com/stretchr", root + "emco"},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 15, simfleet.Fault)
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
		if got := simfleet.Fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("Fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "../..")
}
