// Package argocd runs Argo CD against a cluster of a bed: the application controller and the repository server, and for
// many clusters also the ApplicationSet controller and the API server.
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
type ArgoCD struct {
	*addon.Addon
	hub bool
	api string // address of the API server of a hub
}

// Start builds what is missing, installs the CRDs, namespace argocd and Argo CD's settings,
// starts the controllers and waits until they are ready. They look at Git every two seconds, as suits tests. The caller
// stops Argo CD before its cluster. When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster) (*ArgoCD, error) { return start(ctx, c, false) }

// StartHub starts an Argo CD for many clusters, with its own defaults: it looks at Git every two to three minutes, and
// remembers for three minutes what it saw. The ApplicationSet controller and the API server, which receives webhooks, run too.
// Otherwise as Start.
func StartHub(ctx context.Context, c *cluster.Cluster) (*ArgoCD, error) { return start(ctx, c, true) }

func start(ctx context.Context, c *cluster.Cluster, hub bool) (*ArgoCD, error) {
	argo := &ArgoCD{hub: hub}
	_, err := addon.Start(ctx, c, "argocd", func(ctx context.Context, a *addon.Addon) error {
		argo.Addon = a
		return argo.start(ctx)
	})
	if err != nil {
		return nil, err
	}
	return argo, nil
}

// Webhook is where a hub receives the webhooks of Git hosts.
func (a *ArgoCD) Webhook() string { return "http://" + a.api + "/api/webhook" }

// Register makes a cluster known under a name, as "argocd cluster add" does, with the administrator's token.
func (a *ArgoCD) Register(ctx context.Context, name string, c *cluster.Cluster) error {
	text, err := registration(name, c.Server(), c.Token(), c.CA())
	if err != nil {
		return err
	}
	return a.Cluster().Apply(ctx, text)
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
	others := []func(context.Context, string, string) error{a.controller}
	if a.hub {
		others = append(others, a.applicationSets, a.server)
	}
	for _, run := range others {
		if err := process.Retry(func() error { return run(ctx, redis, repos) }); err != nil {
			return err
		}
	}
	return nil
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
	args := []string{
		"--address", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--metrics-address", "127.0.0.1", "--metrics-port", strconv.Itoa(ports[1]),
		"--redis", redis, "--disable-tls",
	}
	if !a.hub {
		args = append(args, "--revision-cache-expiration", "1s")
	}
	return address, a.run(ctx, "argocd-repo-server", args, func(ctx context.Context) error { return probe.TCP(ctx, address) })
}

// controller starts the application controller. Its metrics port is the only port of a bed that listens
// on all addresses: there is no flag for it.
func (a *ArgoCD) controller(ctx context.Context, redis, repos string) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	args := append(a.common("--repo-server", repos), "--redis", redis, "--metrics-port", strconv.Itoa(ports[0]))
	if !a.hub {
		args = append(args, "--app-resync", "2", "--app-resync-jitter", "0", "--self-heal-timeout-seconds", "1")
	}
	return a.run(ctx, "argocd-application-controller", args, healthy(ports[0]))
}

// applicationSets starts the ApplicationSet controller, which has a port for probes that answers none.
func (a *ArgoCD) applicationSets(ctx context.Context, _, repos string) error {
	ports, err := port.Pick(3)
	if err != nil {
		return err
	}
	args := append(a.common("--argocd-repo-server", repos),
		"--metrics-addr", port.Address(ports[0]), "--probe-addr", port.Address(ports[1]), "--webhook-addr", port.Address(ports[2]))
	return a.run(ctx, "argocd-applicationset-controller", args, func(ctx context.Context) error { return probe.TCP(ctx, port.Address(ports[1])) })
}

// server starts the API server, without authentication.
func (a *ArgoCD) server(ctx context.Context, redis, repos string) error {
	ports, err := port.Pick(2)
	if err != nil {
		return err
	}
	a.api = port.Address(ports[0])
	args := append(a.common("--repo-server", repos), "--redis", redis, "--insecure", "--disable-auth", "--address", "127.0.0.1", "--port", strconv.Itoa(ports[0]),
		"--metrics-address", "127.0.0.1", "--metrics-port", strconv.Itoa(ports[1]))
	return a.run(ctx, "argocd-server", args, healthy(ports[0]))
}

// common are the arguments of programs that use the cluster and the repository server, which they name by a flag.
func (a *ArgoCD) common(flag, repos string) []string {
	return []string{"--kubeconfig", a.Cluster().Kubeconfig(), "--namespace", Namespace, flag, repos, "--repo-server-plaintext"}
}

// healthy asks a port whether its program is ready.
func healthy(of int) func(context.Context) error {
	return func(ctx context.Context) error {
		return probe.HTTP(ctx, "http://"+port.Address(of)+"/healthz", http.StatusOK)
	}
}

// run starts one program and waits until it is ready. It points the program at the cluster as Argo CD's
// own, and makes Git find its askpass program.
func (a *ArgoCD) run(ctx context.Context, name string, args []string, ready func(context.Context) error) error {
	return a.Run(ctx, addon.Program{Name: name, Args: args, Ready: ready, Env: []string{
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "ARGOCD_PLUGINSOCKFILEPATH=" + filepath.Join(a.Dir(), "plugins"),
		// By default all repository servers of a machine share one socket, and the last one answers for all.
		"ARGOCD_ASK_PASS_SOCK=" + filepath.Join(a.Dir(), "ask-pass.sock"),
		"PATH=" + a.Part() + string(os.PathListSeparator) + os.Getenv("PATH"),
	}})
}
