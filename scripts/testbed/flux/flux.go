// Package flux runs Flux's source-controller and kustomize-controller against a cluster of a bed, and
// points them at a Git repository.
package flux

import (
	"context"
	"net/http"
	"strconv"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/addon"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// Namespace contains Flux's own objects.
const Namespace = "flux-system"

// Options tune the controllers; the zero value suits tests.
type Options struct {
	// Concurrent is the number of concurrent reconciliations of each controller; 0 means 4.
	Concurrent int
}

// Flux is the pair of running controllers.
type Flux struct {
	*addon.Addon
	options Options
}

// Start builds missing parts, installs the CRDs and namespace flux-system, starts the controllers and
// waits until both are ready. The caller stops Flux before its cluster. When Start fails nothing is
// left running.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (*Flux, error) {
	if o.Concurrent == 0 {
		o.Concurrent = 4
	}
	a, err := addon.Start(ctx, c, "flux", func(ctx context.Context, a *addon.Addon) error { return (&Flux{a, o}).start(ctx) })
	if err != nil {
		return nil, err
	}
	return &Flux{a, o}, nil
}

func (f *Flux) start(ctx context.Context) error {
	if err := f.Define(ctx, "source-crds.yaml", "kustomize-crds.yaml"); err != nil {
		return err
	}
	if err := f.Cluster().Apply(ctx, namespace); err != nil {
		return err
	}
	for _, name := range []string{"source-controller", "kustomize-controller"} {
		if err := process.Retry(func() error { return f.controller(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
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
	return f.Run(ctx, addon.Program{
		Name: name, Env: []string{"RUNTIME_NAMESPACE=" + Namespace}, Args: f.options.args(f.Dir(), name, ports[0], ports[1]),
		Ready: func(ctx context.Context) error {
			return ready(ctx, name, port.Address(ports[0]), port.Address(ports[1]))
		},
	})
}

func (o Options) args(dir, name string, health, storage int) []string {
	args := []string{
		"--events-addr=", "--metrics-addr=0", "--health-addr=" + port.Address(health),
		"--enable-leader-election=false", "--concurrent=" + strconv.Itoa(o.Concurrent),
		"--requeue-dependency=1s", "--min-retry-delay=250ms", "--max-retry-delay=2s", "--interval-jitter-percentage=0",
	}
	if name == "source-controller" {
		addr := port.Address(storage)
		args = append(args, "--storage-path="+dir, "--storage-addr="+addr, "--storage-adv-addr="+addr)
	}
	return args
}

// ready checks the health of a controller. The source-controller reports ready about a second before it
// serves artifacts, so ready waits for that too.
func ready(ctx context.Context, name, health, storage string) error {
	if err := probe.HTTP(ctx, "http://"+health+"/readyz", http.StatusOK); err != nil || name != "source-controller" {
		return err
	}
	return probe.TCP(ctx, storage)
}
