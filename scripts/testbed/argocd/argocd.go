// Package argocd runs Argo CD's application controller and repository server against a
// cluster of a bed.
package argocd

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/addon"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// Namespace contains Argo CD's own objects.
const Namespace = "argocd"

// ArgoCD is the running controllers and their cache.
type ArgoCD struct{ *addon.Addon }

// Start builds what is missing, installs the CRDs, namespace argocd and Argo CD's settings,
// starts the controllers and waits until they are ready. The caller stops Argo CD before its
// cluster. When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster) (*ArgoCD, error) {
	a, err := addon.Start(ctx, c, "argocd", func(ctx context.Context, a *addon.Addon) error { return (&ArgoCD{a}).start(ctx) })
	if err != nil {
		return nil, err
	}
	return &ArgoCD{a}, nil
}

func (a *ArgoCD) start(ctx context.Context) error {
	if err := a.Define(ctx, "crds.yaml"); err != nil {
		return err
	}
	if err := a.Cluster().Apply(ctx, settings()); err != nil {
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

// redis starts the cache of the others, and returns its address.
func (a *ArgoCD) redis(ctx context.Context) (string, error) {
	ports, err := port.Pick(1)
	if err != nil {
		return "", err
	}
	address := port.Address(ports[0])
	return address, a.run(ctx, "argocd-redis", []string{address}, func(ctx context.Context) error { return probe.TCP(ctx, address) })
}

// repoServer starts the repository server, and returns its address.
func (a *ArgoCD) repoServer(ctx context.Context, redis string) (string, error) {
	ports, err := port.Pick(2)
	if err != nil {
		return "", err
	}
	address := port.Address(ports[0])
	return address, a.run(ctx, "argocd-repo-server", []string{
		"--address", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--metrics-address", "127.0.0.1", "--metrics-port", strconv.Itoa(ports[1]),
		"--redis", redis, "--disable-tls", "--revision-cache-expiration", "1s",
	}, func(ctx context.Context) error { return probe.TCP(ctx, address) })
}

// controller starts the application controller. Its metrics port is the only port of a bed that listens
// on all addresses: there is no flag for it.
func (a *ArgoCD) controller(ctx context.Context, redis, repos string) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	return a.run(ctx, "argocd-application-controller", []string{
		"--kubeconfig", a.Cluster().Kubeconfig(), "--namespace", Namespace, "--repo-server", repos, "--repo-server-plaintext", "--redis", redis,
		"--metrics-port", strconv.Itoa(ports[0]), "--app-resync", "2", "--app-resync-jitter", "0", "--self-heal-timeout-seconds", "1",
	}, func(ctx context.Context) error {
		return probe.HTTP(ctx, "http://"+port.Address(ports[0])+"/healthz", http.StatusOK)
	})
}

// run starts one program and waits until it is ready. It points the program at the cluster as Argo CD's
// own, and makes Git find its askpass program.
func (a *ArgoCD) run(ctx context.Context, name string, args []string, ready func(context.Context) error) error {
	return a.Run(ctx, addon.Program{Name: name, Args: args, Ready: ready, Env: []string{
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "ARGOCD_PLUGINSOCKFILEPATH=" + filepath.Join(a.Dir(), "plugins"),
		"PATH=" + a.Part() + string(os.PathListSeparator) + os.Getenv("PATH"),
	}})
}
