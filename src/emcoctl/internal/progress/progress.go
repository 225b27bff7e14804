// Package progress follows deployments and logical clouds: it waits until they reach a goal
// or fail, and reports what blocks them. It also makes the tree of a status, and the texts of its conditions
// and failures.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Goal is a state to wait for.
type Goal string

// The goals.
const (
	Ready        Goal = "ready"        // instantiated, and every object is ready on its cluster
	Instantiated Goal = "instantiated" // the server reports it: everything is delivered
	Applied      Goal = "applied"      // instantiated, and no object is pending, failed or retrying
	Terminated   Goal = "terminated"   // nothing is left, or the deployment does not exist
	Deployed     Goal = "deployed"     // the same as instantiated
)

// condition begins the goals that are conditions: condition=Healthy, or with a status,
// condition=Stalled=False.
const condition = "condition="

// Goals lists the goals for usage texts.
var Goals = []string{string(Ready), string(Instantiated), string(Terminated), string(Applied), string(Deployed), condition + "TYPE"}

// ParseGoal reads a goal; Invalid if it is unknown.
func ParseGoal(text string) (Goal, error) {
	if _, _, ok := Goal(text).condition(); ok {
		return Goal(text), nil
	}
	if !slices.Contains(Goals[:len(Goals)-1], text) {
		return "", errs.New(errs.Invalid, fmt.Sprintf("there is no goal %q; there are %s", text, strings.Join(Goals, ", ")))
	}
	return Goal(text), nil
}

// condition splits a goal that is a condition into its type and its desired status.
func (g Goal) condition() (kind, status string, ok bool) {
	rest, ok := strings.CutPrefix(string(g), condition)
	kind, status, given := strings.Cut(rest, "=")
	if !given {
		status = v2.True
	}
	return kind, status, ok && kind != ""
}

// View returns the query of the status for the goal.
func (g Goal) View() string {
	if _, _, ok := g.condition(); ok || g == Ready {
		return "status=ready&output=all"
	}
	return "status=deployed&output=all"
}

// Source reads the status once.
type Source func(ctx context.Context) (v2.Status, error)

// Options configure Wait.
type Options struct {
	Goal    Goal
	Timeout time.Duration // 0: until the context ends
	Name    string        // of the deployment, for texts
	Log     io.Writer     // gets a line for each change
	Columns int           // if Log is a terminal, its width: it gets a bar instead
}

// The interval between polls grows from the first to the second.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// firstLook is the shortest time for the first poll, so that a short timeout, or none, still
// shows the present status.
const firstLook = 5 * time.Second

// Wait polls until the goal is reached, at least once. The error is a *FailedError if the
// deployment failed, a *TimeoutError after the timeout, else that of the source; Wait
// retries while the server is unreachable.
func Wait(ctx context.Context, read Source, o Options) error {
	w := waitState{o: o}
	if o.Columns > 0 {
		w.bar = newBar(o)
		defer w.bar.end()
	}
	first, cancel := context.WithTimeout(ctx, max(o.Timeout, firstLook))
	defer cancel()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	} else {
		first = ctx
	}
	if done, err := w.look(first, read); done || err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return w.end(ctx)
		}
		if done, err := w.look(ctx, read); done || err != nil {
			return err
		}
	}
}

// waitState is the state of one Wait.
type waitState struct {
	o    Options
	last string    // the last printed line
	seen v2.Status // the last status
	away error     // why the last poll failed
	bar  *bar      // nil for lines
}

