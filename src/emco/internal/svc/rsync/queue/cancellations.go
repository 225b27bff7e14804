package queue

import (
	"context"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Cancellations end the work for one deployment, and for nothing else.
type Cancellations struct {
	ctx context.Context // of the term

	mu  sync.Mutex
	own map[v2.DeploymentID]cancellation // by deployment; guarded by mu
}

type cancellation struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// NewCancellations returns cancellations of work that ends with ctx at the latest.
func NewCancellations(ctx context.Context) *Cancellations {
	return &Cancellations{ctx: ctx, own: map[v2.DeploymentID]cancellation{}}
}

// For returns the context for work on a deployment.
func (c *Cancellations) For(deployment v2.DeploymentID) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, ok := c.own[deployment]
	if !ok {
		own.ctx, own.cancel = context.WithCancel(c.ctx)
		c.own[deployment] = own
	}
	return own.ctx
}

// Cancel ends the work on a deployment that has started. Work that starts later runs.
func (c *Cancellations) Cancel(deployment v2.DeploymentID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, ok := c.own[deployment]; ok {
		own.cancel()
		delete(c.own, deployment)
	}
}

// WithAny returns a context that ends with ctx, or when the work on one of the deployments is
// cancelled. The caller must release it.
func (c *Cancellations) WithAny(ctx context.Context, deployments map[v2.DeploymentID]bool) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stops := make([]func() bool, 0, len(deployments))
	for deployment := range deployments {
		stops = append(stops, context.AfterFunc(c.For(deployment), cancel))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
