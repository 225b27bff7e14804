// Package poll waits for something outside of this process to become true.
package poll

import (
	"context"
	"fmt"
	"time"
)

// Until calls try every interval, the first time at once, until it returns nil.
// When ctx ends first, it returns an error that wraps ctx's cause and holds the
// text of the last error of try.
func Until(ctx context.Context, every time.Duration, try func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v: %w", err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
