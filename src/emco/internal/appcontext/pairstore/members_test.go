package pairstore

import (
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/membertest"
)

// A table of reports keeps every member that equal reports have in common.
func TestF21ATableOfReportsKeepsEveryMember(t *testing.T) {
	t.Parallel()
	report := Report{Resources: make([]ResourceStatus, 1), Seq: SharedSeq}
	membertest.Each(t, &report, []string{"Key", "At", "Seq", "Since"}, func(path string) {
		text, _ := sharedText(report)
		if got, err := parseShared(text); err != nil || !reflect.DeepEqual(got, report) {
			t.Errorf("a change of %s is lost: %+v, %v", path, got, err)
		}
	})
}
