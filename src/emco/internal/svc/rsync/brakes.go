package rsync

import (
	"context"
	"sync"
)

// brakes end what is under way for a deployment, and for nothing else.
type brakes struct {
	ctx context.Context // of the term

	mu  sync.Mutex
	own map[string]cancelable // by deployment
}

type cancelable struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func newBrakes(ctx context.Context) *brakes {
	return &brakes{ctx: ctx, own: map[string]cancelable{}}
}

// context returns the context for work on a deployment.
func (b *brakes) context(uid string) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.own[uid]
	if !ok {
		c.ctx, c.cancel = context.WithCancel(b.ctx)
		b.own[uid] = c
	}
	return c.ctx
}

// pull ends the work on a deployment that has begun. What begins later is not concerned.
func (b *brakes) pull(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.own[uid]; ok {
		c.cancel()
		delete(b.own, uid)
	}
}

// any returns a context that ends with ctx, or when the brake of one of the deployments
// is pulled. It has to be released.
func (b *brakes) any(ctx context.Context, uids map[string]bool) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stops := make([]func() bool, 0, len(uids))
	for uid := range uids {
		stops = append(stops, context.AfterFunc(b.context(uid), cancel))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
