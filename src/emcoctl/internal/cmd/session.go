package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// session is the part of a run that all commands share: the system, and the flags of the
// root. From these it makes clients, printers and documents.
type session struct {
	sys     System
	started bool // a command's own code has begun; errors before that are usage errors
	honest  bool // upstream's client does not have the command, so its exit codes are ours

	config, server, caFile string
	context                string
	files, values          []string
	recursive              bool
	strictValues, strict   bool
	token, output          string
	stop                   bool
	waitTime               int
	timeout                time.Duration
}

// subject returns the anchor, or "" if documents are given by -f.
func (s *session) subject(args []string) (string, error) {
	switch {
	case s.waitTime < 0:
		return "", usagef("-w: %d seconds is negative", s.waitTime)
	case len(s.files) > 0 && len(args) > 0:
		return "", usagef("give -f or an anchor, not both")
	case len(s.files) > 0:
		return "", nil
	case len(args) == 0 || args[0] == "":
		return "", usagef("give documents with -f, or an anchor")
	}
	return kind.Expand(args[0]), nil
}

// run marks the beginning of a command's own code.
func (s *session) run(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s.started = true
		return f(c, args)
	}
}

// own is run for commands that upstream's client does not have: their exit codes are ours.
func (s *session) own(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return s.run(func(c *cobra.Command, args []string) error {
		s.honest = true
		return f(c, args)
	})
}

// format returns the requested form of output, otherwise the form for people.
func (s *session) format() output.Format {
	return output.Format(or(or(s.output, s.sys.Getenv("EMCOCTL_OUTPUT")), string(output.Human)))
}

// documentFormat is format for the commands that upstream's client also has: in a pipe, the
// scripts of those who bring upstream's configuration file read upstream's lines.
func (s *session) documentFormat(servers config.Servers) output.Format {
	if s.output == "" && s.sys.Getenv("EMCOCTL_OUTPUT") == "" && servers.Upstream && !s.sys.Terminal {
		return output.Lines
	}
	return s.format()
}

// printer returns the printer of a format; many marks a list of results.
func (s *session) printer(format output.Format, many bool) (output.Printer, error) {
	p, err := output.New(output.Options{Out: s.sys.Out, Err: s.sys.Err, Format: format, Many: many})
	if err != nil {
		return nil, usagef("%s; there are %s", err, strings.Join(output.Formats, ", "))
	}
	return p, nil
}

// servers loads the configuration.
func (s *session) servers() (config.Servers, error) {
	contexts, err := config.ReadContexts(s.contextsFile())
	if err != nil {
		return config.Servers{}, err
	}
	return config.Load(config.ServerFlags{
		Contexts: contexts, Context: s.context,
		Server: s.server, File: s.config, Env: s.sys.Getenv("EMCO_URL"), Home: s.sys.Home,
		CAFile: or(s.caFile, s.sys.Getenv("EMCO_CA_FILE")),
	})
}

// currentContext returns the context that the servers are from; the zero Context if they are
// from none.
func (s *session) currentContext(servers config.Servers) (config.Context, error) {
	if servers.Context == "" {
		return config.Context{}, nil
	}
	all, err := config.ReadContexts(s.contextsFile())
	if err != nil {
		return config.Context{}, err
	}
	return all.Get(servers.Context)
}

// clientOptions are the options for all addresses. The token of a context goes only to its
// server.
func (s *session) clientOptions(servers config.Servers) (client.Options, error) {
	o := client.Options{
		Token:     client.Token(or(s.token, s.sys.Getenv("EMCO_TOKEN"))),
		Timeout:   s.timeout,
		UserAgent: "emcoctl/" + version.Read().Version,
	}
	if o.Token != "" {
		return o, nil
	}
	context, err := s.currentContext(servers)
	if err == nil {
		o.Token, err = context.Token()
	}
	return o, err
}

// dial returns a client for one anchor.
func (s *session) dial(path string) (*client.Client, error) {
	servers, err := s.servers()
	if err != nil {
		return nil, err
	}
	address, err := servers.For(path)
	if err != nil {
		return nil, err
	}
	o, err := s.clientOptions(servers)
	if err != nil {
		return nil, err
	}
	o.BaseURL, o.CAFile = address.URL, address.CAFile
	return client.New(o)
}

// load reads the documents of -f and prints warnings.
func (s *session) load() ([]document.Document, error) {
	parsed, err := document.Load(document.Sources{
		Names: s.files, Recursive: s.recursive, Values: s.values, Strict: s.strictValues, Known: s.strict, Stdin: s.sys.In,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range parsed.Warnings {
		fmt.Fprintln(s.sys.Err, "warning:", w)
	}
	return parsed.Documents, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// form returns the form of output of commands that upstream's client does not have: for people,
// unless the user wants JSON or YAML.
func (s *session) form() (output.Format, error) {
	switch f := s.format(); f {
	case output.Human, output.Lines, output.Plain, output.Wide:
		return output.Human, nil
	default:
		if f.Structured() {
			return f, nil
		}
		return "", usagef("this command has no output format %q; use table, json or yaml", f)
	}
}

// barColumns returns the width of the terminal for a progress bar; 0 for lines.
func (s *session) barColumns() int {
	if !s.sys.Interactive || s.sys.Getenv("TERM") == "dumb" {
		return 0
	}
	return s.sys.Columns
}

// colour reports whether to print colours: on a terminal with colours, unless the user
// disables them.
func (s *session) colour() bool {
	return s.sys.Terminal && s.sys.Getenv("NO_COLOR") == "" && s.sys.Getenv("TERM") != "dumb"
}
