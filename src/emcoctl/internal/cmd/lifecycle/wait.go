package lifecycle

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// GoalOf maps actions to what they lead to; the others have no goal.
var GoalOf = map[string]progress.Goal{
	"instantiate": progress.Instantiated,
	"update":      progress.Instantiated,
	"rollback":    progress.Instantiated,
	"migrate":     progress.Instantiated,
	"promote":     progress.Instantiated,
	"terminate":   progress.Terminated,
}

// newWaitCommand returns the command that ends when a deployment has reached its goal.
func newWaitCommand(s *session.Session) *cobra.Command {
	var goal string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "wait (-f FILE... | GROUP)", Short: "Wait until a deployment is ready, or has failed",
		Long: `Wait follows a deployment intent group or a logical cloud until it has reached the goal of
--for (default: ready for a deployment, deployed for a logical cloud): ready, deployed (or
instantiated), applied, terminated, or condition=TYPE, such as condition=Healthy or
condition=Stalled=False. Progress goes to the error output. The exit code is 7 if it
failed, and 6 after --timeout; wait then lists what blocks it. It polls at least once, so
--timeout=0 shows the present status. With -f, it follows all deployments and clouds of
the documents.`,
		Example:           "  emcoctl wait shop/till/v1/autumn --for=deployed --timeout=2m\n  emcoctl wait shop/till/v1/autumn --for=condition=Healthy",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			if goal != "" {
				if _, err := progress.ParseGoal(goal); err != nil {
					return session.Usagef("--for: %w", err)
				}
			}
			paths, err := s.Deployments(args)
			if err != nil {
				return err
			}
			return waitAll(c.Context(), s, paths, progress.Goal(goal), time.Now().Add(timeout))
		}),
	}
	c.Flags().StringVar(&goal, "for", "", "what to wait for: "+strings.Join(progress.Goals, ", "))
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "longest wait")
	complete.Flag(c, "for", complete.Fixed(waitFor))
	return c
}

// waitFor lists the completions of --for.
var waitFor = []string{
	"ready", "deployed", "terminated", "applied",
	"condition=Placed", "condition=Rendered", "condition=Committed", "condition=Synced", "condition=Healthy",
}

// waitAll waits for one after the other, with one timeout for all.
func waitAll(ctx context.Context, s *session.Session, paths []string, goal progress.Goal, until time.Time) error {
	for _, path := range paths {
		g := goal
		if g == "" {
			g = progress.Ready
			if anchor.Collection(path) == kind.Clouds {
				g = progress.Instantiated
			}
		}
		c, err := s.Dial(path)
		if err != nil {
			return err
		}
		if err := Follow(ctx, s, c, path, g, max(time.Until(until), 1)); err != nil {
			return err
		}
	}
	return nil
}

// Follow waits for one goal with progress on the error output.
func Follow(ctx context.Context, s *session.Session, c *client.Client, path string, goal progress.Goal, timeout time.Duration) error {
	read := func(ctx context.Context) (v2.Status, error) {
		s, _, err := fetch.Status(ctx, c, path, goal.View())
		return s, err
	}
	return progress.Wait(ctx, read, progress.Options{Goal: goal, Timeout: timeout, Name: path, Log: s.Sys.Err, Columns: s.BarColumns()})
}
