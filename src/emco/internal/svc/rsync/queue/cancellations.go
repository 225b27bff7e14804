package queue

import (
	"context"
	"sync"
)

// cancellations end what is under way for a deployment, and for nothing else.
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

// context returns the context for work on a deployment.
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

// cancel ends the work on a deployment that has begun. What begins later is not concerned.
func (b *Cancellations) Cancel(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.own[uid]; ok {
		c.cancel()
		delete(b.own, uid)
	}
}

// any returns a context that ends with ctx, or when the brake of one of the deployments
// is pulled. It has to be released.
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
