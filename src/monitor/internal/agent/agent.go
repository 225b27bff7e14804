// Package agent is the monitor: it watches a cluster, writes upstream's ResourceBundleStates
// there, and reports through Git or by HTTPS. It accepts no connections.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/monitor/internal/bundlestate"
	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
	"github.com/emco-orchestrator/emco/src/monitor/publish"
)

// The Git caches are small, because the agent writes one file.
const (
	maxTrees = 32 << 20
	maxBlob  = 16 << 20
)

// Run works until ctx ends.
func Run(ctx context.Context, c config.Config, log *slog.Logger) error {
	clients, err := connect(c)
	if err != nil {
		return err
	}
	observer := observe.New(clients, observe.Options{Secrets: c.Secrets, Exclude: c.Exclude, Briefs: c.States, Capacity: c.Capacity, Log: log})
	host := plain.New(plain.Options{MaxRepos: 2, MaxTrees: maxTrees, MaxBlob: maxBlob, Admit: admitAddress, Log: log})
	defer func() { _ = host.Close() }()
	writer, done, err := newWriter(c, host, log)
	if err != nil {
		return err
	}
	defer done()
	loop := publish.New(observer, writer, publish.Options{
		Cluster: c.Cluster, Agent: "monitor/" + version.Read().Version, Interval: c.Interval, Heartbeat: c.Heartbeat,
		OnAlive: func() { touchAliveFile(c.AliveFile, log) }, CredentialsID: c.CredentialsID, Log: log,
	})
	parts := []func(context.Context) error{observer.Run, loop.Run}
	if c.States {
		parts = append(parts, bundlestate.New(clients.Dynamic, observer, 0, log).Run)
	}
	log.Info("monitor started", "cluster", c.Cluster, "to", cmp.Or(c.ControlPlane, c.URL), "mode", c.Mode)
	return runAll(ctx, parts)
}

// runAll runs parts until ctx ends or one of them returns.
func runAll(ctx context.Context, parts []func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	failures := make([]error, len(parts))
	for i, run := range parts {
		running.Go(func() {
			defer cancel()
			defer func() {
				if p := recover(); p != nil {
					failures[i] = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			failures[i] = run(ctx)
		})
	}
	running.Wait()
	return errors.Join(failures...)
}

func connect(c config.Config) (observe.Clients, error) {
	if c.Kubeconfig == "" {
		inside, err := rest.InClusterConfig()
		if err != nil {
			return observe.Clients{}, fmt.Errorf("no kubeconfig is given, and this is not a pod: %w", err)
		}
		return observe.Connect(inside)
	}
	outside, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return observe.Clients{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return observe.Connect(outside)
}

// newWriter returns the writer of reports, and a function that closes it.
func newWriter(c config.Config, host *plain.Host, log *slog.Logger) (w publish.Writer, done func(), err error) {
	switch c.Mode {
	case config.SharedBranch:
		commits := batch.New(host, batch.Options{Author: publish.Author, Log: log})
		return publish.NewSharedBranch(host, commits, c.Repository, c.Branch, c.Cluster), commits.Close, nil
	case config.HTTPS:
		to, err := publish.NewControlPlane(c.ControlPlane)
		if err != nil {
			return nil, nil, fmt.Errorf("status.url: %w", err)
		}
		credentials := func() (p publish.Credentials, err error) {
			p.Token, p.CA, err = c.ReportCredentials()
			return p, err
		}
		cluster, err := v2.ParseClusterKey(c.Cluster)
		if err != nil {
			return nil, nil, fmt.Errorf("cluster: %w", err)
		}
		return publish.NewHTTPS(to, credentials, cluster, c.Limit), func() {}, nil
	}
	return publish.NewOwnBranch(host, c.Repository, c.Prefix, c.Cluster, c.Limit, log), func() {}, nil
}

// admitAddress allows Git servers on any address except link-local ones, where clouds have
// their metadata services.
func admitAddress(a netip.Addr) error {
	if a.Unmap().IsLinkLocalUnicast() {
		return fmt.Errorf("address %s is link-local: it is not a Git server", a)
	}
	return nil
}
