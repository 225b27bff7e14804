// Package pace waits until a load is due.
package pace

import (
	"context"
	"time"
)

// Until waits until due. It returns false at once if ctx ends before that.
func Until(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
