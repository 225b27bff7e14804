// Package cmd is the command line of emcoctl: one file per command, and their common parts.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// System is the environment of a run.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Home     string // the directory of .emco.yaml; empty for none
	Terminal bool   // Out is a terminal
	Columns  int    // the width of the terminal; 0 is unlimited
	// Interactive says that a person sees the output and can answer questions.
	Interactive bool
}

// FromOS returns the environment of the process.
func FromOS() System {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		columns = 0 // a pipe
	}
	return System{
		Columns: columns, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Home: home,
		Terminal:    isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stdin) && isTerminal(os.Stdout) && isTerminal(os.Stderr),
	}
}

// Run executes a command line and returns the exit code.
func Run(ctx context.Context, args []string, sys System) int {
	if version.Requested(args) && args[0] != "version" { // pflag reads -version as -v ersion
		args = []string{"--version"}
	}
	if sys.Columns > 0 {
		sys.Out = output.Screen{Writer: sys.Out, Columns: sys.Columns}
	}
	s := &session{sys: sys}
	root := newRootCommand(s)
	root.SetArgs(args)
	root.SetIn(sys.In)
	root.SetOut(sys.Out)
	root.SetErr(sys.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !s.started {
		err = usageError{err}
	}
	printError(sys, err)
	return s.exitCode(err)
}

// long is the help of the program.
const long = `emcoctl is the command line of EMCO, which deploys apps to many Kubernetes clusters. It
applies, reads, updates and deletes documents, shows what a change will do, carries it out,
and shows the state of clusters and deployments.

  emcoctl <command> -f file

An anchor is a URL below /v2, such as projects/p1/logical-clouds. Flags may precede or
follow the command. emcoctl prints a line per document: created, configured, unchanged. In a
pipe, and with upstream's configuration file or with -o emco, it prints the lines of
upstream's client. -o selects another format.

The address of the server: --server, else --config, else --context, else $EMCO_URL, else the
current context (see emcoctl config), else $HOME/.emco.yaml (upstream's file with host and
port per service, or an ingress), else ` + config.DefaultServer + `.
Other variables: EMCO_TOKEN (as -t), EMCO_CA_FILE (as --ca-file), EMCOCTL_OUTPUT (as
-o), EMCOCTL_LEGACY_EXIT=1 (exit 0 although the server refused, as upstream's client).`

// Commands returns the tree of commands, for its documentation.
func Commands() *cobra.Command { return newRootCommand(&session{}) }

// newRootCommand builds the tree of commands. Errors are printed by Run, once.
func newRootCommand(s *session) *cobra.Command {
	root := &cobra.Command{
		Use: "emcoctl", Short: "Work with EMCO documents and deployments", Long: long,
		Version:      version.Read().String(),
		SilenceUsage: true, SilenceErrors: true,
		RunE: s.run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	root.SetVersionTemplate("emcoctl {{.Version}}\n")
	s.sharedFlags(root)
	root.AddGroup(&cobra.Group{ID: "documents", Title: "Documents:"}, &cobra.Group{ID: "deployments", Title: "Deployments:"}, &cobra.Group{ID: "git", Title: "Clusters in Git:"})
	group(root, "documents", newApplyCommand(s), newUpdateCommand(s), newGetCommand(s), newDeleteCommand(s))
	group(root, "deployments", newPlanCommand(s), newDiffCommand(s), newStatusCommand(s), newDescribeCommand(s), newTreeCommand(s), newEventsCommand(s), newRevisionsCommand(s), newWaitCommand(s), newWatchCommand(s))
	group(root, "deployments", newActionCommands(s)...)
	group(root, "git", newMoveCommand(s), newBranchesCommand(s), newTokenCommand(s))
	group(root, "git", newDecisionCommands(s)...)
	root.AddCommand(newExplainCommand(s), newResourcesCommand(s), newDoctorCommand(s), newDumpCommand(s), newConfigCommand(s), newVersionCommand(s), exitCodes())
	root.SuggestionsMinimumDistance = 2
	explainArguments(root)
	return root
}

// explainArguments has all commands say what to write in place of wrong arguments.
func explainArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		explainArguments(sub)
	}
	check := c.Args
	if check == nil || c.HasSubCommands() {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if check(c, args) == nil {
			return nil
		}
		what := "an argument is missing"
		if check(c, append(slices.Clone(args), "")) != nil && len(args) > 0 {
			what = fmt.Sprintf("unexpected argument %q", args[len(args)-1])
		}
		text := c.CommandPath() + ": " + what + "; write: " + c.UseLine()
		if example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n"); example != "" {
			text += "\n  for example: " + example
		}
		return errors.New(text)
	}
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
func (s *session) sharedFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.config, "config", "", "configuration file (default $HOME/.emco.yaml)")
	f.StringVar(&s.context, "context", "", "context to use; see emcoctl config")
	f.StringVar(&s.server, "server", "", "address of the server, for all services")
	f.StringVar(&s.caFile, "ca-file", "", "PEM certificates to trust for https")
	f.StringSliceVarP(&s.files, "filename", "f", nil, "file or directory of documents, - for standard input; repeatable")
	f.BoolVarP(&s.recursive, "recursive", "R", false, "include subdirectories of the directory of -f")
	f.StringSliceVarP(&s.values, "values", "v", nil, "values file for templates; repeatable, later ones win")
	f.BoolVar(&s.strictValues, "strict-values", false, "a missing key of a template is an error, not a warning")
	f.BoolVar(&s.strict, "strict", false, "an unknown key of a document is an error, not a warning")
	f.StringVarP(&s.token, "token", "t", "", "bearer token")
	f.BoolVarP(&s.stop, "stop", "s", false, "stop at the first refusal")
	f.IntVarP(&s.waitTime, "waitTime", "w", 0, "seconds to sleep after each answer 202")
	f.StringVarP(&s.output, "output", "o", "", "output format: "+strings.Join(output.Formats, ", ")+" (default human; emco in a pipe with upstream's configuration file)")
	f.DurationVar(&s.timeout, "request-timeout", client.DefaultTimeout, "time for the server to begin an answer")
}
