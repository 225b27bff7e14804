// Package cluster runs real Kubernetes clusters without kubelets: an API server,
// a controller manager and a scheduler, while kwok plays the nodes and pods.
//
//	kubectl, tests ──> kube-apiserver ──> etcd of the bed, under /clusters/NAME
//	                      ▲   ▲   ▲
//	    controller-manager┘   │   └kwok: makes nodes and pods Ready
//	                      scheduler
//
// Each cluster has its own certificate authority, tokens, ports and folder.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/pki"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/rest"
)

// startTimeout limits the start of a cluster, without the builds before it.
const startTimeout = 5 * time.Minute

// DefaultNodes is the default number of nodes of a cluster.
const DefaultNodes = 2

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Options configure a cluster.
type Options struct {
	Bed   *bed.Bed
	Name  string // lower case letters, digits and dashes; unique in the bed
	Nodes int    // 0 means DefaultNodes, a negative number means none
	// Bare leaves out the controllers, the scheduler and the nodes, which take half of a cluster's memory: an API server is
	// enough for objects that nothing in the cluster acts on.
	Bare bool
}

// Cluster is a running cluster.
type Cluster struct {
	name, dir string
	nodes     int
	bare      bool
	bed       *bed.Bed
	programs  programDirs
	server    string // URL of the API server
	tokens    clusterTokens
	keys      pki.Files
	client    *rest.Client
	processes []*process.Process
}

// programDirs are the folders of the built parts.
type programDirs struct{ kube, kwok string }

// Start builds missing parts, starts a cluster and waits until it accepts work: the API server and the
// nodes are ready, and the service account of namespace default exists, or in a bare cluster that namespace. The caller stops the cluster
// before closing its bed. When Start fails nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("cluster %s: %w", c.name, err)
	}
	c.bed.Say(c.name, "ready with %d nodes in %.1f s, kubeconfig %s", c.nodes, time.Since(begin).Seconds(), c.Kubeconfig())
	return c, nil
}

// Name returns the name of the cluster.
func (c *Cluster) Name() string { return c.name }

// Dir returns the folder with the cluster's files and logs.
func (c *Cluster) Dir() string { return c.dir }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return c.server }

// Bed returns the bed of the cluster.
func (c *Cluster) Bed() *bed.Bed { return c.bed }

// Kubeconfig returns the path of the administrator's kubeconfig. The file contains the token and the
// certificate authority.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

// CA returns the certificate authority, in PEM.
func (c *Cluster) CA() []byte { return c.keys.CA }

// Token returns the token of the administrator.
func (c *Cluster) Token() string { return c.tokens.admin }

// Issue writes a certificate for 127.0.0.1 and other hosts, signed by the certificate authority, and its key.
func (c *Cluster) Issue(certificate, key, name string, hosts ...string) error {
	return c.keys.Issue(certificate, key, name, hosts...)
}

// PIDs returns the process ids by program.
func (c *Cluster) PIDs() map[string]int {
	ids := map[string]int{}
	for _, p := range c.processes {
		ids[p.Name()] = p.PID()
	}
	return ids
}

// Check returns nil while all processes run, otherwise the reason of the first end.
func (c *Cluster) Check() error { return process.FirstExited(c.processes) }

// Stop ends all processes of the cluster. Its data stays in the bed's etcd. A second call does nothing.
func (c *Cluster) Stop() {
	if c.client != nil {
		c.client.Close()
	}
	process.StopAll(c.processes)
}

func prepare(ctx context.Context, o Options) (*Cluster, error) {
	if o.Bed == nil {
		return nil, errors.New("a cluster needs a bed: call bed.Open first")
	}
	if !validName.MatchString(o.Name) {
		return nil, fmt.Errorf("cluster name %q: use at most 40 lower case letters, digits and dashes", o.Name)
	}
	if o.Nodes == 0 {
		o.Nodes = DefaultNodes
	}
	c := &Cluster{name: o.Name, dir: filepath.Join(o.Bed.Dir(), o.Name), nodes: max(o.Nodes, 0), bare: o.Bare, bed: o.Bed, tokens: newTokens()}
	if o.Bare {
		c.nodes = 0
	}
	var err error
	if c.programs.kube, err = o.Bed.Part(ctx, "kube"); err != nil {
		return nil, err
	}
	if c.programs.kwok, err = o.Bed.Part(ctx, "kwok"); err != nil {
		return nil, err
	}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) writeFiles() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	var err error
	if c.keys, err = pki.Write(c.dir); err != nil {
		return err
	}
	return os.WriteFile(c.path("tokens.csv"), []byte(c.tokens.csv()), 0o600)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) start(ctx context.Context) error {
	if err := process.Retry(func() error { return c.startServer(ctx) }); err != nil {
		return err
	}
	clients := c.clients()
	if c.bare {
		clients = nil
	}
	for _, s := range clients {
		p, err := process.Start(s)
		if err != nil {
			return err
		}
		c.processes = append(c.processes, p)
	}
	return c.ready(ctx)
}

// startServer starts the API server on a new port and writes its kubeconfigs.
func (c *Cluster) startServer(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	c.server = "https://" + port.Address(ports[0])
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if c.client, err = rest.New(c.server, c.tokens.admin, c.keys.CA); err != nil {
		return err
	}
	p, err := process.Start(c.spec("kube-apiserver", c.serverArgs(c.bed.EtcdURL(), ports[0])))
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, func(ctx context.Context) error { return c.client.Get(ctx, "/readyz", nil) }); err != nil {
		p.Stop()
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}
