package queue

import (
	"context"
	"sync"
)

// Cancellations end the work for one deployment, and for nothing else.
type Cancellations struct {
	ctx context.Context // of the term

	mu  sync.Mutex
	own map[string]cancellation // by deployment
}

type cancellation struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func NewCancellations(ctx context.Context) *Cancellations {
	return &Cancellations{ctx: ctx, own: map[string]cancellation{}}
}

// For returns the context for work on a deployment.
func (b *Cancellations) For(uid string) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.own[uid]
	if !ok {
		c.ctx, c.cancel = context.WithCancel(b.ctx)
		b.own[uid] = c
	}
	return c.ctx
}

// Cancel ends the work on a deployment that has started. Work that starts later runs.
func (b *Cancellations) Cancel(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.own[uid]; ok {
		c.cancel()
		delete(b.own, uid)
	}
}

// WithAny returns a context that ends with ctx, or when the work on one of the deployments is
// cancelled. The caller must release it.
func (b *Cancellations) WithAny(ctx context.Context, uids map[string]bool) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stops := make([]func() bool, 0, len(uids))
	for uid := range uids {
		stops = append(stops, context.AfterFunc(b.For(uid), cancel))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
