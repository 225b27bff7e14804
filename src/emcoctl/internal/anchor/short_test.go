package anchor_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	const full = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"
	for in, want := range map[string]string{
		"p/a/v1/d":                     full,
		"/p/a/v1/d/":                   full,
		full:                           full,
		full + "/status":               full + "/status",
		"projects/p/logical-clouds/lc": "projects/p/logical-clouds/lc",
		"projects/a/v1/d":              "projects/projects/composite-apps/a/v1/deployment-intent-groups/d",
		"p":                            "p",
		"":                             "",
	} {
		if got := anchor.Expand(in); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}
