package etcd

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// NewSmall is New with a cache of so many bytes.
func NewSmall(kv *etcdkv.Client, bytes int) *Driver { return newDriver(kv, bytes) }

// Interrupt ends the watch of changes; Resume lets it go on.
func (d *Driver) Interrupt() { d.changes.close() }

// Resume continues after Interrupt.
func (d *Driver) Resume() {
	ctx, stop := context.WithCancel(context.Background())
	d.changes.stop, d.changes.done = stop, make(chan struct{})
	go d.changes.run(ctx)
}

// AwaitWatch returns when the driver keeps the keys of changes; false if that takes too long.
func (d *Driver) AwaitWatch(ctx context.Context) bool { return d.changes.await(ctx, 1, time.Minute) }

// Holds reports whether the cache has what is under a key of etcd, or a list of what is below one that ends in a slash.
func (d *Driver) Holds(name string) bool {
	_, ok := d.cache.get(name)
	return ok
}
