package clusters

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// moveLook is the interval of polls of a move.
const moveLook = 500 * time.Millisecond

// moveCommand holds the flags of a move.
type moveCommand struct {
	request      v2.ClusterMoveRequest
	status, wait bool
	timeout      time.Duration
}

// newMoveCommand returns the command that moves a cluster to another location in Git.
func newMoveCommand(s *session.Session) *cobra.Command {
	var m moveCommand
	c := &cobra.Command{
		Use: "move CLUSTER", Short: "Move a cluster with its deployments to another branch or type",
		Long: `Move moves a cluster, PROVIDER/CLUSTER, to another shard of its repository (--to, or one
with room), or to another type (--type). Its deployments move with it: the server writes
them to the new location, and then removes them from the old one. A cluster that reads its
own branch does not notice. For others the old location stays until --finish, which states
that the reconciler reads the new branch. If you finish a move before that, the reconciler
may remove everything that it has applied.

--abort takes the cluster back: the next move leads to the old location, and ends as any move
does. It is too late once the old location is being cleared.

--status shows the progress of the last move. --wait waits until it is done, with progress
on the error output and exit code 6 after --timeout.`,
		Example:           "  emcoctl move edge/store-7 --to s004 --wait\n  emcoctl move edge/store-7 --finish\n  emcoctl move edge/store-7 --abort\n  emcoctl move edge/store-7 --type argocd\n  emcoctl move edge/store-7 --status",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Cluster,
		RunE:              s.Run(func(c *cobra.Command, args []string) error { return runMove(c.Context(), s, m, args[0]) }),
	}
	f := c.Flags()
	f.StringVar(&m.request.Shard, "to", "", "shard to move to, such as s004")
	f.StringVar(&m.request.RefMode, "ref-mode", "", "how the cluster reads: shard, or cluster for its own branch")
	f.StringVar(&m.request.Type, "type", "", "new type, such as argocd; the location stays without --to and --ref-mode")
	f.BoolVar(&m.request.Finish, "finish", false, "remove it from its old location: its reconciler reads the new one")
	f.BoolVar(&m.request.Abort, "abort", false, "take it back to its old location; possible until that is being cleared")
	f.BoolVar(&m.status, "status", false, "only show the progress of the last move")
	f.BoolVar(&m.wait, "wait", false, "wait until it is done")
	f.DurationVar(&m.timeout, "timeout", 5*time.Minute, "how long to wait")
	complete.Flag(c, "ref-mode", complete.Fixed([]string{"shard", "cluster"}))
	complete.Flag(c, "type", complete.Fixed(v2.BranchTypes()))
	return c
}

// check refuses requests that contradict themselves.
func (m moveCommand) check() error {
	if r := m.request; r.Abort && r != (v2.ClusterMoveRequest{Abort: true}) {
		return session.Usagef("--abort stands alone: the cluster goes back to its old location")
	}
	if m.status && m.request != (v2.ClusterMoveRequest{}) {
		return session.Usagef("--status only shows the progress; leave out the flags of a move")
	}
	return nil
}

func runMove(ctx context.Context, s *session.Session, m moveCommand, word string) error {
	if err := m.check(); err != nil {
		return err
	}
	path, err := session.ClusterPath(word)
	if err != nil {
		return err
	}
	form, c, err := s.Open(path)
	if err != nil {
		return err
	}
	if m.status {
		return reportMove(ctx, s, form, c, path, m)
	}
	along, err := askMove(ctx, c, path, m.request)
	switch {
	case err != nil:
		return err
	case along:
		return reportMove(ctx, s, form, c, path, m)
	}
	return showLocation(ctx, s, form, c, path)
}

// askMove requests a move. It reports whether deployments move with the cluster.
func askMove(ctx context.Context, c *client.Client, path string, request v2.ClusterMoveRequest) (along bool, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	res, err := c.Ask(ctx, client.Request{Method: http.MethodPost, Path: path + "/move", Accept: client.JSONType, Body: client.JSON(text)})
	return err == nil && res.Status == http.StatusAccepted, err
}

// showLocation prints the location of a cluster that moved at once.
func showLocation(ctx context.Context, s *session.Session, form output.Format, c *client.Client, path string) error {
	var cluster v2.Cluster
	text, err := fetch.Document(ctx, c, path, &cluster)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	fmt.Fprintf(s.Sys.Out, "%s is at %s\n", path, placeOf(cluster.Spec.GitOps.Location()))
	return nil
}

// reportMove prints the progress of a move, with --wait when it is done.
func reportMove(ctx context.Context, s *session.Session, form output.Format, c *client.Client, path string, m moveCommand) error {
	move, text, err := awaitMove(ctx, s, c, path, m)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	showMove(s.Sys.Out, path, move)
	return nil
}

// awaitMove reads the progress of a move, with --wait until it is done.
func awaitMove(ctx context.Context, s *session.Session, c *client.Client, path string, m moveCommand) (move v2.ClusterMove, text json.RawMessage, err error) {
	until, said := time.Now().Add(m.timeout), ""
	for {
		move = v2.ClusterMove{}
		if text, err = fetch.Document(ctx, c, path+"/move", &move); err != nil || move.Done || !m.wait {
			return move, text, err
		}
		if now := stageOf(move); now != said {
			fmt.Fprintf(s.Sys.Err, "%s: %s\n", path, now)
			said = now
		}
		if time.Now().After(until) {
			return move, text, &progress.TimeoutError{Name: path, Goal: "moved", Held: []string{said}}
		}
		if err := fetch.Pause(ctx, moveLook); err != nil {
			return move, text, err
		}
	}
}

// stageOf returns the progress of a move in one line.
func stageOf(m v2.ClusterMove) string {
	for _, c := range m.Conditions {
		if c.Status != "True" {
			return strings.TrimSuffix("not "+c.Type+": "+cmp.Or(c.Message, c.Reason), ": ")
		}
	}
	return "done"
}

func showMove(w io.Writer, path string, m v2.ClusterMove) {
	verb := "moves"
	if m.Done {
		verb = "has moved"
	}
	fmt.Fprintf(w, "%s %s from %s to %s\n\n", path, verb, placeOf(m.From), placeOf(m.To))
	t := output.NewTable(w)
	t.Row("CONDITION", "STATUS", "COMMIT", "MESSAGE")
	commit := map[string]string{"Written": m.Written, "Cleared": m.Cleared}
	for _, c := range m.Conditions {
		id := commit[c.Type]
		t.Row(c.Type, c.Status, id[:min(len(id), 12)], cmp.Or(c.Message, c.Reason))
	}
	t.Flush()
}

// placeOf returns a location in Git in words.
func placeOf(p v2.GitOpsLocation) string {
	out := p.Type
	if p.Shard != "" {
		out += ", shard " + p.Shard
	}
	if p.RefMode == "cluster" {
		out += ", with its own branch"
	}
	return out
}
