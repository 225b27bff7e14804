// Package cmd is the command line of emcoctl: the tree of its commands, with the help, the printing of errors, and the
// exit codes. The commands are in the packages below, by what they do, except for explain, api-resources and
// exit-codes: these need no server, and are here.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/admin"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/clusters"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/documents"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/identity"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/lifecycle"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/status"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Run executes a command line and returns the exit code.
func Run(ctx context.Context, args []string, sys session.System) int {
	if version.Requested(args) && args[0] != "version" { // pflag reads -version as -v ersion
		args = []string{"--version"}
	}
	args = slices.Clone(args)
	if i := slices.Index(args, "-help"); i >= 0 && !slices.Contains(args[:i], "--") { // pflag reads it as -h -e -l -p
		args[i] = "--help"
	}
	if sys.Columns > 0 {
		sys.Out = output.Screen{Writer: sys.Out, Columns: sys.Columns}
	}
	s := &session.Session{Sys: sys}
	root := newRootCommand(s)
	root.SetArgs(args)
	root.SetIn(sys.In)
	root.SetOut(sys.Out)
	root.SetErr(sys.Err)
	called, err := root.ExecuteContextC(ctx)
	if err != nil && !s.Started {
		err = session.Usage(plainUsage(called, err))
	}
	printError(sys, called, err)
	return exitCode(s, called, err)
}

// long is the help of the program.
const long = `emcoctl is the command line of EMCO, which deploys apps to many Kubernetes clusters. It
applies, reads, updates and deletes documents, shows what a change will do, carries it out,
and shows the state of clusters and deployments.

  emcoctl <command> -f file

To see what EMCO does, run: emcoctl demo. To check a server: emcoctl doctor. For the kinds of
documents and their members: emcoctl api-resources, and emcoctl explain KIND.

An anchor is a URL below /v2, such as projects/p1/logical-clouds. Flags may precede or
follow the command. emcoctl prints a line per document: created, configured, unchanged. In a
pipe with upstream's configuration file, and anywhere with -o emco, it prints the lines of
upstream's client. -o selects another format.

The address of the server: --server, else --config, else --context, else $EMCO_URL, else the
current context (see emcoctl config), else $HOME/.emco.yaml (upstream's file with host and
port per service, or an ingress), else ` + config.DefaultServer + `.
The credential: -t, else $EMCO_TOKEN, else the token file of the context, else the sign-in of
emcoctl login. Other variables: EMCO_CA_FILE, EMCO_CERT_FILE, EMCO_KEY_FILE (as --ca-file,
--cert-file, --key-file), EMCOCTL_OUTPUT (as -o), EMCOCTL_LEGACY_EXIT=1 (exit 0 although the
server refused, as upstream's client).`

// Commands returns the tree of commands, for its documentation.
func Commands() *cobra.Command { return newRootCommand(&session.Session{}) }

// newRootCommand builds the tree of commands. Errors are printed by Run, once.
func newRootCommand(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use: "emcoctl", Short: "Work with EMCO documents and deployments", Long: long,
		Version:      version.Read().String(),
		SilenceUsage: true, SilenceErrors: true,
		RunE: s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	root.SetVersionTemplate("emcoctl {{.Version}}\n")
	s.SharedFlags(root)
	root.AddGroup(&cobra.Group{ID: "documents", Title: "Documents:"}, &cobra.Group{ID: "deployments", Title: "Deployments:"}, &cobra.Group{ID: "git", Title: "Clusters in Git:"}, &cobra.Group{ID: "identity", Title: "Identity:"})
	group(root, "documents", documents.Commands(s)...)
	group(root, "deployments", lifecycle.Commands(s)...)
	group(root, "deployments", status.Commands(s)...)
	group(root, "git", clusters.Commands(s)...)
	group(root, "identity", identity.Commands(s)...)
	root.AddCommand(admin.Commands(s)...)
	root.AddCommand(newExplainCommand(s), newResourcesCommand(s), exitCodes())
	complete.Flag(root, "context", complete.New(s).Contexts())
	root.SuggestionsMinimumDistance = 2
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // which would answer another shell with its help and success
			c.RunE = s.Run(func(c *cobra.Command, _ []string) error { return c.Help() })
		}
	}
	explainArguments(root)
	refuseUnknownTopics(root)
	return root
}

var (
	requiredFlags = regexp.MustCompile(`^required flag\(s\) (".*") not set$`)
	shorthand     = regexp.MustCompile(`^unknown shorthand flag: '.' in -(\w[\w-]+)`)
	noNumber      = regexp.MustCompile(`strconv\.Parse\w+: parsing ".*": (invalid syntax|value out of range)$`)
)

// plainUsage explains in plain words what cobra and strconv report of a wrong call.
func plainUsage(called *cobra.Command, err error) error {
	text := err.Error()
	if missing := requiredFlags.FindStringSubmatch(text); missing != nil {
		names := strings.Split(strings.ReplaceAll(missing[1], `"`, ""), ", ")
		return fmt.Errorf("%s needs --%s", called.CommandPath(), strings.Join(names, " and --"))
	}
	if plain := noNumber.ReplaceAllString(text, "it is not a number that fits"); plain != text {
		return errors.New(plain)
	}
	if short := shorthand.FindStringSubmatch(text); short != nil && called.Flags().Lookup(short[1]) != nil {
		return fmt.Errorf("unknown flag -%[1]s; write --%[1]s", short[1])
	}
	if called.Flags().Lookup("watch") != nil && strings.HasPrefix(text, "flag needs an argument: 'w' in -w") {
		return errors.New(text + ", which is --waitTime; to follow changes write --watch")
	}
	return err
}

// refuseUnknownTopics makes help fail for a command that does not exist: cobra prints the help of the program, with success.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Args = func(_ *cobra.Command, topic []string) error {
		_, _, err := root.Find(topic)
		return err
	}
}

// explainArguments makes all commands show what to write in place of wrong arguments.
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
		if example := firstExample(c); example != "" {
			text += "\n  for example: " + example
		}
		return errors.New(text)
	}
}

// firstExample returns the first line of a command's examples.
func firstExample(c *cobra.Command) string {
	example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return example
}

// group adds commands with a heading in the help.
func group(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}
