// Package etcd runs an etcd of one or more members. Unlike the etcd of a bed, its members wait for the disk, as they do
// in production.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// startTimeout limits the start of all members.
const startTimeout = 3 * time.Minute

// Cluster is a running etcd.
type Cluster struct {
	members   []*process.Process
	endpoints []string
}

// Start builds etcd if necessary, and starts it with its data in a new folder of dir. It returns once all members
// are healthy. The caller closes the cluster. progress receives the lines of the build.
func Start(ctx context.Context, dir string, members int, progress io.Writer) (*Cluster, error) {
	builder, err := build.New(progress)
	if err != nil {
		return nil, err
	}
	part, err := builder.Build(ctx, "etcd")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var c *Cluster
	err = process.Retry(func() error {
		data, err := os.MkdirTemp(dir, "etcd")
		if err != nil {
			return err
		}
		c = &Cluster{}
		if err = c.start(ctx, filepath.Join(part, "etcd"), data, members); err != nil {
			c.Close()
		}
		return err
	})
	return c, err
}

func (c *Cluster) start(ctx context.Context, path, dir string, members int) error {
	ports, err := port.Pick(2 * members)
	if err != nil {
		return err
	}
	url := func(i int) string { return "http://" + port.Address(ports[i]) }
	var initial []string
	for i := range members {
		c.endpoints = append(c.endpoints, url(i))
		initial = append(initial, name(i)+"="+url(members+i))
	}
	for i := range members {
		client, peer := url(i), url(members+i)
		p, err := process.Start(process.Spec{Name: name(i), Path: path, Dir: dir, Args: []string{
			"--name=" + name(i), "--data-dir=" + filepath.Join(dir, name(i)), "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + strings.Join(initial, ","),
		}})
		if err != nil {
			return err
		}
		c.members = append(c.members, p)
	}
	var all error
	for i, p := range c.members {
		all = errors.Join(all, p.Ready(ctx, func(ctx context.Context) error { return probe.HTTP(ctx, c.endpoints[i]+"/health", http.StatusOK) }))
	}
	return all
}

func name(i int) string { return fmt.Sprintf("member%d", i+1) }

// Endpoints are the client URLs of the members.
func (c *Cluster) Endpoints() []string { return c.endpoints }

// PIDs are the process ids of the members.
func (c *Cluster) PIDs() (out []int) {
	for _, p := range c.members {
		out = append(out, p.PID())
	}
	return out
}

// Close stops all members.
func (c *Cluster) Close() { process.StopAll(c.members) }
