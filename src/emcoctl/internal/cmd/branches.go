package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// gitBranches is the path of the branches that the server writes to.
const gitBranches = "git/branches"

// newBranchesCommand returns the command that lists the Git branches that the server writes to.
func newBranchesCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "branches", Short: "List the Git branches that the server writes to",
		Long: `Branches lists the Git branches that the server writes to, the worst first: the state of each, the
changes that wait for a commit, the last push, and the commit that it must hold. With -o json
it prints all branches with their commits, without states.`,
		Example: "  emcoctl branches",
		Args:    cobra.NoArgs,
		RunE: s.own(func(c *cobra.Command, _ []string) error {
			form, err := s.form()
			if err != nil {
				return err
			}
			server, err := s.dial(gitBranches)
			if err != nil {
				return err
			}
			if form == output.Human {
				if done, err := showLanes(c.Context(), s, server); done {
					return err
				}
			}
			var all []v2.GitBranch
			text, err := read(c.Context(), server, gitBranches, &all)
			if err != nil {
				return err
			}
			if form != output.Human {
				return output.Encode(s.sys.Out, form, text)
			}
			showBranches(s.sys.Out, all)
			return nil
		}),
	}
}

// showLanes prints the branches with their states. It is not done if the server has no such view.
func showLanes(ctx context.Context, s *session, server *client.Client) (done bool, err error) {
	var page v2.LaneViews
	if _, err := read(ctx, server, "views/git?limit="+strconv.Itoa(pageRows), &page); err != nil {
		return !errs.Is(err, errs.NotFound), err
	}
	if len(page.Items) == 0 {
		fmt.Fprintln(s.sys.Out, "none")
		return true, nil
	}
	now := time.Now()
	t := output.NewTable(s.sys.Out)
	row(t, "REPOSITORY", "BRANCH", "STATE", "QUEUED", "PUSHED", "COMMIT", "WHY")
	for _, l := range page.Items {
		row(t, l.URL, l.Branch, l.State, strconv.Itoa(l.Queued), output.Age(l.LastPush, now), or(l.Commit[:min(len(l.Commit), 12)], "any"), l.Why)
	}
	t.Flush()
	if more := page.Total - len(page.Items); more > 0 {
		fmt.Fprintf(s.sys.Err, "and %d more; -o json has all\n", more)
	}
	return true, nil
}

func showBranches(w io.Writer, all []v2.GitBranch) {
	if len(all) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	row(t, "REPOSITORY", "BRANCH", "COMMIT")
	for _, b := range all {
		row(t, b.URL, b.Branch, or(b.Commit[:min(len(b.Commit), 12)], "any"))
	}
	t.Flush()
}

// newDecisionCommands returns the commands for an operator's decision on external edits of a branch.
func newDecisionCommands(s *session) []*cobra.Command {
	return []*cobra.Command{
		newDecisionCommand(s, "adopt", "Accept the present history of a branch", `Adopt accepts the history of a branch that others have rewritten. The server writes the
desired state on top of it.`),
		newDecisionCommand(s, "restore", "Reset a branch to the last commit of the server", `Restore resets a branch that others have rewritten to the last commit that the server
wrote, if the server still has it. It never discards a concurrent push.`),
	}
}

func newDecisionCommand(s *session, name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name + " URL BRANCH", Short: short,
		Long:              long + "\n\nURL and BRANCH are as emcoctl branches lists them. The work itself is done afterwards.",
		Example:           "  emcoctl " + name + " https://git.example/fleet.git main",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completer{s}.branch,
		RunE: s.own(func(c *cobra.Command, args []string) error {
			return runDecision(c.Context(), s, name, v2.GitBranch{URL: args[0], Branch: args[1]})
		}),
	}
}

func runDecision(ctx context.Context, s *session, name string, b v2.GitBranch) error {
	form, err := s.form()
	if err != nil {
		return err
	}
	path := "git/" + name
	c, err := s.dial(path)
	if err != nil {
		return err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	res, err := c.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Accept: "application/json", Body: client.JSON(text)})
	if err == nil {
		err = res.Err(http.MethodPost, path)
	}
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.sys.Out, form, res.Body)
	}
	fmt.Fprintf(s.sys.Out, "%s of branch %s of %s accepted\n", name, b.Branch, b.URL)
	return nil
}
