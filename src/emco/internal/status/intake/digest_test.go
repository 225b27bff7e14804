package intake

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/membertest"
)

// A new member of a report that digestOf leaves out fails here instead of getting lost. The members that do not count name the pair or the
// document, or are what the control plane concludes later.
func TestF21DigestCoversEveryMember(t *testing.T) {
	t.Parallel()
	report := appcontext.Report{Resources: make([]appcontext.ResourceStatus, 1)}
	before, checked := digestOf(report), 0
	membertest.Each(t, &report, []string{"Key", "At", "Seq", "Ready", "Since"}, func(path string) {
		if checked++; digestOf(report) == before {
			t.Errorf("a change of %s does not change the digest", path)
		}
	})
	if checked < 10 {
		t.Errorf("only %d members were checked", checked)
	}
	if report.Resources = nil; digestOf(report) == before {
		t.Error("the number of resources does not change the digest")
	}
}
