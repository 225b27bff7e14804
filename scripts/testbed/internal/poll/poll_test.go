package poll

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilTriesAgainUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := Until(t.Context(), time.Second, func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || tries != 3 {
			t.Errorf("Until: %v after %d tries, want nil after 3", err, tries)
		}
	})
}

func TestUntilGivesTheLastErrorWhenTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := Until(ctx, time.Second, func(context.Context) error { return errors.New("door shut") })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "door shut") {
			t.Errorf("Until: %v, want the deadline and the reason", err)
		}
	})
}
