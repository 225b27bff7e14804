// Package documents holds the commands that work on documents: apply, update, get and delete.
// get prints the lists of package overview, too.
package documents

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/lifecycle"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{newApplyCommand(s), newUpdateCommand(s), newGetCommand(s), newDeleteCommand(s)}
}

// waitFlags are the flags of commands that can wait for the result.
type waitFlags struct {
	status  bool
	timeout time.Duration
}

func (f *waitFlags) flags(c *cobra.Command) {
	c.Flags().BoolVar(&f.status, "wait-for-status", false, "after each accepted action, wait until everything is applied or pushed (of a terminate: removed), or has failed")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for each")
}

// runDocuments runs a verb over -f or an anchor.
func runDocuments(ctx context.Context, s *session.Session, verb anchor.Verb, args []string, adjust func(*apply.Options)) error {
	path, err := s.Subject(args)
	if err != nil {
		return err
	}
	servers, err := s.Servers()
	if err != nil {
		return err
	}
	printer, err := s.Printer(s.FormatOfDocuments(servers), path == "" || verb != anchor.Get)
	if err != nil {
		return err
	}
	options, err := s.ClientOptions(servers)
	if err != nil {
		return err
	}
	o := apply.Options{
		Servers: servers, Client: options, Printer: printer,
		Stop: s.Stop, Strict: s.Strict, Pause: time.Duration(s.WaitTime) * time.Second,
	}
	adjust(&o)
	printer.Begin(servers.Notice)
	err = feedExecutor(ctx, s, apply.New(o), verb, path)
	return errors.Join(err, printer.End())
}

// feedExecutor gives the executor the anchor, or the documents of -f.
func feedExecutor(ctx context.Context, s *session.Session, e *apply.Executor, verb anchor.Verb, path string) error {
	if path != "" {
		return e.Anchor(ctx, verb, path)
	}
	docs, err := s.Load()
	if err != nil {
		return err
	}
	return e.Run(ctx, verb, docs)
}

// waiter returns the function that the executor calls after an accepted action; nil for
// none.
func waiter(s *session.Session, f waitFlags) func(context.Context, *client.Client, string, string) error {
	if !f.status {
		return nil
	}
	return func(ctx context.Context, c *client.Client, path, action string) error {
		goal, ok := lifecycle.GoalOf[action]
		if !ok || !session.Followable(path) {
			return nil
		}
		return lifecycle.Follow(ctx, s, c, path, goal, f.timeout)
	}
}
