package shard

import (
	"context"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
)

// own takes the ownership until the test ends.
func own(t *testing.T, s *appcontext.Store, holder string) appcontext.Fence {
	t.Helper()
	o, err := s.Own(t.Context(), route.Group.Shard(0), holder, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Release(context.Background()) })
	return o.Fence()
}
