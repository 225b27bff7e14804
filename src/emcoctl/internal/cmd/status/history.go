package status

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

const (
	defaultIntervals = 50
	maxIntervals     = 200 // that the server shows at once
)

// newHistoryCommand returns the command that shows what clusters held, and when.
func newHistoryCommand(s *session.Session) *cobra.Command {
	var f historyFilter
	c := &cobra.Command{
		Use: "history (CLUSTER | GROUP)", Short: "Show which version was on which cluster, and when",
		Long: `History shows what a cluster held, or what clusters held of a deployment, the newest first: an app
had the same content from FROM to TO. What is there still has "now" in TO. "by" before a time
means that the app was there at this time already, and that its beginning was not recorded. A
cluster that is not registered any longer has its history, and so have deployments that were
deleted, for 90 days.

CLUSTER is PROVIDER/CLUSTER, GROUP is PROJECT/COMPOSITEAPP/VERSION/GROUP. A TIME is a time such as
2026-11-21T12:00:00Z, a date, which is its beginning in UTC, or a duration before now.`,
		Example:           "  emcoctl history edge/store-7\n  emcoctl history edge/store-7 --at 2026-11-21\n  emcoctl history shop/till/v1/autumn --cluster edge/store-7 --since 24h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHistory(s),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			path, ofGroup, err := historyPath(args[0])
			if err != nil {
				return err
			}
			query, err := f.query(time.Now())
			if err != nil {
				return err
			}
			if len(f.clusters) > 0 && !ofGroup {
				return session.Usagef("--cluster is for the history of a GROUP")
			}
			form, server, err := s.Open(path)
			if err != nil {
				return err
			}
			return fetch.Show(c.Context(), server, path+"?"+query.Encode(), s.Sys.Out, form, func(w io.Writer, page v2.HistoryViews) {
				showHistory(w, page.Items, ofGroup)
				if more := page.Total - len(page.Items); more > 0 {
					fmt.Fprintf(s.Sys.Err, "and %d older ones; --limit, --at, --since and the other flags select\n", more)
				}
			})
		}),
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.apps, "app", nil, "only these apps")
	fl.StringSliceVar(&f.clusters, "cluster", nil, "of a GROUP: only on these clusters, PROVIDER/CLUSTER")
	fl.StringVar(&f.at, "at", "", "only what was there at this TIME")
	fl.StringVar(&f.since, "since", "", "only what was there after this TIME")
	fl.IntVar(&f.limit, "limit", defaultIntervals, "lines to show at most, up to 200")
	complete.Flag(c, "app", complete.New(s).Apps)
	complete.Flag(c, "cluster", complete.New(s).Clusters())
	return c
}

// historyFilter selects intervals.
type historyFilter struct {
	apps, clusters []string
	at, since      string
	limit          int
}

// query returns the parameters of the view.
func (f historyFilter) query(now time.Time) (url.Values, error) {
	if f.limit < 1 || f.limit > maxIntervals {
		return nil, session.Usagef("--limit %d is not between 1 and %d", f.limit, maxIntervals)
	}
	q := url.Values{"limit": {strconv.Itoa(f.limit)}, "app": f.apps}
	for _, word := range f.clusters {
		key, err := session.ClusterKey(word)
		if err != nil {
			return nil, err
		}
		q.Add("cluster", string(key))
	}
	for _, t := range [][2]string{{"at", f.at}, {"since", f.since}} {
		at, err := session.Moment(t[0], t[1], now)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			q.Set(t[0], at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q, nil
}

// historyPath returns the view of the history of a cluster or of a deployment intent group.
func historyPath(word string) (path string, ofGroup bool, err error) {
	if key, err := session.ClusterKey(word); err == nil {
		return "views/clusters/" + key.Provider() + "/" + key.Cluster() + "/history", false, nil
	}
	path, err = session.Deployment(word)
	if _, isGroup := v2.GroupOf(path); err == nil && !isGroup {
		err = session.Usagef("history is of a cluster or a deployment intent group, and %q is neither", word)
	}
	return "views/" + path + "/history", true, err
}

func showHistory(w io.Writer, items []v2.HistoryView, ofGroup bool) {
	if len(items) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	t := output.NewTable(w)
	heads := []string{"FROM", "TO", "DEPLOYMENT", "APP", "REVISION", "CHANGE", "COMMIT"}
	if ofGroup {
		heads = slices.Insert(heads, 2, "CLUSTER")
	}
	t.Row(heads...)
	for _, h := range items {
		from, to := printable.Time(h.From), "now"
		if !h.Recorded {
			from = "by " + from
		}
		if !h.To.IsZero() {
			to = printable.Time(h.To)
		}
		row := []string{from, to, v2.ShortName(cmp.Or(h.Path, "deployment "+string(h.DeploymentID))), h.App, output.Number(h.Revision), h.Change, output.Commit(h.Commit)}
		if ofGroup {
			row = slices.Insert(row, 2, h.Provider+"/"+h.Cluster)
		}
		t.Row(row...)
	}
	t.Flush()
}

// completeHistory offers clusters and groups.
func completeHistory(s *session.Session) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		clusters, whole := complete.New(s).Cluster(c, args, word)
		if groups, more := complete.New(s).Group(c, args, word); len(groups) > 0 {
			return append(clusters, groups...), more
		}
		return clusters, whole
	}
}
