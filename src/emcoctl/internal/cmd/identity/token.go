package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newTokenCommand returns the command for the tokens of programs.
func newTokenCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Create, list and revoke API tokens, for programs",
		Long: `An API token lets a program use the API, with a role at a place. The tokens of clusters that
report by HTTPS are others: see emcoctl token.`,
		Example: "  emcoctl auth token create ci --role deployer --place projects/shop >token\n  emcoctl auth token list\n  emcoctl auth token revoke ci",
		Args:    cobra.NoArgs,
		RunE:    s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	c.AddCommand(newTokenCreateCommand(s), newTokenListCommand(s), newTokenRevokeCommand(s))
	return c
}

func newTokenCreateCommand(s *session.Session) *cobra.Command {
	var t v2.APIToken
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an API token",
		Long: `Create creates an API token and prints it. The server does not show it again. Messages go to
the error output. Nobody gives a token more than it has itself.`,
		Example: "  emcoctl auth token create ci --role deployer --place projects/shop >token\n  emcoctl auth token create audit --role auditor --expires 365d -o json",
		Args:    cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringVar(&t.Spec.Role, "role", "", "what the token may do: "+strings.Join(v2.BuiltInRoles(), ", ")+", or one of emcoctl get roles")
	f.StringVar(&t.Spec.Place, "place", "", "where: projects/NAME or cluster-providers/NAME (default everywhere)")
	f.StringVar(&t.Spec.Expires, "expires", "90d", "until when, at most a year: 90d, 12h, 2027-06-01 or 2027-06-01T08:00:00Z")
	complete.Flag(c, "role", complete.Fixed(v2.BuiltInRoles()))
	if err := c.MarkFlagRequired("role"); err != nil {
		panic(err) // the flag exists
	}
	c.RunE = s.Run(func(c *cobra.Command, args []string) error {
		t.Metadata.Name = args[0]
		ends, err := endOf(t.Spec.Expires, time.Now())
		if err != nil {
			return err
		}
		t.Spec.Expires = ends.UTC().Format(time.RFC3339)
		return runTokenCreate(c.Context(), s, t)
	})
	return c
}

// endOf reads when a token ends: a time, a day, or a duration from now.
func endOf(text string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	if days, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16); err == nil && strings.HasSuffix(text, "d") {
		return now.AddDate(0, 0, int(days)), nil
	}
	life, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}, session.Usagef("--expires %q is neither a time such as 2027-06-01 nor a duration such as 90d or 12h", text)
	}
	return now.Add(life), nil
}

// collection is where API tokens are.
const collection = "tokens"

func runTokenCreate(ctx context.Context, s *session.Session, t v2.APIToken) error {
	form, server, err := s.Open(anyPath)
	if err != nil {
		return err
	}
	text, err := client.Post[json.RawMessage](ctx, server, collection, t)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	var made v2.NewAPIToken
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	fmt.Fprintf(s.Sys.Err, "token %s, which is not shown again; it has the role %s %s until %s\n",
		printable.Line(made.Metadata.Name), printable.Line(made.Spec.Role), printable.Line(placeOf(made.APIToken)), printable.Time(made.Ends()))
	fmt.Fprintln(s.Sys.Out, printable.Line(made.Token))
	return nil
}

// placeOf returns where a token has its role, in words.
func placeOf(t v2.APIToken) string {
	if t.Spec.Place == "" {
		return "everywhere"
	}
	return "in " + t.Spec.Place
}

func newTokenListCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the API tokens, without what is secret of them", Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			form, server, err := s.Open(anyPath)
			if err != nil {
				return err
			}
			return fetch.Show(c.Context(), server, collection, s.Sys.Out, form, showTokens)
		}),
	}
}

func showTokens(w io.Writer, all []v2.APIToken) {
	if len(all) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("NAME", "ROLE", "PLACE", "ENDS", "MADE BY")
	for i := range all {
		ends := printable.Time(all[i].Ends())
		if !all[i].Ends().After(time.Now()) {
			ends = "ended"
		}
		t.Row(all[i].Metadata.Name, all[i].Spec.Role, strings.TrimPrefix(placeOf(all[i]), "in "), ends, all[i].Actor)
	}
	t.Flush()
}

func newTokenRevokeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME...", Short: "Revoke API tokens",
		Long:              "Revoke ends tokens: within two seconds no process of the server accepts them, and streams that use them end.",
		Example:           "  emcoctl auth token revoke ci",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.New(s).Documents(collection),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			server, err := s.Dial(anyPath)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := server.Delete(c.Context(), collection+"/"+url.PathEscape(name)); err != nil {
					return err
				}
				fmt.Fprintf(s.Sys.Out, "token %s revoked\n", name)
			}
			return nil
		}),
	}
}
