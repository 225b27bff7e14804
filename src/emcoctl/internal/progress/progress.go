// Package progress follows deployments and logical clouds: it waits until they
// reach a goal or fail, and says what holds them back.
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
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/plain"
)

// Goal is what to wait for.
type Goal string

// The goals.
const (
	Ready        Goal = "ready"        // instantiated, and every object is ready on its cluster
	Instantiated Goal = "instantiated" // the server says so: all is delivered
	Applied      Goal = "applied"      // instantiated, and no object is pending, failed or retrying
	Terminated   Goal = "terminated"   // nothing is left, or it is not there at all
	Deployed     Goal = "deployed"     // the same as instantiated
)

// condition begins the goals that are conditions: condition=Healthy, or with a status,
// condition=Stalled=False.
const condition = "condition="

// Goals lists them for usage texts.
var Goals = []string{string(Ready), string(Instantiated), string(Terminated), string(Applied), string(Deployed), condition + "TYPE"}

// ParseGoal reads a goal; Invalid if there is no such one.
func ParseGoal(text string) (Goal, error) {
	if _, _, ok := Goal(text).condition(); ok {
		return Goal(text), nil
	}
	if !slices.Contains(Goals[:len(Goals)-1], text) {
		return "", errs.New(errs.Invalid, fmt.Sprintf("there is no goal %q; there are %s", text, strings.Join(Goals, ", ")))
	}
	return Goal(text), nil
}

// condition splits a goal that is one: its type, and the status that it shall have.
func (g Goal) condition() (kind, status string, ok bool) {
	rest, ok := strings.CutPrefix(string(g), condition)
	kind, status, given := strings.Cut(rest, "=")
	if !given {
		status = v2.True
	}
	return kind, status, ok && kind != ""
}

// View returns the query of the status that shows whether the goal is reached.
func (g Goal) View() string {
	if _, _, ok := g.condition(); ok || g == Ready {
		return "status=ready&output=all"
	}
	return "status=deployed&output=all"
}

// Source reads the status once.
type Source func(ctx context.Context) (v2.Status, error)

// Options say how to wait.
type Options struct {
	Goal    Goal
	Timeout time.Duration // 0: as long as the context lives
	Name    string        // what is waited for, for texts
	Log     io.Writer     // gets a line whenever something has changed
}

// The time between two looks at the status grows from the first to the second.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// firstLook is the least time for the first look at the status, so that whoever waits for
// a short time, or for none, learns where things stand.
const firstLook = 5 * time.Second

// Wait polls until the goal is reached. The error is a *Failed if the deployment
// failed, a *Late after the timeout, else that of the source; a server that is away
// for a while is waited for, too. There is one look at least.
func Wait(ctx context.Context, read Source, o Options) error {
	w := waiter{o: o}
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

// waiter is the state of one Wait.
type waiter struct {
	o    Options
	last string    // the line printed last
	seen v2.Status // the status read last
	away error     // why the status could not be read last
}

// look reads the status once and decides.
func (w *waiter) look(ctx context.Context, read Source) (done bool, err error) {
	s, err := read(ctx)
	switch {
	case errs.Is(err, errs.NotFound) && w.o.Goal == Terminated:
		w.say("gone")
		return true, nil
	case ctx.Err() != nil:
		return false, w.end(ctx)
	case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled):
		w.away = err
		w.say(err.Error())
		return false, nil
	case err != nil:
		return false, err
	}
	w.seen, w.away = s, nil
	w.say(Summary(s))
	if _, _, ok := w.o.Goal.condition(); ok && reached(s, w.o.Goal) {
		return true, nil // what is asked for may be that it has failed
	}
	if failed(s) {
		return false, &FailedError{Name: w.o.Name, State: s.DeployedStatus, Reasons: Reasons(s)}
	}
	return reached(s, w.o.Goal), nil
}

// end explains an ended context.
func (w *waiter) end(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	held := Holding(w.seen, w.o.Goal)
	if w.away != nil {
		held = []string{w.away.Error()}
	}
	return &TimeoutError{Name: w.o.Name, Goal: w.o.Goal, Held: held}
}

// say prints a line if it is another than before.
func (w *waiter) say(line string) {
	if line == w.last {
		return
	}
	w.last = line
	fmt.Fprintf(w.o.Log, "%s: %s\n", w.o.Name, plain.Line(line))
}

// failed reports whether the server calls the last operation failed.
func failed(s v2.Status) bool {
	return s.DeployedStatus == v2.StatusInstantiateFailed || s.DeployedStatus == v2.StatusTerminateFailed
}

// reached reports whether the goal is there. What the server does not know, such as
// the readiness on a cluster that does not report, is not ready.
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

// FailedError says that the last operation failed.
type FailedError struct {
	Name    string
	State   string
	Reasons []string
}

// Error lists the reasons.
func (f *FailedError) Error() string {
	return strings.Join(append([]string{f.Name + " is " + f.State}, f.Reasons...), "\n  ")
}

// TimeoutError says that the goal was not reached in time.
type TimeoutError struct {
	Name string
	Goal Goal
	Held []string // what holds it back
}

// Error lists what holds it back.
func (l *TimeoutError) Error() string {
	return strings.Join(append([]string{fmt.Sprintf("%s is not %s in time", l.Name, l.Goal)}, l.Held...), "\n  ")
}
