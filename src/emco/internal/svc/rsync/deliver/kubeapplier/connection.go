package kubeapplier

import (
	"context"
	"crypto/sha256"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/kubewatch"
)

// connection is a connection to a cluster and the watch on it.
type connection struct {
	cluster    *kube.Cluster
	kubeconfig [sha256.Size]byte // that it was made with
	watcher    *kubewatch.Watcher
	cancel     context.CancelFunc
	done       sync.WaitGroup // the watcher's goroutine; close waits for it
	users      userConnections

	mu      sync.Mutex
	tracked map[appcontext.PairKey]string // what is watched for each pair; guarded by mu
}

// connect starts the watch on a cluster. It ends with ctx or by close.
func connect(ctx context.Context, name v2.ClusterKey, cluster *kube.Cluster, kubeconfig [sha256.Size]byte, o Options) *connection {
	client, mapper := cluster.WatchClient()
	c := &connection{
		cluster: cluster, kubeconfig: kubeconfig, tracked: map[appcontext.PairKey]string{},
		watcher: kubewatch.New(kubewatch.Client{Dynamic: client, Mapper: mapper}, kubewatch.Options{Cluster: name, Log: o.Log, Deliver: o.Report}),
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.done.Go(func() { _ = c.watcher.Run(ctx) }) // it ends only with ctx
	return c
}

// track watches objects for a pair. version identifies them; the same version again
// changes nothing.
func (c *connection) track(k appcontext.PairKey, version string, objects []manifest.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked[k] == version {
		return
	}
	c.tracked[k] = version
	c.watcher.Track(kubewatch.App{Key: k, Objects: objects})
}

// forget ends the watch for a pair.
func (c *connection) forget(k appcontext.PairKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tracked[k]; ok {
		delete(c.tracked, k)
		c.watcher.Forget(k)
	}
}

// close ends the watch and the connection.
func (c *connection) close() {
	c.cancel()
	c.done.Wait()
	c.users.close()
	c.cluster.Close()
}
