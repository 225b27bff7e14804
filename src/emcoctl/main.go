// Command emcoctl applies, reads, updates and deletes EMCO documents, and follows
// deployments. See emcoctl help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cmd.Run(ctx, os.Args[1:], session.FromOS())
	stop()
	os.Exit(code)
}
