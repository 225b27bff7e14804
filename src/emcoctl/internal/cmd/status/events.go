package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newEventsCommand returns the command that lists the events of a deployment.
func newEventsCommand(s *session.Session) *cobra.Command {
	l := &eventLog{Session: s}
	var fleet fleetEvents
	var since string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "events [GROUP]", Short: "Show the events of a deployment, or of all",
		Long: `Events lists the events of a deployment, oldest first: requests of users and their results.
With --follow it prints new events until it is interrupted or --timeout ends; with -o json
it then prints one event per line.

Without GROUP it lists the newest events of all deployments and logical clouds; --project,
--actor, --cluster and --app select some, and --type action what people did.`,
		Example:           "  emcoctl events shop/till/v1/autumn\n  emcoctl events shop/till/v1/autumn --since 10m --type Warning\n  emcoctl events shop/till/v1/autumn --follow\n  emcoctl events --type action --actor ann --since 24h",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) (err error) {
			if l.form, err = s.FormatOfOwnCommands(); err != nil {
				return err
			}
			if l.since, err = session.Moment("since", since, time.Now()); err != nil {
				return err
			}
			if len(args) == 0 {
				if l.follow {
					return session.Usagef("--follow is for the events of one GROUP")
				}
				return fleet.list(c.Context(), l)
			}
			if !fleet.empty() {
				return session.Usagef("--project, --actor, --cluster and --app are for the events of all deployments: give no GROUP")
			}
			if l.path, err = session.Deployment(args[0]); err != nil {
				return err
			}
			client, err := s.Dial(l.path)
			if err != nil {
				return err
			}
			ctx, cancel := fetch.Within(c.Context(), timeout)
			defer cancel()
			if l.follow {
				return l.stream(ctx, client)
			}
			return l.list(ctx, client)
		}),
	}
	f := c.Flags()
	f.BoolVar(&l.follow, "follow", false, "print new events")
	f.StringVar(&since, "since", "", "only events after this time, such as 2026-11-21T12:00:00Z, or of this duration, such as 10m")
	f.StringVar(&l.kind, "type", "", "only this type: Normal, Warning; without GROUP also action")
	f.StringSliceVar(&fleet.projects, "project", nil, "without GROUP: only of these projects")
	f.StringSliceVar(&fleet.actors, "actor", nil, "without GROUP: only what these users did")
	f.StringSliceVar(&fleet.clusters, "cluster", nil, "without GROUP: only of these clusters, PROVIDER/CLUSTER")
	f.StringSliceVar(&fleet.apps, "app", nil, "without GROUP: only of these apps")
	f.IntVar(&fleet.limit, "limit", defaultEvents, "without GROUP: number of events, at most 200")
	f.DurationVar(&timeout, "timeout", 0, "with --follow: duration; 0 is unlimited")
	f.IntVar(&l.lines, "lines", 0, "with --follow: stop after this number of lines; 0 is unlimited")
	complete.Flag(c, "type", complete.Fixed([]string{"Normal", "Warning", "action"}))
	complete.Flag(c, "project", complete.New(s).Projects())
	complete.Flag(c, "cluster", complete.New(s).Clusters())
	return c
}

// eventLog is one run of events.
type eventLog struct {
	*session.Session
	form   output.Format
	path   string
	kind   string
	follow bool
	since  time.Time
	lines  int // limit; 0 for none
	shown  int
	last   []string // last printed lines, so that a new stream repeats none
}

// remembered bounds last; the server keeps fewer events.
const remembered = 1000

// request returns the request for the events from since on.
func (l *eventLog) request() string {
	q := url.Values{}
	if !l.since.IsZero() {
		q.Set("since", l.since.UTC().Format(time.RFC3339Nano))
	}
	if l.kind != "" {
		q.Set("type", l.kind)
	}
	if l.follow {
		q.Set("follow", "true")
	}
	if len(q) == 0 {
		return l.path + "/events"
	}
	return l.path + "/events?" + q.Encode()
}

// list prints the present events.
func (l *eventLog) list(ctx context.Context, c *client.Client) error {
	return fetch.Show(ctx, c, l.request(), l.Sys.Out, l.form, func(w io.Writer, all v2.EventsAnswer) {
		if len(all.Events) == 0 {
			fmt.Fprintln(w, "none")
			return
		}
		showEvents(w, all.Events)
	})
}

// showEvents prints a line for each event.
func showEvents(w io.Writer, all []v2.Event) {
	t := output.NewTable(w)
	t.Row("TIME", "TYPE", "REASON", "WHERE", "ACTOR", "MESSAGE")
	for _, e := range all {
		t.Row(printable.Time(e.Time), e.Type, e.Reason, where(e), e.Actor, e.Message)
	}
	t.Flush()
}

// where returns the app and the cluster of an event.
func where(e v2.Event) string {
	return strings.Trim(e.App+" "+e.Cluster, " ")
}

// stream prints events as they arrive.
func (l *eventLog) stream(ctx context.Context, c *client.Client) error {
	err := fetch.Lines(ctx, l.Sys.Err, c, l.request, l.show)
	if errors.Is(err, fetch.ErrPlain) {
		return errs.E(errs.Invalid, "follow", l.path, err)
	}
	return err
}

// show prints one event, unless it was printed before the stream was interrupted.
func (l *eventLog) show(line []byte) error {
	var e v2.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return errs.E(errs.Malformed, "read", "event", err)
	}
	if slices.Contains(l.last, string(line)) {
		return nil
	}
	l.last = append(l.last[max(0, len(l.last)-remembered+1):], string(line))
	if e.Time.After(l.since) {
		l.since = e.Time
	}
	switch l.form {
	case output.JSON:
		fmt.Fprintf(l.Sys.Out, "%s\n", bytes.TrimSpace(line))
		return fetch.CountLine(&l.shown, l.lines)
	case output.Human:
	case output.YAML:
		fmt.Fprintln(l.Sys.Out, "---")
		return errors.Join(output.Encode(l.Sys.Out, output.YAML, line), fetch.CountLine(&l.shown, l.lines))
	}
	if l.form != output.Human {
		return errors.Join(output.Encode(l.Sys.Out, l.form, line), fetch.CountLine(&l.shown, l.lines))
	}
	text := e.Message
	if at := where(e); at != "" {
		text = at + ": " + text
	}
	if e.Actor != "" {
		text += " (" + e.Actor + ")"
	}
	fmt.Fprintf(l.Sys.Out, "%s  %s  %s  %s\n", printable.Time(e.Time), printable.Line(e.Type), printable.Line(e.Reason), printable.Line(text))
	return fetch.CountLine(&l.shown, l.lines)
}
