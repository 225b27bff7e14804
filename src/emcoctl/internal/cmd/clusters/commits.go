package clusters

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// maxCommits is how many commits the server shows at once.
const maxCommits = 200

// newCommitsCommand returns the command that lists the newest commits of a branch.
func newCommitsCommand(s *session.Session) *cobra.Command {
	var limit int
	var text string
	c := &cobra.Command{
		Use: "commits URL BRANCH", Short: "List the newest commits of a Git branch that the server writes",
		Long: `Commits lists the newest commits of a branch that the server writes, with the revisions of
deployments that they carried. BY is emco for commits of the server, otherwise their author.
You see commits of deployments that you may read, and those of others if you may list branches.

URL and BRANCH are as emcoctl branches lists them. The server asks the Git server at most every
ten seconds, and every minute where a provider limits requests. Find a single commit with:
emcoctl search COMMIT`,
		Example:           "  emcoctl commits https://git.example/fleet.git main\n  emcoctl commits https://git.example/fleet.git main --find shop/till -o json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeBranch(s),
	}
	c.Flags().IntVar(&limit, "limit", 20, "commits to show at most, up to 200")
	c.Flags().StringVar(&text, "find", "", "only commits with this text in their name, author, title or deployments")
	c.RunE = s.Run(func(c *cobra.Command, args []string) error {
		if limit < 1 || limit > maxCommits {
			return session.Usagef("--limit %d is not between 1 and %d", limit, maxCommits)
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if text != "" {
			query.Set("q", text)
		}
		path := "views/git/" + v2.LaneID(args[0], args[1]) + "/commits"
		form, server, err := s.Open(path)
		if err != nil {
			return err
		}
		show := func(w io.Writer, page v2.CommitViews) {
			showCommits(w, page, time.Now())
			if page.Why != "" {
				fmt.Fprintf(s.Sys.Err, "this is how the branch was at %s; the server cannot ask again: %s\n", printable.Time(page.ReadAt), printable.Line(page.Why))
			}
			if more := page.Total - len(page.Items); more > 0 {
				fmt.Fprintf(s.Sys.Err, "and %d more; see --limit\n", more)
			} else if page.Older {
				fmt.Fprintln(s.Sys.Err, "and older ones, which git log shows in a clone of the repository")
			}
		}
		err = fetch.Show(c.Context(), server, path+"?"+query.Encode(), s.Sys.Out, form, show)
		if errs.Is(err, errs.NotFound) {
			return errs.New(errs.NotFound, fmt.Sprintf("the server writes no branch %q of %s, or nothing on it is yours; list the branches with: emcoctl branches", args[1], args[0]))
		}
		return err
	})
	return c
}

func showCommits(w io.Writer, page v2.CommitViews, now time.Time) {
	if len(page.Items) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("COMMIT", "AGE", "BY", "WHAT")
	for _, c := range page.Items {
		by, _, _ := strings.Cut(c.Author, " <")
		if c.Ours {
			by = "emco"
		}
		t.Row(output.Commit(c.Commit), output.Age(c.Time, now), by, whatOf(c))
	}
	t.Flush()
}

// whatOf describes a commit: its title, and the revisions that it carried unless the title names
// their deployment.
func whatOf(c v2.CommitView) string {
	var carried []string
	for _, g := range c.Groups {
		name, revision := v2.ShortName(cmp.Or(g.Path, "deployment "+g.Deployment)), ""
		if g.Revision > 0 {
			revision = "revision " + strconv.FormatInt(g.Revision, 10)
		}
		if !strings.Contains(c.Title, name+" ") {
			revision = strings.TrimSpace(name + " " + revision)
		}
		if revision != "" {
			carried = append(carried, revision)
		}
	}
	if c.More > 0 {
		carried = append(carried, fmt.Sprintf("and %d more", c.More))
	}
	what := strings.Join(carried, ", ")
	switch {
	case what == "":
		return c.Title
	case c.Title == "":
		return what
	}
	return c.Title + " (" + what + ")"
}
