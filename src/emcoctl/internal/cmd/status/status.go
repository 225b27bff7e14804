// Package status holds the commands that show the state and the history of what runs: status, describe, tree, watch,
// placement, events, revisions, and search over all of it.
package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newStatusCommand(s), newDescribeCommand(s), newTreeCommand(s),
		newEventsCommand(s), newHistoryCommand(s), newRevisionsCommand(s), newPlacementCommand(s), newSearchCommand(s), newWatchCommand(s),
	}
}

// newStatusCommand returns the command for people; -o json prints the server's answer for programs.
func newStatusCommand(s *session.Session) *cobra.Command {
	var f pairFilter
	c := &cobra.Command{
		Use: "status GROUP", Short: "Show the status of a deployment on each cluster",
		Long: fmt.Sprintf(`Status shows a deployment intent group or a logical cloud: its state, counts of
objects, failures with their reasons, and each app on each cluster. If there are more than %d
of these, it counts them by app, and lists those that are not as desired. --app, --cluster,
--phase and --failed select some of them; --all lists all.`, maxPairs),
		Example:           "  emcoctl status shop/till/v1/autumn --failed\n  emcoctl status shop/till/v1/autumn\n  emcoctl status projects/p/logical-clouds/lc -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			form, err := s.FormatOfOwnCommands()
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			paths, err := s.Deployments(args)
			if err != nil {
				return err
			}
			client, err := s.Dial(paths[0])
			if err != nil {
				return err
			}
			if form == output.Human {
				if large, ok := readLarge(c.Context(), client, paths[0], f); ok {
					large.show(s.Sys.Out)
					return nil
				}
			}
			st, text, err := fetch.Status(c.Context(), client, paths[0], progress.Ready.View()+f.query())
			if err != nil {
				return err
			}
			if form != output.Human {
				return output.Encode(s.Sys.Out, form, text)
			}
			showStatus(s.Sys.Out, paths[0], st, f)
			return nil
		}),
	}
	f.flags(s, c)
	return c
}

// showStatus prints a status for people.
func showStatus(w io.Writer, path string, s v2.Status, f pairFilter) {
	head := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, printable.Line(value))
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
	if s.Use != nil {
		head("uses", fmt.Sprintf("%d clusters, %d objects, %d bytes", s.Use.Clusters, s.Use.Objects, s.Use.Bytes))
	}
	if r := s.Renewal; r != nil {
		head("renewal", renewalText(*r))
	}
	head("outdated", s.Outdated)
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
	for _, warning := range progress.Findings(s) {
		head("warning", warning)
	}
	showConditions(w, s.Conditions)
	showPairs(w, pairRows(s), f)
}

// renewalText describes when certificates are renewed.
func renewalText(r v2.Renewal) string {
	var parts []string
	if !r.At.IsZero() {
		parts = append(parts, "at "+r.At.UTC().Format(time.RFC3339))
	}
	if !r.NotAfter.IsZero() {
		parts = append(parts, "the first certificate ends at "+r.NotAfter.UTC().Format(time.RFC3339))
	}
	if r.Problem != "" {
		parts = append(parts, "refused: "+r.Problem)
	}
	return strings.Join(parts, "; ")
}

// showConditions prints a line for each condition.
func showConditions(w io.Writer, all []v2.Condition) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Row("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
	for _, c := range all {
		since := ""
		if !c.Since.IsZero() {
			since = printable.Time(c.Since)
		}
		t.Row(c.Type, c.Status, since, c.Reason, c.Message)
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
