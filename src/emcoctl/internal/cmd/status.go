package cmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/plain"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/report"
)

// status is the command for people; programs use -o json, which is the answer itself.
func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status ANCHOR", Short: "Show where a deployment stands on each cluster",
		Long: `Status shows a deployment intent group or a logical cloud: its state, counts of
objects, what has failed and why, and each app on each cluster.`,
		Example:           "  emcoctl status projects/p/composite-apps/a/v1/deployment-intent-groups/d",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.complete,
		RunE: a.run(func(c *cobra.Command, args []string) error {
			paths, err := a.targets(args)
			if err != nil {
				return err
			}
			client, err := a.dial(paths[0])
			if err != nil {
				return err
			}
			s, text, err := readStatus(c.Context(), client, paths[0], progress.Ready.View())
			if err != nil {
				return err
			}
			switch f := a.format(); f {
			case report.JSON, report.YAML:
				return report.Encode(a.sys.Out, f, text)
			}
			showStatus(a.sys.Out, paths[0], s)
			return nil
		}),
	}
}

// showStatus prints a status for people.
func showStatus(w io.Writer, path string, s v2.Status) {
	head := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, plain.Line(value))
		}
	}
	head("name", path)
	state := "not started"
	if n := len(s.States.Actions); n > 0 {
		last := s.States.Actions[n-1]
		state = last.State
		if last.Revision > 0 {
			state += ", revision " + strconv.FormatInt(last.Revision, 10)
		}
	}
	head("state", state)
	head("deployed", joined(s.DeployedStatus, s.DeployedCounts))
	head("ready", joined(s.ReadyStatus, s.ReadyCounts))
	head("failure", s.Failure)
	for _, app := range s.Apps {
		if app.Failure != nil {
			head("failure", "app "+app.Name+": "+progress.Failure(*app.Failure))
		}
		for _, finding := range app.Findings {
			head("warning", "app "+app.Name+": "+finding)
		}
	}
	showPairs(w, progress.Pairs(s))
}

// joined is a state with its counts.
func joined(status string, counts map[string]int) string {
	if len(counts) == 0 {
		return status
	}
	return strings.TrimSpace(status + " (" + progress.Counts(counts) + ")")
}

// showPairs prints a line for each app on each cluster.
func showPairs(w io.Writer, pairs []progress.Pair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := report.NewTable(w)
	for _, head := range []string{"APP", "CLUSTER", "PHASE", "REVISION", "COMMIT", "READY", "MESSAGE"} {
		t.Cell(head)
	}
	t.End()
	for _, p := range pairs {
		t.Cell(p.App)
		t.Cell(p.Provider + "+" + p.Cluster)
		t.Cell(p.Phase)
		t.Cell(number(p.Revision))
		t.Cell(p.Commit[:min(len(p.Commit), 12)])
		t.Cell(readiness(p.Resources))
		t.Cell(message(p))
		t.End()
	}
	t.Flush()
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// readiness counts the objects that are ready: "3/4"; "unknown" if the cluster has
// reported none of them, empty if nobody was asked.
func readiness(resources []v2.ResourceStatus) string {
	ready, known, silent := 0, 0, 0
	for _, r := range resources {
		switch r.ReadyStatus {
		case "":
			continue
		case v2.Ready:
			ready++
		case progress.Unknown:
			silent++
		}
		known++
	}
	switch known {
	case 0:
		return ""
	case silent:
		return "unknown"
	}
	return fmt.Sprintf("%d/%d", ready, known)
}

// message is the pair's error, or the first object that says why it is not ready.
func message(p progress.Pair) string {
	if p.Error != "" {
		return p.Error
	}
	for _, r := range p.Resources {
		if r.Reason != "" && r.ReadyStatus == progress.Unknown {
			return r.Reason
		}
		if r.Reason != "" && r.ReadyStatus != v2.Ready {
			return r.GVK.Kind + " " + r.Name + ": " + r.Reason
		}
	}
	if p.Connectivity == "Retrying" || p.Connectivity == "Unknown" {
		return "connectivity: " + p.Connectivity
	}
	return ""
}
