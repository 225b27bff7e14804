// Package argocd runs Argo CD's application controller and repository server against a
// cluster of a bed.
package argocd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// Namespace is where Argo CD keeps its own objects.
const Namespace = "argocd"

// startTimeout bounds the start of Argo CD, without the builds before it.
const startTimeout = 5 * time.Minute

// ArgoCD is the running controllers, and what they cache in.
type ArgoCD struct {
	cluster   *cluster.Cluster
	dir       string // working folder of the controllers
	part      string // folder of the built part
	processes []*process.Process
}

// Start builds what is missing, installs the CRDs, namespace argocd and Argo CD's settings,
// starts the controllers and waits until they are ready. The caller stops Argo CD before its
// cluster. When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster) (*ArgoCD, error) {
	part, err := c.Bed().Part(ctx, "argocd")
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	a := &ArgoCD{cluster: c, dir: filepath.Join(c.Dir(), "argocd"), part: part}
	if err := a.start(ctx); err != nil {
		a.Stop()
		return nil, fmt.Errorf("argo cd of cluster %s: %w", c.Name(), err)
	}
	c.Bed().Say(c.Name(), "argo cd ready in %.1f s", time.Since(begin).Seconds())
	return a, nil
}

// Check returns nil while all processes run, and else why one ended.
func (a *ArgoCD) Check() error { return process.FirstExited(a.processes) }

// Stop ends the controllers; the objects in the cluster stay. A second call does nothing.
func (a *ArgoCD) Stop() { process.StopAll(a.processes) }

func (a *ArgoCD) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(a.dir, "tmp"), 0o700); err != nil {
		return err
	}
	if err := a.install(ctx); err != nil {
		return err
	}
	var redis, repos string
	if err := process.Retry(func() (err error) { redis, err = a.redis(ctx); return err }); err != nil {
		return err
	}
	if err := process.Retry(func() (err error) { repos, err = a.repoServer(ctx, redis); return err }); err != nil {
		return err
	}
	return process.Retry(func() error { return a.controller(ctx, redis, repos) })
}

// install puts the CRDs and the settings into the cluster.
func (a *ArgoCD) install(ctx context.Context) error {
	crds := filepath.Join(a.part, "crds.yaml")
	if _, err := a.cluster.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", crds); err != nil {
		return err
	}
	if _, err := a.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", crds); err != nil {
		return err
	}
	return a.cluster.Apply(ctx, settings())
}

// redis starts what the others cache in, and returns its address.
func (a *ArgoCD) redis(ctx context.Context) (string, error) {
	ports, err := port.Pick(1)
	if err != nil {
		return "", err
	}
	address := port.Address(ports[0])
	return address, a.run(ctx, "argocd-redis", []string{address}, func(ctx context.Context) error { return dial(ctx, address) })
}

// repoServer starts the server that reads repositories, and returns its address.
func (a *ArgoCD) repoServer(ctx context.Context, redis string) (string, error) {
	ports, err := port.Pick(2)
	if err != nil {
		return "", err
	}
	address := port.Address(ports[0])
	return address, a.run(ctx, "argocd-repo-server", []string{
		"--address", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--metrics-address", "127.0.0.1", "--metrics-port", strconv.Itoa(ports[1]),
		"--redis", redis, "--disable-tls", "--revision-cache-expiration", "1s",
	}, func(ctx context.Context) error { return dial(ctx, address) })
}

// controller starts the application controller. Its port of metrics is the one port of a
// bed that listens on all addresses: there is no flag for it.
func (a *ArgoCD) controller(ctx context.Context, redis, repos string) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	return a.run(ctx, "argocd-application-controller", []string{
		"--kubeconfig", a.cluster.Kubeconfig(), "--namespace", Namespace, "--repo-server", repos, "--repo-server-plaintext", "--redis", redis,
		"--metrics-port", strconv.Itoa(ports[0]), "--app-resync", "2", "--app-resync-jitter", "0", "--self-heal-timeout-seconds", "1",
	}, func(ctx context.Context) error { return healthy(ctx, ports[0]) })
}

// run starts one program and waits until it is ready.
func (a *ArgoCD) run(ctx context.Context, name string, args []string, ready func(context.Context) error) error {
	p, err := process.Start(process.Spec{Name: name, Path: filepath.Join(a.part, name), Dir: a.dir, Env: a.env(), Args: args})
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, ready); err != nil {
		p.Stop()
		return err
	}
	a.processes = append(a.processes, p)
	return nil
}

// env makes the cluster the one that Argo CD takes for its own, has Git find the program
// that it asks for passwords, and keeps files in the bed.
func (a *ArgoCD) env() []string {
	return []string{
		"KUBECONFIG=" + a.cluster.Kubeconfig(), "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_PLUGINSOCKFILEPATH=" + filepath.Join(a.dir, "plugins"), "PATH=" + a.part + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + a.dir, "TMPDIR=" + filepath.Join(a.dir, "tmp"),
	}
}

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// healthy asks the application controller for its health.
func healthy(ctx context.Context, metrics int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+port.Address(metrics)+"/healthz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the application controller answers %s", res.Status)
	}
	return nil
}
