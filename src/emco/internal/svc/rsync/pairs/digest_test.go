package pairs

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/membertest"
)

// A report with a new member that digestOf leaves out would not be stored if only that member changes.
func TestF21TheDigestOfAReportCoversEveryMember(t *testing.T) {
	t.Parallel()
	report := appcontext.Report{Resources: make([]appcontext.ResourceStatus, 1)}
	before := digestOf(report)
	membertest.Each(t, &report, []string{"Key", "At", "Seq", "Ready", "Since"}, func(path string) {
		if digestOf(report) == before {
			t.Errorf("a change of %s does not change the digest", path)
		}
	})
}
