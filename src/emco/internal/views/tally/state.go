package tally

import (
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// State is the state of a pair, a cluster or a deployment. A smaller one is worse.
type State uint8

// The states, the worst first. None is that of an app that is not on a cluster.
const (
	None State = iota
	Failed
	NotReady
	Unknown
	Blocked
	Leaving
	Progressing
	Ready
	Idle
	states
)

var stateNames = [states]string{
	"", v2.ViewFailed, v2.ViewNotReady, v2.ViewUnknown, v2.ViewBlocked, v2.ViewLeaving, v2.ViewProgressing, v2.ViewReady, v2.ViewIdle,
}

// Letters are the states in cells, in the order of the states.
const Letters = "-fxubdprn"

// String returns the name of the state.
func (s State) String() string { return stateNames[s] }

// Names returns the names of the states, the worst first.
func Names() []string { return stateNames[1:] }

// ParseState returns the state of a name; false if there is none.
func ParseState(name string) (State, bool) {
	i := slices.Index(stateNames[1:], name)
	return State(i + 1), i >= 0
}

// Counts counts pairs or clusters by state.
type Counts [states]int

// Worst returns the worst state that is counted; Idle if nothing is.
func (c Counts) Worst() State {
	for s := Failed; s < Idle; s++ {
		if c[s] > 0 {
			return s
		}
	}
	return Idle
}

// Sum returns the number of all.
func (c Counts) Sum() (n int) {
	for _, i := range c[Failed:] {
		n += i
	}
	return n
}

func (c Counts) View() v2.ViewCounts {
	out := v2.ViewCounts{}
	for s := Failed; s < states; s++ {
		if c[s] > 0 {
			out[s.String()] = c[s]
		}
	}
	return out
}

// cell is the state of a pair, with the bit aging if the pair becomes unknown when its
// cluster is silent, and the bit edited if others have changed its files. The zero cell is an app
// that is not on the cluster.
type cell uint8

const (
	aging  cell = 1 << 7
	edited cell = 1 << 6
)

// edits counts the cell: 1 if others have changed its files, else 0.
func (c cell) edits() int { return int(c & edited / edited) }

// At returns the state of the cell on a cluster that is silent, or is not.
func (c cell) at(silent bool) State {
	s := State(c &^ (aging | edited))
	if silent && c&aging != 0 && (s == Ready || s == NotReady) {
		return Unknown
	}
	return s
}

// cellOf returns the cell of the records of a pair. Ready needs a report of this very
// content.
func cellOf(e *mirror.Entry) cell {
	if e == nil || e.State == nil {
		return cell(None)
	}
	out := stateCell(e)
	if edit := e.State.Common().Edit; edit != nil && edit.Undone == "" {
		out |= edited
	}
	return out
}

// stateCell is cellOf without edits. There are records of the pair.
func stateCell(e *mirror.Entry) cell {
	switch p := e.State.Common(); {
	case p.Phase == appcontext.Failed || p.Halted:
		return cell(Failed)
	case p.Desired == "":
		return cell(Leaving)
	case p.Blocked != "":
		return cell(Blocked)
	case p.Phase != appcontext.Applied || p.Applied != p.Desired:
		return cell(Progressing)
	case e.Report == nil:
		return cell(Unknown)
	}
	out := cell(NotReady)
	switch {
	case e.Report.Ready:
		out = cell(Ready)
	case lost(e.Report):
		out = cell(Unknown)
	}
	if e.Report.Seq > 0 { // of an agent; a watch of a direct cluster reports when it is lost
		out |= aging
	}
	return out
}

// lost reports whether the cluster cannot be reached, according to its report.
func lost(r *mirror.Report) bool {
	return len(r.Objects) > 0 && !slices.ContainsFunc(r.Objects, func(s mirror.Status) bool { return s.Value().Status != v2.Unknown })
}
