package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/pace"
)

func TestWaitsEndWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !pace.Until(t.Context(), began.Add(time.Second)) || time.Since(began) != time.Second {
			t.Errorf("the wait ended after %s", time.Since(began))
		}
		if !pace.Until(t.Context(), began) || time.Since(began) != time.Second {
			t.Errorf("what was due before is due after %s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if pace.Until(ctx, began.Add(time.Hour)) || time.Since(began) != 2*time.Second {
			t.Errorf("the wait ended after %s, want when its context did", time.Since(began))
		}
		if pace.Until(ctx, began) {
			t.Error("something is due after the end")
		}
	})
}
