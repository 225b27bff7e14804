// Package poll waits for a condition outside this process.
package poll

import (
	"context"
	"fmt"
	"time"
)

// Until calls try every interval, the first time immediately, until it returns nil. When ctx ends
// first, it returns an error that wraps ctx's cause and contains the text of the last error of try.
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
