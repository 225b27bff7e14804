package status

import (
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newPlacementCommand returns the command that explains where apps go.
func newPlacementCommand(s *session.Session) *cobra.Command {
	var app, cluster string
	var chosen bool
	c := &cobra.Command{
		Use: "placement GROUP", Short: "Explain on which clusters the documents place the apps",
		Long: `Placement shows where the current documents of a deployment place its apps: each cluster
that they name, whether it is chosen, its score, and the reason. It changes nothing.`,
		Example:           "  emcoctl placement shop/till/v1/autumn\n  emcoctl placement shop/till/v1/autumn --app web --cluster edge/c1",
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
			q := url.Values{"explain": {strconv.FormatBool(!chosen)}}
			if app != "" {
				q.Set("app", app)
			}
			if cluster != "" {
				key, err := session.ClusterKey(cluster)
				if err != nil {
					return session.Usagef("--cluster: %w", err)
				}
				q.Set("cluster", key.String())
			}
			return fetch.Show(c.Context(), server, path+"/placement?"+q.Encode(), s.Sys.Out, form, showPlacements)
		}),
	}
	c.Flags().StringVar(&app, "app", "", "show this app alone")
	c.Flags().StringVar(&cluster, "cluster", "", "show this cluster alone, PROVIDER/CLUSTER")
	complete.Flag(c, "app", complete.New(s).Apps)
	complete.Flag(c, "cluster", complete.New(s).Clusters())
	c.Flags().BoolVar(&chosen, "chosen", false, "show chosen clusters alone")
	return c
}

// showPlacements prints a line for each cluster.
func showPlacements(w io.Writer, a v2.PlacementAnswer) {
	if len(a.Placements) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	t.Row("APP", "CLUSTER", "CHOSEN", "SCORE", "REASON")
	for _, p := range a.Placements {
		verdict, score := "no", ""
		if p.Verdict == "in" {
			verdict = "yes"
		}
		if p.Score != nil {
			score = strconv.FormatFloat(*p.Score, 'f', 3, 64)
		}
		t.Row(p.App, string(p.Cluster), verdict, score, p.Reason)
	}
	t.Flush()
}
