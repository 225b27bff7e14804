// Package flux runs Flux's source-controller and kustomize-controller against a
// cluster of a bed, and points them to a Git repository.
package flux

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

// Namespace is where Flux keeps its own objects.
const Namespace = "flux-system"

// startTimeout bounds the start of Flux, without the builds before it.
const startTimeout = 5 * time.Minute

// Options tune the controllers; the zero value is good for tests.
type Options struct {
	// Concurrent is the number of reconciliations at a time of each
	// controller; 0 means 4.
	Concurrent int
}

// Flux is the pair of running controllers.
type Flux struct {
	cluster   *cluster.Cluster
	options   Options
	dir       string // working folder of the controllers
	part      string // folder of the built part
	processes []*process.Process
}

// Start builds what is missing, installs the CRDs and namespace flux-system,
// starts the controllers and waits until both are ready.  The caller stops Flux
// before its cluster.  When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (*Flux, error) {
	part, err := c.Bed().Part(ctx, "flux")
	if err != nil {
		return nil, err
	}
	if o.Concurrent == 0 {
		o.Concurrent = 4
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	f := &Flux{cluster: c, options: o, dir: filepath.Join(c.Dir(), "flux"), part: part}
	if err := f.start(ctx); err != nil {
		f.Stop()
		return nil, fmt.Errorf("flux of cluster %s: %w", c.Name(), err)
	}
	c.Bed().Say(c.Name(), "flux ready in %.1f s", time.Since(begin).Seconds())
	return f, nil
}

// PIDs returns the process ids by controller.
func (f *Flux) PIDs() map[string]int {
	ids := map[string]int{}
	for _, p := range f.processes {
		ids[p.Name()] = p.PID()
	}
	return ids
}

// Check returns nil while both controllers run, and else why one ended.
func (f *Flux) Check() error { return process.FirstExited(f.processes) }

// Stop ends the controllers; the objects in the cluster stay.  A second call
// does nothing.
func (f *Flux) Stop() { process.StopAll(f.processes) }

func (f *Flux) start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(f.dir, "tmp"), 0o700); err != nil {
		return err
	}
	if err := f.install(ctx); err != nil {
		return err
	}
	for _, name := range []string{"source-controller", "kustomize-controller"} {
		if err := process.Retry(func() error { return f.controller(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (f *Flux) install(ctx context.Context) error {
	for _, file := range []string{"source-crds.yaml", "kustomize-crds.yaml"} {
		path := filepath.Join(f.part, file)
		if _, err := f.cluster.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", path); err != nil {
			return err
		}
		if _, err := f.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", path); err != nil {
			return err
		}
	}
	return f.cluster.Apply(ctx, namespace)
}

const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: flux-system
`

// controller starts one controller on new ports and waits until it is ready.
func (f *Flux) controller(ctx context.Context, name string) error {
	ports, err := port.Pick(2)
	if err != nil {
		return err
	}
	p, err := process.Start(process.Spec{
		Name: name, Path: filepath.Join(f.part, name), Dir: f.dir, Env: f.env(), Args: f.args(name, ports[0], ports[1]),
	})
	if err != nil {
		return err
	}
	health, storage := port.Address(ports[0]), port.Address(ports[1])
	if err := p.Ready(ctx, func(ctx context.Context) error { return ready(ctx, name, health, storage) }); err != nil {
		p.Stop()
		return err
	}
	f.processes = append(f.processes, p)
	return nil
}

// env makes the controllers use the cluster, which they have no flag for, and
// keep their files in the bed.
func (f *Flux) env() []string {
	return []string{
		"KUBECONFIG=" + f.cluster.Kubeconfig(), "RUNTIME_NAMESPACE=" + Namespace,
		"HOME=" + f.dir, "TMPDIR=" + filepath.Join(f.dir, "tmp"),
	}
}

func (f *Flux) args(name string, health, storage int) []string {
	args := []string{
		"--events-addr=", "--metrics-addr=0", "--health-addr=" + port.Address(health),
		"--enable-leader-election=false", "--concurrent=" + strconv.Itoa(f.options.Concurrent),
		"--requeue-dependency=1s", "--min-retry-delay=250ms", "--max-retry-delay=2s", "--interval-jitter-percentage=0",
	}
	if name == "source-controller" {
		addr := port.Address(storage)
		args = append(args, "--storage-path="+f.dir, "--storage-addr="+addr, "--storage-adv-addr="+addr)
	}
	return args
}

// ready asks for the health of a controller.  The source-controller calls itself
// ready about a second before it serves artifacts, so that is waited for too.
func ready(ctx context.Context, name, health, storage string) error {
	if err := answers(ctx, "http://"+health+"/readyz"); err != nil || name != "source-controller" {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", storage)
	if err != nil {
		return err
	}
	return conn.Close()
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
