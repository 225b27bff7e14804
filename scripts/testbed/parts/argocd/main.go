// Command argocd is Argo CD in one binary: the application controller, the repository server, the
// ApplicationSet controller, the API server, which receives webhooks, what Git asks for passwords, and a
// Redis in memory. The name it is called by says which it is.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	server "github.com/argoproj/argo-cd/v3/cmd/argocd-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	build := command(filepath.Base(os.Args[0]))
	if build == nil {
		fmt.Fprintln(os.Stderr, "argocd: call it as argocd-application-controller, argocd-repo-server, argocd-applicationset-controller, argocd-server or argocd-redis")
		os.Exit(2)
	}
	if err := build().Execute(); err != nil {
		os.Exit(1)
	}
}

// command returns what builds the command of a name, nil for other names. The repository
// server names the program that Git asks for passwords "argocd".
func command(name string) func() *cobra.Command {
	switch name {
	case "argocd-application-controller":
		return controller.NewCommand
	case "argocd-repo-server":
		return reposerver.NewCommand
	case "argocd-applicationset-controller":
		return applicationset.NewCommand
	case "argocd-server":
		return server.NewCommand
	case "argocd", "argocd-git-ask-pass":
		return askpass.NewCommand
	case "argocd-redis":
		return redis
	}
	return nil
}

// tick is how often the clock of miniredis moves: others have to move it, or nothing expires.
const tick = 250 * time.Millisecond

// redis serves miniredis at an address until a signal ends it. Argo CD only caches there.
func redis() *cobra.Command {
	return &cobra.Command{Use: "argocd-redis ADDRESS", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		server := miniredis.NewMiniRedis()
		if err := server.StartAddr(args[0]); err != nil {
			return err
		}
		defer server.Close()
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-clock.C:
				now := time.Now() // a busy machine leaves ticks out
				server.FastForward(now.Sub(last))
				last = now
			}
		}
	}}
}
