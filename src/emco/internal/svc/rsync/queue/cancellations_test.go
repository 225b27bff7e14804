package queue

import (
	"context"
	"errors"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestCancelEndsTheWorkOfOneDeployment(t *testing.T) {
	t.Parallel()
	b := NewCancellations(t.Context())
	one, other := b.For("1"), b.For("2")
	both, release := b.WithAny(t.Context(), map[v2.DeploymentID]bool{"1": true, "2": true})
	defer release()
	b.Cancel("1")
	<-both.Done()
	if !errors.Is(one.Err(), context.Canceled) || other.Err() != nil {
		t.Errorf("work on 1 ended with %v, on 2 with %v; want the first alone", one.Err(), other.Err())
	}
	if err := b.For("1").Err(); err != nil {
		t.Errorf("work that begins later ended with %v", err)
	}
	alone, release := b.WithAny(t.Context(), map[v2.DeploymentID]bool{"2": true})
	release()
	if alone.Err() == nil || b.For("2").Err() != nil {
		t.Error("a release must end the context, and nothing else")
	}
}
