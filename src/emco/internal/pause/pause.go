// Package pause waits between attempts.
package pause

import (
	"context"
	"time"
)

// For returns after d, or with the cause as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
