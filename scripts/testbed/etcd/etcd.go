// Package etcd runs an etcd of one or more members.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

	Hosts []Host // where the members run, one each; nil: on this machine, with their data in Dir
	// Peers returns the URLs by which the members reach each other, for those where they listen, as a network between
	// them needs; nil: the same. Start calls it again if it picks other ports.
	Peers func(listen []string) (advertised []string)
}

// Host is where a member runs.
type Host struct {
	Data string   // folder of its data, which exists
	With []string // a command that becomes the member, such as nsenter with its arguments
}

// Cluster is a running etcd. Its methods are not safe for concurrent use with Restart and Close.
type Cluster struct {
	members   []*process.Process
	specs     []process.Spec
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
	for i, m := range o.plan(ports) {
		command := append([]string{path}, m.args...)
		if o.Hosts != nil {
			command = slices.Concat(o.Hosts[i].With, command)
		}
		spec := process.Spec{Name: m.name, Path: command[0], Dir: o.Dir, Args: command[1:]}
		p, err := process.Start(spec)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.members, c.specs, c.endpoints = append(c.members, p), append(c.specs, spec), append(c.endpoints, m.endpoint)
	}
	var all error
	for i := range c.members {
		all = errors.Join(all, c.ready(ctx, i))
	}
	if all != nil {
		c.Close()
		return nil, all
	}
	return c, nil
}

func (c *Cluster) ready(ctx context.Context, i int) error {
	return c.members[i].Ready(ctx, func(ctx context.Context) error { return probe.HTTP(ctx, c.endpoints[i]+"/health", http.StatusOK) })
}

// Restart kills a member, unless it has ended, and starts it again on its data. It returns once the member is healthy.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	c.members[i].Kill()
	p, err := process.Start(c.specs[i])
	if err != nil {
		return err
	}
	c.members[i] = p
	return c.ready(ctx, i)
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
	var listen []string
	for i := range o.Members {
		listen = append(listen, url(o.Members+i))
	}
	peers := listen
	if o.Peers != nil {
		peers = o.Peers(listen)
	}
	var initial []string
	for i, peer := range peers {
		initial = append(initial, name(i)+"="+peer)
	}
	for i, peer := range peers {
		client, data := url(i), filepath.Join(o.data(), name(i))
		if o.Hosts != nil { // a folder of this start: nobody here sees what an earlier one left there
			data = filepath.Join(o.Hosts[i].Data, fmt.Sprint(ports[i]))
		}
		args := []string{
			"--name=" + name(i), "--data-dir=" + data, "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + listen[i], "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + strings.Join(initial, ","),
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
