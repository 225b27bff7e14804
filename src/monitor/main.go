// Command monitor runs on a Kubernetes cluster that pulls its desired state from Git, a registry or a bucket. It
// reports the health of the objects there and, if asked to, what the nodes have free, through Git or by HTTPS. It opens
// no port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/monitor/internal/agent"
	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 for success, 1 for a failure, 2 for wrong usage.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	c, err := config.Read(args, os.Getenv, errOut)
	switch {
	case version.Requested(args):
		err = version.Print(out, "monitor")
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "monitor:", err)
		return 2
	case c.CheckAlive:
		err = agent.CheckAlive(c.AliveFile)
	default:
		err = agent.Run(ctx, c, logger(c, errOut))
	}
	if err != nil {
		fmt.Fprintln(errOut, "monitor:", err)
		return 1
	}
	return 0
}

func logger(c config.Config, out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(out, o))
	}
	return slog.New(slog.NewJSONHandler(out, o))
}
