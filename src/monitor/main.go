// Command monitor runs on a Kubernetes cluster that pulls its desired state from Git. It
// says how the objects there are doing, through Git or by HTTPS. It opens no port.
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

	"github.com/emco-orchestrator/emco/src/monitor/internal/agent"
	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run returns the exit code: 0 after a clean end, 1 after a failure, 2 if it was called
// in the wrong way.
func run(ctx context.Context, args []string, out io.Writer) int {
	c, err := config.Read(args, os.Getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(out, "monitor:", err)
		return 2
	case c.Alive:
		err = agent.Alive(c.AliveFile)
	default:
		err = agent.Run(ctx, c, logger(c, out))
	}
	if err != nil {
		fmt.Fprintln(out, "monitor:", err)
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
