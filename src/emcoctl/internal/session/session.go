// Package session holds what all commands share: the environment, the flags of the root, and the
// arguments that name deployments and clusters. From these it makes clients, printers and documents. It
// chooses the credential of a request and the format of the output, and marks usage errors.
package session

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/logins"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// Session is the part of a run that all commands share: the system, and the flags of the
// root. From these it makes clients, printers and documents.
type Session struct {
	Sys     System
	Started bool // a command's own code has begun; errors before that are usage errors
	// KeepsExitCodes marks a use of get or update that upstream's client lacks: EMCOCTL_LEGACY_EXIT does not
	// change its exit codes.
	KeepsExitCodes bool

	config, Server, CAFile string
	CertFile, KeyFile      string
	context                string
	Files, values          []string
	recursive              bool
	strictValues, Strict   bool
	Token, output          string
	Stop                   bool
	WaitTime               int
	timeout                time.Duration
}

// Run marks the beginning of a command's own code.
func (s *Session) Run(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s.Started = true
		return f(c, args)
	}
}

// RequestedFormat returns the format of output that the user requests, otherwise that for people.
func (s *Session) RequestedFormat() output.Format {
	return output.Format(cmp.Or(s.output, s.Sys.Getenv("EMCOCTL_OUTPUT"), string(output.Human)))
}

// FormatOfDocuments returns the format of output of commands that upstream's client also has. It is the requested one;
// without a request, in a pipe, with upstream's configuration file, it is that of upstream's lines.
func (s *Session) FormatOfDocuments(servers config.Servers) output.Format {
	if s.output == "" && s.Sys.Getenv("EMCOCTL_OUTPUT") == "" && servers.Upstream && !s.Sys.Terminal {
		return output.Lines
	}
	return s.RequestedFormat()
}

// Printer returns the printer of a format; many marks a list of results.
func (s *Session) Printer(format output.Format, many bool) (output.Printer, error) {
	p, err := output.New(output.Options{Out: s.Sys.Out, Err: s.Sys.Err, Format: format, Many: many})
	if err != nil {
		return nil, Usagef("%s; there are %s", err, strings.Join(output.Formats, ", "))
	}
	return p, nil
}

// Servers loads the configuration.
func (s *Session) Servers() (config.Servers, error) {
	contexts, err := config.ReadContexts(s.ContextsFile())
	if err != nil {
		return config.Servers{}, err
	}
	return config.Load(config.ServerFlags{
		Contexts: contexts, Context: s.context,
		Server: s.Server, File: s.config, Env: s.Sys.Getenv("EMCO_URL"), Home: s.Sys.Home,
		CAFile: cmp.Or(s.CAFile, s.Sys.Getenv("EMCO_CA_FILE")),
	})
}

// CurrentContext returns the context that the servers are from; the zero Context if they are
// from none.
func (s *Session) CurrentContext(servers config.Servers) (config.Context, error) {
	if servers.Context == "" {
		return config.Context{}, nil
	}
	all, err := config.ReadContexts(s.ContextsFile())
	if err != nil {
		return config.Context{}, err
	}
	return all.Get(servers.Context)
}

// ClientOptions are the options for all addresses. The token and the certificate of a context go only to its
// server, and the token of a sign-in only to the server where the person signed in.
func (s *Session) ClientOptions(servers config.Servers) (client.Options, error) {
	current, err := s.CurrentContext(servers)
	if err != nil {
		return client.Options{}, err
	}
	o := s.transport(current)
	o.Token = client.Token(cmp.Or(s.Token, s.Sys.Getenv("EMCO_TOKEN")))
	if o.Token == "" {
		o.Token, err = current.Token()
	}
	if o.Token == "" {
		o.TokenFor = s.tokenOf(current.User)
	}
	return o, err
}

// patience is how long a request waits when the server reports too many.
const patience = 30 * time.Second

// transport returns the options without a token.
func (s *Session) transport(c config.Context) client.Options {
	o := client.Options{
		CertFile: cmp.Or(s.CertFile, s.Sys.Getenv("EMCO_CERT_FILE")), KeyFile: cmp.Or(s.KeyFile, s.Sys.Getenv("EMCO_KEY_FILE")),
		Timeout: s.timeout, UserAgent: "emcoctl/" + version.Read().Version, Patience: patience,
	}
	if o.CertFile == "" && o.KeyFile == "" {
		o.CertFile, o.KeyFile = c.CertFile, c.KeyFile
	}
	return o
}

// tokenOf returns the tokens of the sign-ins of a user.
func (s *Session) tokenOf(user string) func(ctx context.Context, server string) (client.Token, error) {
	kept := s.Logins()
	return func(ctx context.Context, server string) (client.Token, error) { return kept.Token(ctx, server, user) }
}

// Logins returns the sign-ins that are kept next to the file of contexts.
func (s *Session) Logins() logins.Store {
	file := s.ContextsFile()
	if file == "" {
		return logins.Store{}
	}
	return logins.Store{Dir: filepath.Join(filepath.Dir(file), "logins")}
}

// Place is where a person signs in: one server, and the name of the sign-in there.
type Place struct {
	Server, User string
	options      client.Options
}

// Client returns a client that sends a token; none with an empty one.
func (p Place) Client(token client.Token) (*client.Client, error) {
	o := p.options
	o.Token = token
	return client.New(o)
}

