// Command testbed builds the servers of others that tests need, such as Kubernetes, Flux, Gitea and Temporal, and runs real
// Kubernetes clusters, with Flux or without, on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := command.Output{Out: os.Stdout, Progress: os.Stderr}
	if err := command.Run(ctx, out, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(command.ExitCode(err))
	}
}
