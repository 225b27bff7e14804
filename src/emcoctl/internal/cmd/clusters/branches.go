// Package clusters holds the commands for clusters in Git: move; branches and commits, which list what the server writes;
// adopt and restore, which decide about a rewritten branch; and token, for report tokens. Lists of clusters are in overview, one
// cluster is in cmd/status.
package clusters

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/overview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return append(newDecisionCommands(s), newMoveCommand(s), newBranchesCommand(s), newCommitsCommand(s), newTokenCommand(s))
}

// gitBranches is the path of the branches that the server writes to.
const gitBranches = "git/branches"

// newBranchesCommand returns the command that lists the Git branches that the server writes to.
func newBranchesCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "branches", Short: "List the Git branches that the server writes to",
		Long: `Branches lists the Git branches that the server writes to, the worst first: the state of each, its
clusters, the changes that wait for a commit, the last push, and the commit that it must hold. With -o json
it prints all branches with their commits, without states.`,
		Example: "  emcoctl branches",
		Args:    cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			form, server, err := s.Open(gitBranches)
			if err != nil {
				return err
			}
			if form == output.Human {
				if done, err := showLanes(c.Context(), s, server); done {
					return err
				}
			}
			return fetch.Show(c.Context(), server, gitBranches, s.Sys.Out, form, showBranches)
		}),
	}
}

// showLanes prints the branches with their states. It is not done if the server has no such view.
func showLanes(ctx context.Context, s *session.Session, server *client.Client) (done bool, err error) {
	lanes, more, err := readLanes(ctx, server)
	if err != nil {
		return !errs.Is(err, errs.NotFound), err
	}
	if len(lanes) == 0 {
		fmt.Fprintln(s.Sys.Out, "none")
		return true, nil
	}
	now := time.Now()
	t := output.NewTable(s.Sys.Out)
	t.Row("REPOSITORY", "BRANCH", "STATE", "CLUSTERS", "QUEUED", "PUSHED", "COMMIT", "WHY")
	for _, l := range lanes {
		if l.Why == "" && l.Foreign > 0 {
			l.Why = fmt.Sprintf("others have changed the files of %d apps on its clusters", l.Foreign)
		}
		t.Row(l.URL, l.Branch, l.State, strconv.Itoa(l.Clusters), strconv.Itoa(l.Queued), output.Age(l.LastPush, now), cmp.Or(output.Commit(l.Commit), "any"), l.Why)
	}
	t.Flush()
	if more > 0 {
		fmt.Fprintf(s.Sys.Err, "and %d more; -o json has all\n", more)
	}
	return true, nil
}

// maxLanePages is how many pages of branches are shown.
const maxLanePages = 50

// readLanes reads the branches with their states, page by page. More is how many are left out.
func readLanes(ctx context.Context, server *client.Client) (all []v2.LaneView, more int, err error) {
	q := url.Values{"limit": {strconv.Itoa(overview.PageRows)}}
	for range maxLanePages {
		var page v2.LaneViews
		if _, err := fetch.Document(ctx, server, "views/git?"+q.Encode(), &page); err != nil {
			return nil, 0, err
		}
		all, more = append(all, page.Items...), page.Total-len(all)-len(page.Items)
		if page.Continue == "" {
			break
		}
		q.Set("continue", page.Continue)
	}
	return all, more, nil
}

func showBranches(w io.Writer, all []v2.GitBranch) {
	if len(all) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("REPOSITORY", "BRANCH", "COMMIT")
	for _, b := range all {
		t.Row(b.URL, b.Branch, cmp.Or(output.Commit(b.Commit), "any"))
	}
	t.Flush()
}

// newDecisionCommands returns the commands for an operator's decision on a branch whose history others have rewritten.
func newDecisionCommands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newDecisionCommand(s, "adopt", "Accept the present history of a branch", `Adopt accepts the history of a branch that others have rewritten. The server writes the
desired state on top of it.`),
		newDecisionCommand(s, "restore", "Reset a branch to the last commit of the server", `Restore resets a branch that others have rewritten to the last commit that the server
wrote, if the server still has it. It never discards a concurrent push.`),
	}
}

func newDecisionCommand(s *session.Session, name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name + " URL BRANCH", Short: short,
		Long:              long + "\n\nURL and BRANCH are as emcoctl branches lists them. The work itself is done afterwards.",
		Example:           "  emcoctl " + name + " https://git.example/fleet.git main",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeBranch(s),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			return runDecision(c.Context(), s, name, v2.GitBranch{URL: args[0], Branch: args[1]})
		}),
	}
}

func runDecision(ctx context.Context, s *session.Session, name string, b v2.GitBranch) error {
	form, err := s.FormatOfOwnCommands()
	if err != nil {
		return err
	}
	path := "git/" + name
	c, err := s.Dial(path)
	if err != nil {
		return err
	}
	text, err := client.Post[json.RawMessage](ctx, c, path, b)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	fmt.Fprintf(s.Sys.Out, "%s of branch %s of %s accepted\n", name, b.Branch, b.URL)
	return nil
}

// completeBranch offers repositories, and then their branches.
func completeBranch(s *session.Session) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), complete.CompletionTime)
		defer cancel()
		server, err := s.Dial(gitBranches)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := rest.Branches.Get(ctx, server, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, b := range all {
			switch {
			case len(args) == 0 && strings.HasPrefix(b.URL, word):
				out = append(out, b.URL)
			case len(args) == 1 && b.URL == args[0] && strings.HasPrefix(b.Branch, word):
				out = append(out, b.Branch)
			}
		}
		slices.Sort(out)
		return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
	}
}
