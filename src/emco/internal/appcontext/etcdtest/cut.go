package etcdtest

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// CutWatcher is a watcher whose watches can be ended, as by a lost connection.
type CutWatcher struct {
	clientv3.Watcher
	gate sync.RWMutex         // held while the connection is lost
	mu   sync.Mutex           // guards cuts
	cuts []context.CancelFunc // of the running watches
}

// WithCutWatcher returns a client like c whose watches can be cut.
func WithCutWatcher(ctx context.Context, c *clientv3.Client) (*clientv3.Client, *CutWatcher) {
	w := &CutWatcher{Watcher: c.Watcher}
	cut := clientv3.NewCtxClient(context.WithoutCancel(ctx))
	cut.KV, cut.Lease, cut.Watcher = c.KV, c.Lease, w
	return cut, w
}

// Watch watches keys until a cut.
func (w *CutWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	w.gate.RLock()
	defer w.gate.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	w.cuts = append(w.cuts, cancel)
	w.mu.Unlock()
	return w.Watcher.Watch(ctx, key, opts...)
}

// Lose ends all watches, and lets new ones begin after meanwhile has run.
func (w *CutWatcher) Lose(meanwhile func()) {
	w.gate.Lock()
	defer w.gate.Unlock()
	w.mu.Lock()
	for _, cancel := range w.cuts {
		cancel()
	}
	w.cuts = nil
	w.mu.Unlock()
	meanwhile()
}
