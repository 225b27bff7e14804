package kubehealth_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubehealthtest"
)

func TestF07HealthOfObjects(t *testing.T) {
	t.Parallel()
	for _, c := range kubehealthtest.Cases(nil) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			h := kubehealth.Of(c.Object)
			if h.Status != c.Status || !strings.Contains(h.Reason, c.Reason) || (h.Status == status.Current) != (h.Reason == "") {
				t.Errorf("Of = %+v, want %s, with %q in the reason", h, c.Status, c.Reason)
			}
		})
	}
}
