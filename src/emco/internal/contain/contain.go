// Package contain keeps a panic within the item that caused it: one target, one deployment, one
// report. The item fails with a reason, and the process goes on with the others.
package contain

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Parts of the program that contain panics. The values are labels of a metric.
const (
	Git          = "git"
	Orchestrator = "orchestrator"
	Reports      = "reports"
	Rsync        = "rsync"
	Workflows    = "workflows"
)

// Parts returns all parts.
func Parts() []string { return []string{Git, Orchestrator, Reports, Rsync, Workflows} }

// Panics logs and counts panics. A nil Panics contains them without a word.
type Panics struct {
	Log   *slog.Logger
	Count func(part string)
}

// Error is the error of an item that caused a panic. Its text is for users: the log has the
// stack.
type Error struct{ item string }

// Error returns the text.
func (e *Error) Error() string {
	return fmt.Sprintf("a fault in EMCO stopped the work on %s; the log of emco has the details; EMCO tries again when it changes", e.item)
}

// Panicked marks the error; the Git writer's has the same method.
func (e *Error) Panicked() {}

// Is reports whether an item failed because of a panic: the same item fails again unless it
// changes.
func Is(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Panicked()
	}](err)
	return ok
}

// Do calls f, and turns a panic into an Error about the item.
func (p *Panics) Do(part, item string, f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err = &Error{item}
		if p != nil {
			p.Log.Error("recovered from a panic: only this item failed", "part", part, "item", item, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			p.Count(part)
		}
	}()
	return f()
}
