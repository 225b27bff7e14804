package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newRevisionsCommand returns the command that lists the revisions of a deployment.
func newRevisionsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "revisions GROUP", Short: "List the revisions of a deployment",
		Long: `Revisions lists the revisions of a deployment, newest first: the current one has a star.
A rollback needs a revision that the server still keeps.`,
		Example:           "  emcoctl revisions shop/till/v1/autumn\n  emcoctl rollback shop/till/v1/autumn --revision 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			path, err := session.Deployment(args[0])
			if err != nil {
				return err
			}
			form, server, err := s.Open(path)
			if err != nil {
				return err
			}
			return fetch.Show(c.Context(), server, path+"/revisions", s.Sys.Out, form, func(w io.Writer, a v2.RevisionsAnswer) { showRevisions(w, a.Revisions) })
		}),
	}
}

// showRevisions prints a line for each revision.
func showRevisions(w io.Writer, all []v2.Revision) {
	if len(all) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("REVISION", "KIND", "TIME", "AUTHOR", "APPS", "PLACEMENTS", "COMMITS", "REASON")
	for _, r := range all {
		number, kind := strconv.FormatInt(r.Number, 10), r.Kind
		if r.Current {
			number += "*"
		}
		if r.From > 0 && r.Kind == "rollback" {
			kind = fmt.Sprintf("rollback to %d", r.From)
		}
		if !r.Kept {
			kind += " (not kept)"
		}
		apps, placements := contents(r)
		t.Row(number, kind, printable.Time(r.Time), r.Author, apps, placements, commits(r.Commits), r.Reason)
	}
	t.Flush()
}

// contents counts apps and their placements.
func contents(r v2.Revision) (apps, placements string) {
	failed, places := 0, 0
	for _, a := range r.Apps {
		places += a.Clusters
		if a.Failed {
			failed++
		}
	}
	if len(r.Apps) == 0 {
		return "", ""
	}
	apps = strconv.Itoa(len(r.Apps))
	if failed > 0 {
		apps += fmt.Sprintf(" (%d failed)", failed)
	}
	return apps, strconv.Itoa(places)
}

// commits names the first few Git commits of a revision, or its published digests.
func commits(all []v2.RevisionCommit) string {
	var names []string
	for _, c := range all[:min(len(all), 3)] {
		names = append(names, output.Commit(c.Commit))
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, " ")
}
