package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/overview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newDescribeCommand returns the command that shows all about one cluster or deployment.
func newDescribeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "describe (cluster PROVIDER/CLUSTER | deployment GROUP | project NAME)", Short: "Show a cluster and what runs on it, a deployment, or what a project uses",
		Long: `Describe cluster shows a cluster: its labels, its location, when it was last seen, and each
app on it with its revision and commit.

Describe deployment shows a deployment intent group: its revision and who made it, its
conditions, the apps on clusters that are not as desired, and its last events.

Describe project shows what a project uses, and the quotas that bound it.`,
		Example:           "  emcoctl describe cluster edge/store-7\n  emcoctl describe deployment shop/till/v1/autumn\n  emcoctl describe project shop",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeDescribed(s),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			switch k, _ := kind.Named(args[0]); k.Collection {
			case "clusters":
				return describeCluster(c.Context(), s, args[1])
			case kind.Groups:
				return describeDeployment(c.Context(), s, args[1])
			case "projects":
				return describeProject(c.Context(), s, args[1])
			}
			return session.Usagef("describe shows a cluster, a deployment or a project; read %q with emcoctl get", args[0])
		}),
	}
}

func describeCluster(ctx context.Context, s *session.Session, word string) error {
	key, err := session.ClusterKey(word)
	if err != nil {
		return err
	}
	form, c, err := s.Open("views")
	if err != nil {
		return err
	}
	return fetch.Show(ctx, c, "views/clusters/"+key.Provider()+"/"+key.Cluster(), s.Sys.Out, form, showCluster)
}

func showCluster(w io.Writer, d v2.ClusterDetail) {
	output.Fields(
		w, [2]string{"name", d.Provider + "/" + d.Cluster}, [2]string{"state", d.State}, [2]string{"type", cmp.Or(d.Type, "direct")},
		[2]string{"branch", d.Branch}, [2]string{"labels", strings.Join(d.Labels, ", ")},
		[2]string{"seen", cmp.Or(output.Since(d.LastHeard), "never")}, [2]string{"silent", output.Since(d.SilentSince)},
		[2]string{"apps", overview.Counts(d.Counts)}, [2]string{"why", d.Why}, [2]string{"nodes", nodes(d.Capacity)},
	)
	showCapacity(w, d.Capacity)
	if len(d.Places) == 0 {
		fmt.Fprintln(w, "\nnothing runs on it")
		return
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Row("DEPLOYMENT", "APP", "STATE", "PHASE", "REVISION", "COMMIT", "SINCE", "WHY")
	for _, p := range d.Places {
		t.Row(strings.Join([]string{p.Project, p.App, p.Version, p.Group}, "/"), p.Name, p.State, p.Phase, output.Number(p.Revision),
			output.Commit(p.Commit), output.Age(p.Since, time.Now()), cmp.Or(p.Blocked, p.Why))
	}
	t.Flush()
	if d.More > 0 {
		fmt.Fprintf(w, "and %d more\n", d.More)
	}
}

// nodes describes the nodes of a cluster in one line; empty if the cluster does not report them.
func nodes(c *v2.ClusterCapacity) string {
	switch {
	case c == nil:
		return ""
	case c.Problem != "":
		return "not known: " + c.Problem
	}
	out := fmt.Sprintf("%d of %d take pods", c.Open, c.Nodes)
	if !c.Reported.IsZero() {
		out += ", reported " + output.Since(c.Reported)
	}
	return out
}

func showCapacity(w io.Writer, c *v2.ClusterCapacity) {
	if c == nil || len(c.Resources) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Row("RESOURCE", "FREE", "ALLOCATABLE", "MOST FREE ON A NODE")
	for _, r := range c.Resources {
		t.Row(r.Name, r.Free, r.Allocatable, r.Largest)
	}
	t.Flush()
}

// deploymentDescription is all that describe deployment reads.
type deploymentDescription struct {
	Status    v2.Status     `json:"status"`
	large     *largeStatus  // instead of Status, if the deployment is large
	Revisions []v2.Revision `json:"revisions"`
	Events    []v2.Event    `json:"events"`
}

// The last revisions and events of a description.
const (
	describedRevisions = 3
	describedEvents    = 10
)

func describeDeployment(ctx context.Context, s *session.Session, word string) error {
	path, err := session.Deployment(word)
	if err != nil {
		return err
	}
	form, c, err := s.Open(path)
	if err != nil {
		return err
	}
	d, err := readDescription(ctx, c, path, form == output.Human)
	if err != nil {
		return err
	}
	if form != output.Human {
		text, err := json.Marshal(d)
		if err != nil {
			return err
		}
		return output.Encode(s.Sys.Out, form, text)
	}
	if d.large != nil {
		d.large.show(s.Sys.Out)
	} else {
		showStatus(s.Sys.Out, path, d.Status, pairFilter{failed: true})
	}
	if len(d.Revisions) > 0 {
		fmt.Fprintln(s.Sys.Out)
		showRevisions(s.Sys.Out, d.Revisions)
	}
	if len(d.Events) > 0 {
		fmt.Fprintln(s.Sys.Out)
		showEvents(s.Sys.Out, d.Events)
	}
	return nil
}

// readDescription reads a description; brief allows counts in place of a large status.
func readDescription(ctx context.Context, c *client.Client, path string, brief bool) (d deploymentDescription, err error) {
	if large, ok := readLarge(ctx, c, path, pairFilter{}); ok && brief {
		d.large = &large
	} else if d.Status, _, err = fetch.Status(ctx, c, path, progress.Ready.View()); err != nil {
		return d, err
	}
	if strings.Contains(path, "/"+kind.Clouds+"/") {
		return d, nil // clouds have neither
	}
	revisions, err := client.Get[v2.RevisionsAnswer](ctx, c, path+"/revisions")
	if err != nil {
		return d, err
	}
	d.Revisions = revisions.Revisions[:min(len(revisions.Revisions), describedRevisions)]
	events, err := client.Get[v2.EventsAnswer](ctx, c, path+"/events")
	d.Events = events.Events[max(0, len(events.Events)-describedEvents):]
	return d, err
}

// completeDescribed offers the kinds of describe, and then their names.
func completeDescribed(s *session.Session) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return []string{"cluster", "deployment", "project"}, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == "cluster":
			return complete.New(s).Cluster(c, nil, word)
		case len(args) == 1 && args[0] == "deployment":
			return complete.New(s).Group(c, nil, word)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
