package clusters

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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

// newTokenCommand returns the command for the tokens of clusters that report by HTTPS.
func newTokenCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Create, list and revoke the tokens of clusters that report by HTTPS",
		Long: `A cluster that reports directly to the server (statusMode: https in its sync object) needs
a token. With the token it can report its own status and nothing else. API tokens, for
programs, are others: see emcoctl auth token.`,
		Example: "  emcoctl token create edge/store-7 >token\n  emcoctl token list edge/store-7\n  emcoctl token revoke edge/store-7 1f0a9c3e",
		Args:    cobra.NoArgs,
		RunE:    s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	c.AddCommand(newTokenCreateCommand(s), newTokenListCommand(s), newTokenRevokeCommand(s))
	return c
}

func newTokenCreateCommand(s *session.Session) *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use: "create CLUSTER", Short: "Create a token for a cluster",
		Long: `Create creates a token for a cluster, PROVIDER/CLUSTER, and prints it. The server does not
show it again. Messages go to the error output. Older tokens of the cluster stay valid for
an hour, or for --overlap, so that you can give the new one to its monitor without a gap.`,
		Example: `  emcoctl token create edge/store-7 >token
  emcoctl token create edge/store-7 |
    kubectl -n emco-monitor create secret generic emco-monitor-status --from-file=token=/dev/stdin
  emcoctl token create edge/store-7 --overlap 24h -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Cluster,
	}
	f := c.Flags()
	f.DurationVar(&overlap, "overlap", time.Hour, "how long older tokens stay valid; 0 ends them at once")
	c.RunE = s.Run(func(c *cobra.Command, args []string) error {
		query := ""
		if f.Changed("overlap") { // else the server decides
			query = "?overlap=" + overlap.String()
		}
		return runTokenCreate(c.Context(), s, args[0], query)
	})
	return c
}

func runTokenCreate(ctx context.Context, s *session.Session, cluster, query string) error {
	t, err := tokensOf(s, cluster)
	if err != nil {
		return err
	}
	res, err := t.ask(ctx, http.MethodPost, query)
	if err != nil {
		return err
	}
	if t.form != output.Human {
		return output.Encode(s.Sys.Out, t.form, res.Body)
	}
	var made v2.NewReportToken
	if err := res.Decode(&made); err != nil {
		return err
	}
	fmt.Fprintf(s.Sys.Err, "token %s of %s, which is not shown again; it reports to %s\n", made.ID, t.cluster, made.Path)
	fmt.Fprintln(s.Sys.Out, made.Token)
	return nil
}

func newTokenListCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "list CLUSTER", Short: "List the tokens of a cluster",
		Long:              "List shows the tokens of a cluster, PROVIDER/CLUSTER, that are valid, without what is secret of them.",
		Example:           "  emcoctl token list edge/store-7",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Cluster,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			t, err := tokensOf(s, args[0])
			if err != nil {
				return err
			}
			return t.show(c.Context(), s.Sys.Out)
		}),
	}
}

func newTokenRevokeCommand(s *session.Session) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "revoke CLUSTER ID...", Short: "Revoke tokens of a cluster",
		Long: `Revoke invalidates tokens of a cluster, PROVIDER/CLUSTER, at once: those with the given ids,
or --all. The last report of the cluster stays, and becomes stale. With -o json or yaml it
prints the remaining tokens.`,
		Example:           "  emcoctl token revoke edge/store-7 1f0a9c3e\n  emcoctl token revoke edge/store-7 --all",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeToken(s),
	}
	c.Flags().BoolVar(&all, "all", false, "all tokens of the cluster")
	c.RunE = s.Run(func(c *cobra.Command, args []string) error {
		if all == (len(args) > 1) {
			return session.Usagef("give either the ids of tokens, as emcoctl token list shows them, or --all")
		}
		return runTokenRevoke(c.Context(), s, args[0], args[1:])
	})
	return c
}

// runTokenRevoke invalidates tokens of a cluster: those with these ids, or all without ids.
func runTokenRevoke(ctx context.Context, s *session.Session, cluster string, ids []string) error {
	t, err := tokensOf(s, cluster)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		query, what := "", "all tokens"
		if id != "" {
			query, what = "?id="+url.QueryEscape(id), "token "+id
		}
		if _, err := t.ask(ctx, http.MethodDelete, query); err != nil {
			return err
		}
		if t.form == output.Human {
			fmt.Fprintf(s.Sys.Out, "%s of %s revoked\n", what, t.cluster)
		}
	}
	if t.form == output.Human {
		return nil
	}
	return t.show(ctx, s.Sys.Out)
}

// clusterTokens are the tokens of one cluster, on the server.
type clusterTokens struct {
	cluster string // its path
	server  *client.Client
	form    output.Format
}

func tokensOf(s *session.Session, word string) (t clusterTokens, err error) {
	if t.cluster, err = session.ClusterPath(word); err != nil {
		return t, err
	}
	if t.form, err = s.FormatOfOwnCommands(); err != nil {
		return t, err
	}
	t.server, err = s.Dial(t.cluster)
	return t, err
}

func (t clusterTokens) path() string { return t.cluster + "/monitor/token" }

// ask sends a request without a body; a refusal is an error.
func (t clusterTokens) ask(ctx context.Context, method, query string) (*client.Response, error) {
	return t.server.Ask(ctx, client.Request{Method: method, Path: t.path() + query, Accept: client.JSONType})
}

// show prints tokens.
func (t clusterTokens) show(ctx context.Context, w io.Writer) error {
	return fetch.Show(ctx, t.server, t.path(), w, t.form, showTokens)
}

// showTokens prints a line for each token.
func showTokens(w io.Writer, all []v2.ReportToken) {
	if len(all) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	out := output.NewTable(w)
	out.Row("ID", "MADE", "ENDS", "ACTOR")
	for _, one := range all {
		out.Row(one.ID, printable.Time(one.Made), ending(one.Ends), one.Actor)
	}
	out.Flush()
}

// ending returns the end of a token in words.
func ending(at time.Time) string {
	if at.IsZero() {
		return "when revoked"
	}
	return printable.Time(at)
}

// completeToken offers a cluster, and then the ids of its tokens.
func completeToken(s *session.Session) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return complete.New(s).Cluster(c, args, word)
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.CompletionTime)
		defer cancel()
		t, err := tokensOf(s, args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := client.Get[[]v2.ReportToken](ctx, t.server, t.path())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, one := range all {
			if strings.HasPrefix(one.ID, word) && !slices.Contains(args[1:], one.ID) {
				out = append(out, one.ID)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
