package plaingit_test

import (
	"flag"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/plaingit"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestPlan(t *testing.T) {
	t.Parallel()
	b, err := plaingit.New(plaingit.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	syncertest.Golden(t, syncer.Owned(b), "testdata/plan.txtar", *update)
}
