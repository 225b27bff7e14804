package flux_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

func TestPlanForABucket(t *testing.T) {
	t.Parallel()
	for file, o := range map[string]flux.BucketOptions{
		"testdata/bucket.txtar":        {},
		"testdata/bucket-prefix.txtar": {Prefix: "/fleet/edge/", Source: "north"},
	} {
		b, err := flux.NewBucket(o)
		if err != nil {
			t.Fatal(err)
		}
		syncertest.Golden(t, syncer.Owned(b), file, *update)
	}
}

func TestInvalidBucketOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []flux.BucketOptions{
		{Source: "no such name"},
		{Prefix: "../up"},
		{Options: flux.Options{DependsOn: "always"}},
	} {
		if _, err := flux.NewBucket(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("NewBucket(%+v) = %v, want Invalid", o, err)
		}
	}
}
