package queue

import (
	"context"
	"time"
)

// GracePeriod is how long results may still be written after the process began to stop:
// what has happened must be recorded.
const GracePeriod = 10 * time.Second

// WithGrace returns a context that ends GracePeriod after ctx. The caller must release it.
func WithGrace(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(GracePeriod, cancel)
		context.AfterFunc(own, func() { timer.Stop() })
	})
	return own, func() {
		stop()
		cancel()
	}
}
