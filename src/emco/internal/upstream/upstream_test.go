package upstream_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
)

func TestPortsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, p := range upstream.Ports() {
		if seen[p.Number] {
			t.Errorf("%s has a port of another service", p.Service)
		}
		seen[p.Number] = true
	}
}
