package mirror

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/membertest"
)

// A report with another value of any member but its time and sequence is news.
func TestF21AChangeOfAnyMemberIsNews(t *testing.T) {
	t.Parallel()
	report := appcontext.Report{Resources: make([]appcontext.ResourceStatus, 1)}
	before := compact(report)
	membertest.Each(t, &report, []string{"Key", "At", "Seq"}, func(path string) {
		if compact(report).repeats(before) {
			t.Errorf("a change of %s is taken for a repetition", path)
		}
	})
}
