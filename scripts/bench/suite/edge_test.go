package suite

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/peers"
)

// A rest measures the processes that run, and ends with its context.
func TestARestMeasuresRunningProcesses(t *testing.T) {
	t.Parallel()
	ids := []int{os.Getpid()}
	began, before := time.Now(), used(ids)
	for used(ids) == before {
		if time.Since(began) > 10*time.Second {
			t.Fatal("this process was busy for ten seconds, and used no time")
		}
	}
	mib, err := residentMiB(ids)
	if err != nil || mib < 1 {
		t.Errorf("this process has %.1f MiB, %v; want some", mib, err)
	}
	if _, err := residentMiB([]int{0}); err == nil {
		t.Error("the memory of a process that does not run: no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := rest(ctx, peers.Processes{Control: ids}, map[string]float64{}); err == nil {
		t.Error("a rest that was cancelled: no error")
	}
}

// Each fleet of P17 is a part of its own, which needs more time than a smaller one.
func TestEachFleetOfRealClustersIsAPart(t *testing.T) {
	t.Parallel()
	var sizes []int
	var last time.Duration
	for _, p := range FullParts() {
		if p.Only[0] != "P17" {
			continue
		}
		sizes = append(sizes, p.Sizes...)
		if p.Budget < last {
			t.Errorf("%s has %s, less than a smaller fleet", p.Name, p.Budget)
		}
		last = p.Budget
	}
	if !slices.Equal(sizes, edgeSizes()) {
		t.Errorf("the parts measure %v clusters, want %v", sizes, edgeSizes())
	}
}
