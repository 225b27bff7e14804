package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
)

// waitFlags are the flags of commands that can wait for the result.
type waitFlags struct {
	status  bool
	timeout time.Duration
}

func (f *waitFlags) flags(c *cobra.Command) {
	c.Flags().BoolVar(&f.status, "wait-for-status", false, "after each accepted action, wait until it has succeeded or failed")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for each")
}

// runDocuments runs a verb over -f or an anchor.
func runDocuments(ctx context.Context, s *session, verb anchor.Verb, args []string, adjust func(*apply.Options)) error {
	path, err := s.subject(args)
	if err != nil {
		return err
	}
	servers, err := s.servers()
	if err != nil {
		return err
	}
	printer, err := s.printer(s.documentFormat(servers), path == "" || verb != anchor.Get)
	if err != nil {
		return err
	}
	options, err := s.clientOptions(servers)
	if err != nil {
		return err
	}
	o := apply.Options{
		Servers: servers, Client: options, Printer: printer,
		Stop: s.stop, Strict: s.strict, Pause: time.Duration(s.waitTime) * time.Second,
	}
	adjust(&o)
	printer.Begin(servers.Notice)
	err = feedExecutor(ctx, s, apply.New(o), verb, path)
	return errors.Join(err, printer.End())
}

// feedExecutor gives the executor the anchor, or the documents of -f.
func feedExecutor(ctx context.Context, s *session, e *apply.Executor, verb anchor.Verb, path string) error {
	if path != "" {
		return e.Anchor(ctx, verb, path)
	}
	docs, err := s.load()
	if err != nil {
		return err
	}
	return e.Run(ctx, verb, docs)
}

// waiter returns the function that the executor calls after an accepted action; nil for
// none.
func waiter(s *session, f waitFlags) func(context.Context, *client.Client, string, string) error {
	if !f.status {
		return nil
	}
	return func(ctx context.Context, c *client.Client, path, action string) error {
		goal, ok := goalOf[action]
		if !ok || !followable(path) {
			return nil
		}
		return follow(ctx, s, c, path, goal, f.timeout)
	}
}
