package status

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newSearchCommand returns the command that finds things by a part of their names.
func newSearchCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "search TEXT", Short: "Find clusters, deployments, apps, labels and commits by name, and deployments by their folders in Git",
		Long: `Search finds clusters, deployments, apps and labels that have a text in their names, and the
revisions that a commit carried, by at least the first four digits of its name. Of the number of
a folder in Git, or a path with it, it finds the deployment, or the logical cloud or cluster whose
objects are there. It lists at most 20 in all, and 6 of a kind.`,
		Example: "  emcoctl search store-7\n  emcoctl search 0242bab627ef\n  emcoctl search clusters/edge+store-7/context/42/app/web",
		Args:    cobra.ExactArgs(1),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return session.Usagef("give a part of a name, the first four digits of a commit, or the number of a deployment in Git")
			}
			const path = "views/search"
			form, server, err := s.Open(path)
			if err != nil {
				return err
			}
			return fetch.Show(c.Context(), server, path+"?"+url.Values{"q": {args[0]}}.Encode(), s.Sys.Out, form, showHits)
		}),
	}
}

// The limits of the server's answer.
const (
	mostHits   = 20
	mostOfKind = 6
)

// nameOf returns the name of a hit as other commands take it.
func nameOf(h v2.SearchHit) string {
	switch h.Kind {
	case "commit":
		return h.Title[:min(len(h.Title), 12)]
	case "cluster":
		if key, err := v2.ParseClusterKey(h.Title); err == nil {
			return key.Provider() + "/" + key.Cluster()
		}
	case "deployment":
		return v2.ShortName(strings.TrimSuffix(strings.TrimPrefix(h.Href, "/v2/views/"), "/matrix"))
	}
	return h.Title
}

func showHits(w io.Writer, found v2.SearchView) {
	if len(found.Hits) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("KIND", "NAME", "ABOUT")
	of, most := map[string]int{}, 0
	for _, h := range found.Hits {
		t.Row(h.Kind, nameOf(h), h.Sub)
		of[h.Kind]++
		most = max(most, of[h.Kind])
	}
	t.Flush()
	if most >= mostOfKind || len(found.Hits) >= mostHits {
		fmt.Fprintf(w, "there may be more: search lists at most %d, and %d of a kind\n", mostHits, mostOfKind)
	}
}
