package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newWatchCommand returns the command that follows a status.
func newWatchCommand(s *session.Session) *cobra.Command {
	w := &watcher{Session: s}
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch GROUP [NAME=VALUE...]", Short: "Follow the status of a deployment, a line for each change",
		Long: `Watch prints a line for each change of a deployment's status, until it is interrupted or
--timeout ends; with -o json the whole status, one per line.

Filters are those of upstream's client: status=ready (the default) or status=deployed,
format=summary or format=all (the default), and app=A, cluster=PROVIDER+C, resource=R,
each repeatable. Unlike upstream's client, watch uses the REST address. It follows a stream if
the server has one; otherwise it polls every few seconds.`,
		Example:           "  emcoctl watch shop/till/v1/autumn\n  emcoctl watch shop/till/v1/autumn status=deployed app=web -o json",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) (err error) {
			if w.form, err = s.FormatOfOwnCommands(); err != nil {
				return err
			}
			if w.form != output.Human && w.form != output.JSON {
				return session.Usagef("watch prints lines, or JSON with -o json")
			}
			if w.query, err = watchQuery(args[1:]); err != nil {
				return err
			}
			if w.path, err = session.Deployment(args[0]); err != nil {
				return err
			}
			server, err := s.Dial(w.path)
			if err != nil {
				return err
			}
			ctx, cancel := fetch.Within(c.Context(), timeout)
			defer cancel()
			return w.run(ctx, server)
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to follow; 0 is unlimited")
	c.Flags().IntVar(&w.lines, "lines", 0, "stop after this number of lines; 0 is unlimited")
	return c
}

// watchQuery translates the parameters of upstream's client.
func watchQuery(args []string) (url.Values, error) {
	q := url.Values{"status": {"ready"}, "output": {"all"}}
	names := map[string]string{"status": "status", "format": "output", "app": "app", "cluster": "cluster", "resource": "resource"}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch param := names[name]; {
		case !ok || param == "" || value == "":
			return nil, session.Usagef("watch: %q is none of status=, format=, app=, cluster=, resource= with a value", arg)
		case param == "status" || param == "output":
			q.Set(param, value)
		default:
			q.Add(param, value)
		}
	}
	return q, nil
}

// watcher is one run of watch.
type watcher struct {
	*session.Session
	form  output.Format
	path  string
	query url.Values
	last  string // the last printed line
	lines int    // limit; 0 for none
	shown int
}

// run follows the server's stream, or polls if it has none.
func (w *watcher) run(ctx context.Context, c *client.Client) error {
	streamed := func() string { return w.path + "/status?" + w.query.Encode() + "&watch=true" }
	err := fetch.Lines(ctx, w.Sys.Err, c, streamed, w.show)
	if !errors.Is(err, fetch.ErrPlain) {
		return err
	}
	for first := true; first || fetch.Pause(ctx, fetch.Interval) == nil; first = false {
		_, text, err := fetch.Status(ctx, c, w.path, w.query.Encode())
		switch {
		case ctx.Err() != nil:
			return nil
		case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled):
			err = w.line(printable.Line(err.Error()))
		case err == nil:
			err = w.show(text)
		}
		if errors.Is(err, fetch.ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// show prints one status, unless it equals the last one.
func (w *watcher) show(line []byte) error {
	var s v2.Status
	if err := json.Unmarshal(line, &s); err != nil {
		return errs.E(errs.Malformed, "read", "status", err)
	}
	if w.form == output.JSON {
		var one bytes.Buffer
		if err := json.Compact(&one, line); err != nil {
			return err
		}
		return w.line(one.String())
	}
	text := progress.Summary(s)
	if n := len(s.States.Actions); n > 0 && s.States.Actions[n-1].Revision > 0 {
		text = fmt.Sprintf("revision %d %s", s.States.Actions[n-1].Revision, text)
	}
	if s.ReadyStatus != "" {
		text += "; " + s.ReadyStatus
	}
	return w.line(printable.Line(text))
}

// line prints a text that differs from the last one, with the time if it is for people.
func (w *watcher) line(text string) error {
	if text == w.last {
		return nil
	}
	w.last = text
	if w.form == output.Human {
		text = printable.Time(time.Now()) + "  " + text
	}
	fmt.Fprintln(w.Sys.Out, text)
	return fetch.CountLine(&w.shown, w.lines)
}
