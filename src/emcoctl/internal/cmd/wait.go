package cmd

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
)

// goalOf returns the goal of an accepted action.
var goalOf = map[string]progress.Goal{
	"instantiate": progress.Instantiated,
	"update":      progress.Instantiated,
	"rollback":    progress.Instantiated,
	"migrate":     progress.Instantiated,
	"terminate":   progress.Terminated,
}

// followable reports whether path is a deployment intent group or a logical cloud.
func followable(path string) bool {
	c := anchor.Collection(path)
	return !anchor.IsCollection(path) && (c == kind.Groups || c == kind.Clouds)
}

// newWaitCommand returns the command that ends when a deployment has reached its goal.
func newWaitCommand(s *session) *cobra.Command {
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
		ValidArgsFunction: completer{s}.group,
		RunE: s.run(func(c *cobra.Command, args []string) error {
			if goal != "" {
				if _, err := progress.ParseGoal(goal); err != nil {
					return usagef("--for: %w", err)
				}
			}
			paths, err := targets(s, args)
			if err != nil {
				return err
			}
			return waitAll(c.Context(), s, paths, progress.Goal(goal), time.Now().Add(timeout))
		}),
	}
	c.Flags().StringVar(&goal, "for", "", "what to wait for: "+strings.Join(progress.Goals, ", "))
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "longest wait")
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(waitFor, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

// waitFor lists the completions of --for.
var waitFor = []string{
	"ready", "deployed", "terminated", "applied",
	"condition=Placed", "condition=Rendered", "condition=Committed", "condition=Synced", "condition=Healthy",
}

// waitAll waits for one after the other, with one timeout for all.
func waitAll(ctx context.Context, s *session, paths []string, goal progress.Goal, until time.Time) error {
	for _, path := range paths {
		g := goal
		if g == "" {
			g = progress.Ready
			if anchor.Collection(path) == kind.Clouds {
				g = progress.Instantiated
			}
		}
		c, err := s.dial(path)
		if err != nil {
			return err
		}
		if err := follow(ctx, s, c, path, g, max(time.Until(until), 1)); err != nil {
			return err
		}
	}
	return nil
}

// follow waits for one goal with progress on the error output.
func follow(ctx context.Context, s *session, c *client.Client, path string, goal progress.Goal, timeout time.Duration) error {
	read := func(ctx context.Context) (v2.Status, error) {
		s, _, err := readStatus(ctx, c, path, goal.View())
		return s, err
	}
	return progress.Wait(ctx, read, progress.Options{Goal: goal, Timeout: timeout, Name: path, Log: s.sys.Err, Columns: s.barColumns()})
}

// readStatus returns a status, decoded and as the server sent it.
func readStatus(ctx context.Context, c *client.Client, path, query string) (v2.Status, json.RawMessage, error) {
	var s v2.Status
	text, err := read(ctx, c, path+"/status?"+query, &s)
	return s, text, err
}

// read reads a document into out, and returns it as the server sent it.
func read(ctx context.Context, c *client.Client, path string, out any) (json.RawMessage, error) {
	res, err := c.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: "application/json"})
	if err == nil {
		err = res.Err(http.MethodGet, path)
	}
	if err == nil {
		err = res.Decode(out)
	}
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// deployment returns the path of the deployment intent group or logical cloud of an
// argument.
func deployment(word string) (string, error) {
	if meant, ok := kind.Suggest(word); ok && followable(meant) {
		return "", usagef("%s: there is no such collection; did you mean %q?", word, meant)
	}
	if key, ok := v2.ClusterOf(strings.Trim(word, "/")); ok {
		return "", usagef("%s is a cluster and no deployment; see: emcoctl describe cluster %s/%s", word, key.Provider(), key.Cluster())
	}
	path := strings.TrimSuffix(anchor.Expand(word), "/status")
	if parent := anchor.Parent(path); anchor.IsAction(path) && followable(parent) {
		path = parent
	}
	if !followable(path) {
		next := "list deployments with: emcoctl get deployments"
		if parts := strings.Split(word, "/"); len(parts) == 2 && !slices.Contains(kind.Below(""), parts[0]) {
			next = "for a cluster: emcoctl describe cluster " + word
		}
		return "", usagef("%q is no deployment; write PROJECT/COMPOSITEAPP/VERSION/GROUP, or projects/PROJECT/%s/NAME for a logical cloud\n  %s", word, kind.Clouds, next)
	}
	return path, nil
}

// targets lists what to follow: the anchor, or the deployments of the documents of -f.
func targets(s *session, args []string) ([]string, error) {
	path, err := s.subject(args)
	if err != nil {
		return nil, err
	}
	if path != "" {
		path, err := deployment(path)
		return []string{path}, err
	}
	docs, err := s.load()
	if err != nil {
		return nil, err
	}
	paths, err := followed(docs)
	if err == nil && len(paths) == 0 {
		err = usagef("no document belongs to a deployment intent group or a logical cloud")
	}
	return paths, err
}

// followed lists the groups and clouds that documents describe or act on, each once.
func followed(docs []document.Document) ([]string, error) {
	var paths []string
	for _, doc := range docs {
		path := anchor.Parent(doc.Anchor)
		if !anchor.IsAction(doc.Anchor) {
			item, err := anchor.Item(doc.Anchor, doc.Names)
			if err != nil {
				return nil, err
			}
			path = item
		}
		if followable(path) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
