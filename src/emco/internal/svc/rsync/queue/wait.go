package queue

import (
	"context"
	"time"
)

// pause waits; it returns early when ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// bookkeeping is how long the write of an outcome may go on when the process was told to
// stop: what happened is to be known.
const GracePeriod = 10 * time.Second

// withGrace returns a context that outlives ctx by the time of bookkeeping. It has to be released.
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
