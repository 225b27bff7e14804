// Package cmd is the command line of emcoctl: one file per command, and their common parts.
package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// System is the environment of a run.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Home     string // the directory of .emco.yaml; empty for none
	Terminal bool   // Out is a terminal
}

// FromOS returns the environment of the process.
func FromOS() System {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return System{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Home: home,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// app is one run: the system and the flags that all commands share.
type app struct {
	sys     System
	started bool // a command's own code has begun; errors before that are usage errors
	honest  bool // upstream's client does not have the command, so its exit codes are ours

	config, server, caFile string
	files, values          []string
	recursive, strict      bool
	token, output          string
	all                    bool // plans name every cluster
	stop                   bool
	waitTime               int
	timeout                time.Duration
}

// Run executes a command line and returns the exit code.
func Run(ctx context.Context, args []string, sys System) int {
	a := &app{sys: sys}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(sys.In)
	root.SetOut(sys.Out)
	root.SetErr(sys.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = usageError{err}
	}
	a.tell(err)
	return a.exitCode(err)
}

// long is the help of the program.
const long = `emcoctl applies, reads, updates and deletes EMCO documents, and follows deployments.

  emcoctl <command> -f file

An anchor is a URL below /v2, such as projects/p1/logical-clouds. Flags may precede or
follow the command. On a terminal emcoctl prints a line per document; in a pipe it
prints the lines of upstream's client. -o selects another format.

The address of the server: --server, else --config, else $EMCO_URL, else $HOME/.emco.yaml
(upstream's file with host and port per service, or an ingress), else ` + config.DefaultServer + `.
Other variables: EMCO_TOKEN (as -t), EMCO_CA_FILE (as --ca-file), EMCOCTL_OUTPUT (as
-o), EMCOCTL_LEGACY_EXIT=1 (exit 0 although the server refused, as upstream's client).`

// root builds the tree of commands. Errors are printed by Run, once.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "emcoctl", Short: "Work with EMCO documents and deployments", Long: long,
		SilenceUsage: true, SilenceErrors: true,
		RunE: a.run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	a.sharedFlags(root)
	root.AddGroup(&cobra.Group{ID: "documents", Title: "Documents:"}, &cobra.Group{ID: "deployments", Title: "Deployments:"}, &cobra.Group{ID: "git", Title: "Clusters in Git:"})
	group(root, "documents", a.apply(), a.update(), a.get(), a.delete())
	group(root, "deployments", a.plan(), a.diff(), a.status(), a.tree(), a.events(), a.revisions(), a.wait(), a.watch())
	group(root, "deployments", a.actions()...)
	group(root, "git", a.move(), a.branches(), a.tokens())
	group(root, "git", a.decisions()...)
	root.AddCommand(a.version(), exitCodes())
	root.SuggestionsMinimumDistance = 2
	return root
}

// group adds commands with a heading in the help.
func group(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// sharedFlags are those of upstream's client, and our common ones. They belong to the root,
// because scripts put them before and after the command.
func (a *app) sharedFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "configuration file (default $HOME/.emco.yaml)")
	f.StringVar(&a.server, "server", "", "address of the server, for all services")
	f.StringVar(&a.caFile, "ca-file", "", "PEM certificates to trust for https")
	f.StringSliceVarP(&a.files, "filename", "f", nil, "file or directory of documents, - for standard input; repeatable")
	f.BoolVarP(&a.recursive, "recursive", "R", false, "include subdirectories of the directory of -f")
	f.StringSliceVarP(&a.values, "values", "v", nil, "values file for templates; repeatable, later ones win")
	f.BoolVar(&a.strict, "strict-values", false, "a missing key is an error, not a warning")
	f.StringVarP(&a.token, "token", "t", "", "bearer token")
	f.BoolVarP(&a.stop, "stop", "s", false, "stop at the first refusal")
	f.IntVarP(&a.waitTime, "waitTime", "w", 0, "seconds to sleep after each answer 202")
	f.StringVarP(&a.output, "output", "o", "", "output format: "+strings.Join(output.Formats, ", ")+" (default human on a terminal, else emco)")
	f.DurationVar(&a.timeout, "request-timeout", client.DefaultTimeout, "time for the server to begin an answer")
}

// run marks the beginning of a command's own code.
func (a *app) run(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.started = true
		return f(c, args)
	}
}

// own is run for commands that upstream's client does not have: their exit codes are ours.
func (a *app) own(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return a.run(func(c *cobra.Command, args []string) error {
		a.honest = true
		return f(c, args)
	})
}

// format returns the form of output.
func (a *app) format() output.Format {
	for _, s := range []string{a.output, a.sys.Getenv("EMCOCTL_OUTPUT")} {
		if s != "" {
			return output.Format(s)
		}
	}
	if a.sys.Terminal {
		return output.Human
	}
	return output.Lines
}

// printer returns the printer; many marks a list of results.
func (a *app) printer(many bool) (output.Printer, error) {
	p, err := output.New(output.Options{Out: a.sys.Out, Err: a.sys.Err, Format: a.format(), Many: many})
	if err != nil {
		return nil, usagef("%s; there are %s", err, strings.Join(output.Formats, ", "))
	}
	return p, nil
}

// servers loads the configuration.
func (a *app) servers() (config.Servers, error) {
	return config.Load(config.ServerFlags{
		Server: a.server, File: a.config, Env: a.sys.Getenv("EMCO_URL"), Home: a.sys.Home,
		CAFile: or(a.caFile, a.sys.Getenv("EMCO_CA_FILE")),
	})
}

// clientOptions are the options for all addresses.
func (a *app) clientOptions() client.Options {
	return client.Options{
		Token:     client.Token(or(a.token, a.sys.Getenv("EMCO_TOKEN"))),
		Timeout:   a.timeout,
		UserAgent: "emcoctl/" + buildVersion(),
	}
}

// dial returns a client for one anchor.
func (a *app) dial(path string) (*client.Client, error) {
	servers, err := a.servers()
	if err != nil {
		return nil, err
	}
	address, err := servers.For(path)
	if err != nil {
		return nil, err
	}
	o := a.clientOptions()
	o.BaseURL, o.CAFile = address.URL, address.CAFile
	return client.New(o)
}

// load reads the documents of -f and prints warnings.
func (a *app) load() ([]document.Document, error) {
	parsed, err := document.Load(document.Sources{
		Names: a.files, Recursive: a.recursive, Values: a.values, Strict: a.strict, Stdin: a.sys.In,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range parsed.Warnings {
		fmt.Fprintln(a.sys.Err, "warning:", w)
	}
	return parsed.Documents, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
