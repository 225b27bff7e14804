package orchestrator

import (
	"context"
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
