// Command testbed runs real Kubernetes clusters and Flux on this machine for tests.
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