// Place returns where a person signs in. The error is about usage if the services have addresses of their own.
func (s *Session) Place() (Place, error) {
	servers, err := s.Servers()
	if err != nil {
		return Place{}, err
	}
	address, err := servers.For("projects")
	if err != nil {
		return Place{}, err
	}
	if other, err := servers.For("cluster-providers"); err != nil || other != address {
		return Place{}, Usagef("the services have addresses of their own, and a sign-in is for one; name it with --server or a context")
	}
	current, err := s.CurrentContext(servers)
	if err != nil {
		return Place{}, err
	}
	o := s.transport(current)
	o.BaseURL, o.CAFile = address.URL, address.CAFile
	return Place{address.URL, current.User, o}, nil
}

// Dial returns a client for one anchor.
func (s *Session) Dial(path string) (*client.Client, error) {
	servers, err := s.Servers()
	if err != nil {
		return nil, err
	}
	address, err := servers.For(path)
	if err != nil {
		return nil, err
	}
	o, err := s.ClientOptions(servers)
	if err != nil {
		return nil, err
	}
	o.BaseURL, o.CAFile = address.URL, address.CAFile
	return client.New(o)
}

// Open returns the format of output of a command that upstream's client does not have, and a client for
// the path that it is about.
func (s *Session) Open(path string) (format output.Format, c *client.Client, err error) {
	if format, err = s.FormatOfOwnCommands(); err != nil {
		return "", nil, err
	}
	c, err = s.Dial(path)
	return format, c, err
}

// Load reads the documents of -f and prints warnings. Files without documents are an error, unless they are templates, of which
// nothing may be left.
func (s *Session) Load() ([]document.Document, error) {
	parsed, err := document.Load(document.Sources{
		Names: s.Files, Recursive: s.recursive, Values: s.values, Strict: s.strictValues, Known: s.Strict, Stdin: s.Sys.In,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range parsed.Warnings {
		fmt.Fprintln(s.Sys.Err, "warning:", w)
	}
	empty := "no documents in " + strings.Join(s.Files, ", ")
	switch {
	case len(parsed.Documents) > 0:
	case len(s.values) == 0:
		return nil, errs.New(errs.Malformed, empty+": there is nothing, or comments alone")
	default:
		fmt.Fprintln(s.Sys.Err, "note:", empty)
	}
	return parsed.Documents, nil
}

// FormatOfOwnCommands returns the format of output of commands that upstream's client does not have: that for people,
// unless the user requests a structured one. Other formats are usage errors.
func (s *Session) FormatOfOwnCommands() (output.Format, error) {
	switch f := s.RequestedFormat(); f {
	case output.Human, output.Lines, output.Plain, output.Wide:
		return output.Human, nil
	default:
		if f.Structured() {
			return f, nil
		}
		return "", Usagef("this command has no output format %q; use table, json or yaml", f)
	}
}

// BarColumns returns the width of the terminal for a progress bar; 0 for lines.
func (s *Session) BarColumns() int {
	if !s.Sys.Interactive || s.Sys.Getenv("TERM") == "dumb" {
		return 0
	}
	return s.Sys.Columns
}

// Colour reports whether to print colours: on a terminal with colours, unless the user
// disables them.
func (s *Session) Colour() bool {
	return s.Sys.Terminal && s.Sys.Getenv("NO_COLOR") == "" && s.Sys.Getenv("TERM") != "dumb"
}

// ContextsFile returns the path of the file of contexts.
func (s *Session) ContextsFile() string {
	if file := s.Sys.Getenv("EMCOCTL_CONFIG"); file != "" || s.Sys.Home == "" {
		return file
	}
	return filepath.Join(s.Sys.Home, ".config", "emcoctl", "config.yaml")
}

// SharedFlags are those of upstream's client, and our common ones. They belong to the root,
// because scripts put them before and after the command.
func (s *Session) SharedFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.config, "config", "", "configuration file (default $HOME/.emco.yaml)")
	f.StringVar(&s.context, "context", "", "context to use; see emcoctl config")
	f.StringVar(&s.Server, "server", "", "address of the server, for all services")
	f.StringVar(&s.CAFile, "ca-file", "", "PEM certificates to trust for https")
	f.StringVar(&s.CertFile, "cert-file", "", "PEM client certificate")
	f.StringVar(&s.KeyFile, "key-file", "", "PEM key of --cert-file")
	f.StringSliceVarP(&s.Files, "filename", "f", nil, "file or directory of documents, - for standard input; repeatable")
	f.BoolVarP(&s.recursive, "recursive", "R", false, "include subdirectories of the directory of -f")
	f.StringSliceVarP(&s.values, "values", "v", nil, "values file for templates; repeatable, later ones win")
	f.BoolVar(&s.strictValues, "strict-values", false, "a missing key of a template is an error, not a warning")
	f.BoolVar(&s.Strict, "strict", false, "an unknown key of a document is an error, not a warning")
	f.StringVarP(&s.Token, "token", "t", "", "bearer token")
	f.BoolVarP(&s.Stop, "stop", "s", false, "stop at the first refusal")
	f.IntVarP(&s.WaitTime, "waitTime", "w", 0, "seconds to sleep after each answer 202")
	f.StringVarP(&s.output, "output", "o", "", "output format: "+strings.Join(output.Formats, ", ")+" (default human; emco in a pipe with upstream's configuration file)")
	formats := slices.Clone(output.Formats)
	for i, format := range formats {
		formats[i], _, _ = strings.Cut(format, "TEMPLATE")
		formats[i], _, _ = strings.Cut(formats[i], "HEAD")
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.DurationVar(&s.timeout, "request-timeout", client.DefaultTimeout, "time for the server to begin an answer")
}
