package rsync

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/kubewatch"
)

// conn is a connection to a cluster with the watch on it, and the kubeconfig that it
// was made of.
type conn struct {
	cluster *kube.Cluster
	config  [sha256.Size]byte
	watcher *kubewatch.Watcher
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	tracked map[appcontext.PairKey]string
}

// openConn starts the watch on a cluster; it ends with ctx or by close.
func openConn(ctx context.Context, name string, cluster *kube.Cluster, config [sha256.Size]byte, r *reporter) *conn {
	client, mapper := cluster.WatchClient()
	c := &conn{
		cluster: cluster, config: config, tracked: map[appcontext.PairKey]string{},
		watcher: kubewatch.New(kubewatch.Client{Dynamic: client, Mapper: mapper}, kubewatch.Options{Cluster: name, Log: r.log, Deliver: r.take}),
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.done.Go(func() { _ = c.watcher.Run(ctx) }) // it ends for no other reason than ctx
	return c
}

// track watches objects for a pair, if it does not do so already; what stands for them.
func (c *conn) track(k appcontext.PairKey, what string, objects []manifest.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked[k] == what {
		return
	}
	c.tracked[k] = what
	c.watcher.Track(kubewatch.App{Key: k, Objects: objects})
}

func (c *conn) forget(k appcontext.PairKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tracked[k]; ok {
		delete(c.tracked, k)
		c.watcher.Forget(k)
	}
}

// close ends the watch and the connection.
func (c *conn) close() {
	c.cancel()
	c.done.Wait()
	c.cluster.Close()
}
