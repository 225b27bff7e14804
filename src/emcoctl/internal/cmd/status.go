package cmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/plain"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
)

// newStatusCommand returns the command for people; -o json prints the server's answer for programs.
func newStatusCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "status GROUP", Short: "Show the status of a deployment on each cluster",
		Long: `Status shows a deployment intent group or a logical cloud: its state, counts of
objects, failures with their reasons, and each app on each cluster.`,
		Example:           "  emcoctl status shop/till/v1/autumn\n  emcoctl status projects/p/logical-clouds/lc -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completer{s}.group,
		RunE: s.run(func(c *cobra.Command, args []string) error {
			form, err := s.form()
			if err != nil {
				return err
			}
			paths, err := targets(s, args)
			if err != nil {
				return err
			}
			client, err := s.dial(paths[0])
			if err != nil {
				return err
			}
			st, text, err := readStatus(c.Context(), client, paths[0], progress.Ready.View())
			if err != nil {
				return err
			}
			if form != output.Human {
				return output.Encode(s.sys.Out, form, text)
			}
			showStatus(s.sys.Out, paths[0], st)
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
	if s.Stopped {
		head("stopped", "nothing more is done towards what is desired")
	}
	head("moved to", s.MovedTo)
	head("failure", s.Failure)
	for _, app := range s.Apps {
		if app.Failure != nil {
			head("failure", "app "+app.Name+": "+progress.Failure(*app.Failure))
		}
		for _, finding := range app.Findings {
			head("warning", "app "+app.Name+": "+finding)
		}
	}
	showConditions(w, s.Conditions)
	showPairs(w, progress.Pairs(s), s.Leaving)
}

// showConditions prints a line for each condition.
func showConditions(w io.Writer, all []v2.Condition) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	row(t, "CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
	for _, c := range all {
		since := ""
		if !c.Since.IsZero() {
			since = c.Since.UTC().Format(progress.Moment)
		}
		row(t, c.Type, c.Status, since, c.Reason, c.Message)
	}
	t.Flush()
}

// joined returns a state with its counts.
func joined(status string, counts map[string]int) string {
	if len(counts) == 0 {
		return status
	}
	return strings.TrimSpace(status + " (" + progress.Counts(counts) + ")")
}

// showPairs prints a line for each app on each cluster, then for those that are being
// removed.
func showPairs(w io.Writer, pairs []progress.Pair, leaving []v2.Leaving) {
	if len(pairs)+len(leaving) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	row(t, "APP", "CLUSTER", "PHASE", "REVISION", "COMMIT", "READY", "MESSAGE")
	for _, p := range pairs {
		ready := readiness(p.Resources)
		if p.Stale && ready != "" {
			ready = "unknown"
		}
		row(t, p.App, p.Key().String(), p.Phase, number(p.Revision), p.Commit[:min(len(p.Commit), 12)], ready, message(p))
	}
	for _, l := range leaving {
		row(t, l.App, l.Key().String(), l.Phase, "", "", "", leavingMessage(l))
	}
	t.Flush()
}

// leavingMessage returns why an app is still on a cluster that it leaves.
func leavingMessage(l v2.Leaving) string {
	switch {
	case l.Error != "":
		return "leaving: " + progress.LeavingError(l)
	case l.Blocked != "":
		return "leaving; blocked: " + l.Blocked
	}
	return "leaving"
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// readiness counts the objects that are ready: "3/4"; "unknown" if the cluster has reported
// none of them, "" without objects in the answer.
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

// message returns the pair's error, what it waits for, the time of its cluster's last report
// if that is old, or the reason of the first object that is not ready.
func message(p progress.Pair) string {
	if p.Error != "" || p.Blocked != "" || p.Stale {
		return progress.Saying(p.ClusterStatus)
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