// look polls once and decides.
func (w *waitState) look(ctx context.Context, read Source) (done bool, err error) {
	s, err := read(ctx)
	switch {
	case errs.Is(err, errs.NotFound) && w.o.Goal == Terminated:
		w.printLine("gone")
		return true, nil
	case ctx.Err() != nil:
		return false, w.end(ctx)
	case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled):
		w.away = err
		w.printLine(err.Error())
		return false, nil
	case err != nil:
		return false, err
	}
	w.seen, w.away = s, nil
	if w.bar != nil {
		w.bar.draw(s, time.Now())
	} else {
		w.printLine(Summary(s))
	}
	if kind, _, ok := w.o.Goal.condition(); ok {
		if err := checkCondition(s, kind); err != nil {
			return false, err
		}
		if reached(s, w.o.Goal) {
			return true, nil // the goal may be a failure
		}
	}
	if failed(s) {
		return false, &FailedError{Name: w.o.Name, State: s.DeployedStatus, Reasons: Reasons(s)}
	}
	return reached(s, w.o.Goal), nil
}

// Conditions lists the types of conditions. A deployment does not have all of them at all times.
var Conditions = []string{v2.Placed, v2.Rendered, v2.Committed, v2.Synced, v2.Healthy, v2.Stalled}

// checkCondition refuses a type of conditions that neither this program knows nor the server reports.
func checkCondition(s v2.Status, kind string) error {
	reported := slices.ContainsFunc(s.Conditions, func(c v2.Condition) bool { return c.Type == kind })
	if reported || slices.Contains(Conditions, kind) {
		return nil
	}
	return errs.New(errs.Invalid, fmt.Sprintf("--for: there is no condition %q; there are %s", kind, strings.Join(Conditions, ", ")))
}

// end returns the error of an ended context.
func (w *waitState) end(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	held := Holding(w.seen, w.o.Goal)
	if w.away != nil {
		held = []string{w.away.Error()}
	}
	return &TimeoutError{Name: w.o.Name, Goal: w.o.Goal, Held: held, away: w.away}
}

// printLine prints a line if it differs from the last one.
func (w *waitState) printLine(line string) {
	if line == w.last {
		return
	}
	w.last = line
	if w.bar != nil {
		w.bar.print(printable.Line(line))
		return
	}
	fmt.Fprintf(w.o.Log, "%s: %s\n", w.o.Name, printable.Line(line))
}

// failed reports whether the last operation failed.
func failed(s v2.Status) bool {
	return s.DeployedStatus == v2.StatusInstantiateFailed || s.DeployedStatus == v2.StatusTerminateFailed
}

// reached reports whether the goal is reached. An unknown status, as of a cluster that does
// not report, is not ready.
func reached(s v2.Status, g Goal) bool {
	if kind, status, ok := g.condition(); ok {
		return slices.ContainsFunc(s.Conditions, func(c v2.Condition) bool { return c.Type == kind && strings.EqualFold(c.Status, status) })
	}
	switch g {
	case Terminated:
		return s.DeployedStatus == v2.StatusTerminated || s.DeployedStatus == "" && never(s)
	case Instantiated, Deployed:
		return s.DeployedStatus == v2.StatusInstantiated
	case Applied:
		return s.DeployedStatus == v2.StatusInstantiated && len(Holding(s, g)) == 0
	}
	return s.DeployedStatus == v2.StatusInstantiated && s.ReadyStatus == v2.Ready
}

// never reports whether nothing was ever instantiated.
func never(s v2.Status) bool {
	return !slices.ContainsFunc(s.States.Actions, func(a v2.Action) bool { return a.Instance != "" })
}

// FailedError is the error of a failed deployment.
type FailedError struct {
	Name    string
	State   string
	Reasons []string
}

// Error lists the reasons.
func (f *FailedError) Error() string {
	return strings.Join(append([]string{f.Name + " is " + f.State}, f.Reasons...), "\n  ")
}

// TimeoutError is the error of a goal that was not reached in time.
type TimeoutError struct {
	Name string
	Goal Goal
	Held []string // what blocks it
	away error    // why the last poll failed
}

// Unwrap returns why the server could not be asked at the end; nil if it could.
func (l *TimeoutError) Unwrap() error { return l.away }

// Error lists what blocks it.
func (l *TimeoutError) Error() string {
	return strings.Join(append([]string{fmt.Sprintf("%s is not %s in time", l.Name, l.Goal)}, l.Held...), "\n  ")
}
