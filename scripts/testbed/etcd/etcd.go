// Package etcd runs an etcd of one or more members.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout limits the start of all members, without the build before it.
const startTimeout = 3 * time.Minute

// Options describe an etcd.
type Options struct {
	Dir          string // has the logs, and the data in the folder etcd-data; Start drops that of an earlier run
	Members      int
	WithoutFsync bool // the members do not wait for the disk, as they do in production
}

// Cluster is a running etcd.
type Cluster struct {
	members   []*process.Process
	endpoints []string
}

// Start builds etcd if necessary, and starts it. It returns once all members are healthy. The caller closes the
// cluster.
func Start(ctx context.Context, builder *build.Builder, o Options) (c *Cluster, err error) {
	part, err := builder.Build(ctx, "etcd")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = process.Retry(func() error {
		c, err = start(ctx, filepath.Join(part, "etcd"), o)
		return err
	})
	return c, err
}

// start starts all members on free ports.
func start(ctx context.Context, path string, o Options) (*Cluster, error) {
	ports, err := port.Pick(2 * o.Members)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(o.data()); err != nil {
		return nil, err
	}
	c := &Cluster{}
	for _, m := range o.plan(ports) {
		p, err := process.Start(process.Spec{Name: m.name, Path: path, Dir: o.Dir, Args: m.args})
		if err != nil {
			c.Close()
			return nil, err
		}
		c.members, c.endpoints = append(c.members, p), append(c.endpoints, m.endpoint)
	}
	var all error
	for i, p := range c.members {
		all = errors.Join(all, p.Ready(ctx, func(ctx context.Context) error { return probe.HTTP(ctx, c.endpoints[i]+"/health", http.StatusOK) }))
	}
	if all != nil {
		c.Close()
		return nil, all
	}
	return c, nil
}

// member is how a member is started.
type member struct {
	name, endpoint string
	args           []string
}

// plan plans the members: the first ports are those of clients.
func (o Options) plan(ports []int) (members []member) {
	url := func(i int) string { return "http://" + port.Address(ports[i]) }
	name := func(i int) string { return fmt.Sprintf("etcd%d", i+1) }
	var initial []string
	for i := range o.Members {
		initial = append(initial, name(i)+"="+url(o.Members+i))
	}
	for i := range o.Members {
		client, peer := url(i), url(o.Members+i)
		args := []string{
			"--name=" + name(i), "--data-dir=" + filepath.Join(o.data(), name(i)), "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + strings.Join(initial, ","),
		}
		if o.WithoutFsync {
			args = append(args, "--unsafe-no-fsync")
		}
		members = append(members, member{name(i), client, args})
	}
	return members
}

func (o Options) data() string { return filepath.Join(o.Dir, "etcd-data") }

// Endpoints are the client URLs of the members.
func (c *Cluster) Endpoints() []string { return c.endpoints }

// PIDs are the process ids of the members.
func (c *Cluster) PIDs() (out []int) {
	for _, p := range c.members {
		out = append(out, p.PID())
	}
	return out
}

// Exited returns nil while all members run, otherwise why the first one ended.
func (c *Cluster) Exited() error { return process.FirstExited(c.members) }

// Close stops all members. A second call does nothing.
func (c *Cluster) Close() { process.StopAll(c.members) }
