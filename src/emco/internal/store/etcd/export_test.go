package etcd

import "context"

// Interrupt ends the watch of changes; Resume lets it go on.
func (d *Driver) Interrupt() { d.changes.close() }

// Resume continues after Interrupt.
func (d *Driver) Resume() {
	ctx, stop := context.WithCancel(context.Background())
	d.changes.stop, d.changes.done = stop, make(chan struct{})
	go d.changes.run(ctx)
}

// AwaitWatch returns when the driver keeps the keys of changes.
func (d *Driver) AwaitWatch(ctx context.Context) { d.changes.between(ctx, 0, 1) }
