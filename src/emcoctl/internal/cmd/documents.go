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

// execute runs a verb over -f or an anchor.
func (a *app) execute(ctx context.Context, verb anchor.Verb, args []string, adjust func(*apply.Options)) error {
	path, err := a.subject(args)
	if err != nil {
		return err
	}
	printer, err := a.printer(path == "" || verb != anchor.Get)
	if err != nil {
		return err
	}
	o := apply.Options{
		Client: a.clientOptions(), Printer: printer, Stop: a.stop, Pause: time.Duration(a.waitTime) * time.Second,
	}
	if o.Servers, err = a.servers(); err != nil {
		return err
	}
	adjust(&o)
	printer.Begin(o.Servers.Notice)
	err = a.feed(ctx, apply.New(o), verb, path)
	return errors.Join(err, printer.End())
}

// feed gives the executor the anchor, or the documents of -f.
func (a *app) feed(ctx context.Context, e *apply.Executor, verb anchor.Verb, path string) error {
	if path != "" {
		return e.Anchor(ctx, verb, path)
	}
	docs, err := a.load()
	if err != nil {
		return err
	}
	return e.Run(ctx, verb, docs)
}

// subject returns the anchor, or "" if documents are given by -f.
func (a *app) subject(args []string) (string, error) {
	switch {
	case a.waitTime < 0:
		return "", usagef("-w: %d seconds is negative", a.waitTime)
	case len(a.files) > 0 && len(args) > 0:
		return "", usagef("give -f or an anchor, not both")
	case len(a.files) > 0:
		return "", nil
	case len(args) == 0 || args[0] == "":
		return "", usagef("give documents with -f, or an anchor")
	}
	return args[0], nil
}

// apply is the command that creates and configures.
func (a *app) apply() *cobra.Command {
	var f waitFlags
	var postOnly bool
	c := &cobra.Command{
		Use: "apply (-f FILE... | ANCHOR)", Short: "Create or configure documents, run actions",
		Long: `Apply sends each document in the order of the files. It creates new documents and
configures (PUT) those that differ; the others are unchanged. It runs actions, such as
…/instantiate; an action that is done already is unchanged. With an anchor, it sends an
empty body: apply …/approve.`,
		Example:           "  emcoctl apply -f edge.yaml -f apps/ -v values.yaml\n  emcoctl apply -f deploy.yaml --wait-for-status\n  emcoctl apply projects/p/composite-apps/a/v1/deployment-intent-groups/d/update",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.complete,
		RunE: a.run(func(c *cobra.Command, args []string) error {
			return a.execute(c.Context(), anchor.Apply, args, func(o *apply.Options) {
				o.PostOnly = postOnly
				o.Accepted = a.accepted(f)
			})
		}),
	}
	f.flags(c)
	c.Flags().BoolVar(&postOnly, "post-only", false, "only create, as upstream's client does: an existing document is an error")
	return c
}

// update is the command that replaces documents. With a deployment it is the action update.
func (a *app) update() *cobra.Command {
	d := actionRun{actionCommand: actionCommand{name: "update"}}
	c := &cobra.Command{
		Use: "update (-f FILE... | GROUP)", Short: "Replace documents, or roll out the documents of a deployment",
		Long: `Update sends each document with PUT, in the order of the files. Actions are skipped.

With GROUP (PROJECT/COMPOSITEAPP/VERSION/GROUP, or its path) it is an action: the
documents on the server become the next revision of the deployment.`,
		Example:           "  emcoctl update -f app-intent.yaml\n  emcoctl update shop/till/v1/autumn --dry-run\n  emcoctl update shop/till/v1/autumn --reason 'more memory' --wait",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeGroup,
		RunE: a.run(func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.execute(c.Context(), anchor.Update, nil, func(*apply.Options) {})
			}
			if _, err := deployment(args[0]); err != nil || len(a.files) > 0 {
				return usagef("update takes documents, emcoctl update -f FILE, or one deployment intent group, emcoctl update PROJECT/COMPOSITEAPP/VERSION/GROUP")
			}
			a.honest = true
			return a.carryOut(c.Context(), d, args[0])
		}),
	}
	d.flags(c)
	return c
}

// get is the command that reads.
func (a *app) get() *cobra.Command {
	return &cobra.Command{
		Use: "get (-f FILE... | ANCHOR)", Short: "Read documents or an anchor",
		Long:              "Get reads each document of the files as it is stored, or an anchor with its query if any.",
		Example:           "  emcoctl get projects\n  emcoctl get cluster-providers/edge/clusters?label=west -o json\n  emcoctl get -f edge.yaml",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.complete,
		RunE: a.run(func(c *cobra.Command, args []string) error {
			return a.execute(c.Context(), anchor.Get, args, func(*apply.Options) {})
		}),
	}
}

// delete is the command that removes and terminates.
func (a *app) delete() *cobra.Command {
	var f waitFlags
	var missing bool
	c := &cobra.Command{
		Use: "delete (-f FILE... | ANCHOR)", Short: "Delete documents, terminate deployments",
		Long: `Delete removes each document, the last one first. For an anchor that ends in instantiate
it terminates the deployment; it skips other actions. It refuses a document without a
name, which would delete a whole collection.`,
		Example:           "  emcoctl delete -f deploy.yaml --wait-for-status\n  emcoctl delete cluster-providers/edge",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.complete,
		RunE: a.run(func(c *cobra.Command, args []string) error {
			return a.execute(c.Context(), anchor.Delete, args, func(o *apply.Options) {
				o.IgnoreMissing = missing
				o.Accepted = a.accepted(f)
			})
		}),
	}
	f.flags(c)
	c.Flags().BoolVar(&missing, "ignore-not-found", false, "a missing document is no error")
	return c
}

// accepted returns the function that the executor calls after an accepted action; nil for
// none.
func (a *app) accepted(f waitFlags) func(context.Context, *client.Client, string, string) error {
	if !f.status {
		return nil
	}
	return func(ctx context.Context, c *client.Client, path, action string) error {
		goal, ok := goalOf[action]
		if !ok || !followable(path) {
			return nil
		}
		return a.follow(ctx, c, path, goal, f.timeout)
	}
}
