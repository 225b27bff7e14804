// Package admin holds the commands for the installation: contexts, doctor, version, dump, the audit log,
// and the demonstration.
package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{newConfigCommand(s), newDemoCommand(s), newDoctorCommand(s), newVersionCommand(s), newDumpCommand(s), newAuditCommand(s)}
}

// newConfigCommand returns the command for contexts.
func newConfigCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Choose between servers: contexts",
		Long: `A context is a server, with the CA, the client certificate or the file of the token, and the
project that a user works with there. After emcoctl login no file is needed. Contexts are in
$EMCOCTL_CONFIG, or ~/.config/emcoctl/config.yaml. --context selects one for a command;
config use-context selects one for all.`,
		Example: "  emcoctl config set-context prod --server https://emco.example --token-file ~/.emco-token --project shop\n  emcoctl config use-context prod\n  emcoctl get deployments --context test",
		Args:    cobra.NoArgs,
		RunE:    s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	c.AddCommand(newGetContextsCommand(s), newUseContextCommand(s), newSetContextCommand(s), newDeleteContextCommand(s), newConfigViewCommand(s))
	return c
}

// newGetContextsCommand returns the command that lists contexts.
func newGetContextsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "get-contexts", Short: "List the contexts; the current one has a star", Args: cobra.NoArgs,
		RunE: s.Run(func(*cobra.Command, []string) error {
			all, err := config.ReadContexts(s.ContextsFile())
			if err != nil {
				return err
			}
			if len(all.Contexts) == 0 {
				fmt.Fprintln(s.Sys.Out, "none")
				return nil
			}
			t := output.NewTable(s.Sys.Out)
			t.Row("NAME", "SERVER", "PROJECT")
			for _, name := range all.Names() {
				star := map[bool]string{true: "*"}[name == all.Current]
				t.Row(name+star, all.Contexts[name].Server, all.Contexts[name].Project)
			}
			t.Flush()
			return nil
		}),
	}
}

// changeContexts reads the contexts, changes them, and writes them.
func changeContexts(s *session.Session, change func(*config.Contexts) error) error {
	file := s.ContextsFile()
	if file == "" {
		return session.Usagef("there is no home directory; name a file with $EMCOCTL_CONFIG")
	}
	all, err := config.ReadContexts(file)
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]config.Context{}
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.Write(file)
}

// newUseContextCommand returns the command that selects the current context.
func newUseContextCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "Select the current context", Args: cobra.ExactArgs(1), ValidArgsFunction: complete.New(s).Context,
		RunE: s.Run(func(_ *cobra.Command, args []string) error {
			err := changeContexts(s, func(all *config.Contexts) error {
				_, err := all.Get(args[0])
				all.Current = args[0]
				return err
			})
			if err == nil {
				fmt.Fprintf(s.Sys.Out, "context %s is the current one\n", args[0])
			}
			return err
		}),
	}
}

// newSetContextCommand returns the command that creates or changes a context.
func newSetContextCommand(s *session.Session) *cobra.Command {
	var next config.Context
	c := &cobra.Command{
		Use: "set-context NAME", Short: "Create or change a context",
		Long: `Set-context creates a context from --server, --ca-file, --cert-file, --key-file, --token-file,
--user and --project. Of a context that exists, it changes what is given. The first context
becomes the current one. Contexts of one server with different --user have sign-ins of
their own.`,
		Example: "  emcoctl config set-context prod --server https://emco.example --ca-file ca.pem --token-file ~/.emco-token",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.New(s).Context,
	}
	c.Flags().StringVar(&next.TokenFile, "token-file", "", "file with the bearer token")
	c.Flags().StringVar(&next.User, "user", "", "name for the sign-in of emcoctl login, if you have several at one server")
	c.Flags().StringVar(&next.Project, "project", "", "project of get deployments")
	c.RunE = s.Run(func(_ *cobra.Command, args []string) error {
		if s.Token != "" {
			return session.Usagef("a context has no token of its own; write it to a file, and name that with --token-file")
		}
		next.Server, next.CAFile, next.CertFile, next.KeyFile = s.Server, s.CAFile, s.CertFile, s.KeyFile
		err := changeContexts(s, func(all *config.Contexts) error {
			merged, err := mergeContext(all.Contexts[args[0]], next)
			if err != nil {
				return err
			}
			all.Contexts[args[0]] = merged
			all.Current = cmp.Or(all.Current, args[0])
			return nil
		})
		if err == nil {
			fmt.Fprintf(s.Sys.Out, "context %s written\n", args[0])
		}
		return err
	})
	return c
}

// mergeContext returns a context with the members that next sets. Files get absolute paths.
func mergeContext(old, next config.Context) (config.Context, error) {
	for _, file := range []*string{&next.CAFile, &next.CertFile, &next.KeyFile, &next.TokenFile} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err != nil {
			return old, err
		}
		*file = path
	}
	merged := config.Context{
		Server: cmp.Or(next.Server, old.Server), CAFile: cmp.Or(next.CAFile, old.CAFile),
		CertFile: cmp.Or(next.CertFile, old.CertFile), KeyFile: cmp.Or(next.KeyFile, old.KeyFile),
		TokenFile: cmp.Or(next.TokenFile, old.TokenFile), User: cmp.Or(next.User, old.User), Project: cmp.Or(next.Project, old.Project),
	}
	if merged.Server == "" {
		return old, session.Usagef("a context needs --server")
	}
	if (merged.CertFile == "") != (merged.KeyFile == "") {
		return old, session.Usagef("a client certificate needs --cert-file and --key-file")
	}
	return merged, merged.Check()
}

// newDeleteContextCommand returns the command that removes a context.
func newDeleteContextCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "delete-context NAME", Short: "Remove a context", Args: cobra.ExactArgs(1), ValidArgsFunction: complete.New(s).Context,
		RunE: s.Run(func(_ *cobra.Command, args []string) error {
			err := changeContexts(s, func(all *config.Contexts) error {
				if _, err := all.Get(args[0]); err != nil {
					return err
				}
				delete(all.Contexts, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
				return nil
			})
			if err == nil {
				fmt.Fprintf(s.Sys.Out, "context %s removed\n", args[0])
			}
			return err
		}),
	}
}

// newConfigViewCommand returns the command that shows where requests go.
func newConfigViewCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "view", Short: "Show the server that commands use, and why", Args: cobra.NoArgs,
		RunE: s.Run(func(*cobra.Command, []string) error {
			servers, err := s.Servers()
			if err != nil {
				return err
			}
			view := configView{Context: servers.Context, Source: strings.TrimSuffix(servers.Notice, ": "), Contexts: s.ContextsFile()}
			for _, path := range []string{"projects", "cluster-providers"} {
				if address, err := servers.For(path); err == nil {
					view.Server, view.CAFile = address.URL, address.CAFile
					break
				}
			}
			form, err := s.FormatOfOwnCommands()
			if err != nil {
				return err
			}
			if form != output.Human {
				text, err := json.Marshal(view)
				if err != nil {
					return err
				}
				return output.Encode(s.Sys.Out, form, text)
			}
			output.Fields(s.Sys.Out, [2]string{"server", view.Server}, [2]string{"source", view.Source}, [2]string{"context", view.Context}, [2]string{"ca", view.CAFile}, [2]string{"contexts", view.Contexts})
			return nil
		}),
	}
}

// configView is the output of config view. It has no tokens.
type configView struct {
	Server   string `json:"server"`
	Source   string `json:"source"`
	Context  string `json:"context,omitempty"`
	CAFile   string `json:"caFile,omitempty"`
	Contexts string `json:"contexts,omitempty"` // the file
}
