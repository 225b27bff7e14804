package v2_test

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Documents whose members are looked up one by one have few of them.
func TestF18DocumentsHaveFewMembers(t *testing.T) {
	t.Parallel()
	g := v2.GroupIntent{Named: v2.Named{Metadata: v2.Metadata{Name: "g"}}, Spec: v2.GroupIntentSpec{Intent: map[string]string{}}}
	for i := range 60_000 {
		g.Spec.Intent[fmt.Sprint("c", i)] = "i"
	}
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "60000 entries are more than 100") {
		t.Errorf("a group intent: %v", err)
	}
	a := v2.AppIntent{Named: v2.Named{Metadata: v2.Metadata{Name: "a"}}}
	a.Spec.App = "web"
	for range 10_001 {
		a.Spec.Intent.AnyOf = append(a.Spec.Intent.AnyOf, v2.Selector{Provider: "p", Cluster: "c"})
	}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), "10001 selectors are more than 10000") {
		t.Errorf("an app intent: %v", err)
	}
}
