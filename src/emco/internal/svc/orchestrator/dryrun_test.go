package orchestrator

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestDryRunsWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := newDryRunner(nil)
	var leave []func()
	for range maxDryRunsOf {
		l, err := h.acquire(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.acquire(late, "p"); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) == 0 {
		t.Errorf("one too many: got %v, want to come back later", err)
	}
	if _, err := h.acquire(t.Context(), "q"); err != nil {
		t.Errorf("another project: %v", err)
	}
	leave[0]()
	if _, err := h.acquire(t.Context(), "p"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

// A plan names what has no effect: override values and placement intents for an app that the composite app does not have.
func TestAPlanNamesAppsThatDoNotExist(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.group("v1", "g")
	p.want(201, "POST "+strings.TrimSuffix(g.path(), "/g"), `{"metadata":{"name":"g"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores",
		"overrideValues":[{"app":"wbe","values":{"replicas":"2"}},{"app":"wbe","values":{"image":"x"}}]}}`)
	g.intend("edge")
	p.want(201, "POST "+g.path()+"/generic-placement-intents/places/app-intents",
		`{"metadata":{"name":"dbs"},"spec":{"app":"db","intent":{"allOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`)
	g.acts("approve")
	want := []string{
		"override values name the app wbe, which the composite app does not have; they have no effect",
		"placement intents name the app db, which the composite app does not have; they have no effect",
	}
	if got := g.plan("instantiate").Notes; !slices.Equal(got, want) {
		t.Errorf("the notes of the plan are %q, want %q", got, want)
	}
}
