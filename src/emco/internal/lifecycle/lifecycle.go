// Package lifecycle is the table of what may be done with a deployment in which
// state, and what comes of it; and how a request to do so is carried out once.
// docs/lifecycle.md draws the table.
package lifecycle

import (
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

//go:generate go test -count=1 -run ^TestTheDocumentIsCurrent$ . -args -update

// Event is something that happens to a deployment because a user asks for it.
type Event uint8

// The events. Adopt is no request of its own: it is what a migration is to its target.
const (
	Approve Event = iota
	Instantiate
	Terminate
	Stop
	Update
	Rollback
	Migrate
	Adopt
)

var eventNames = [...]string{"approve", "instantiate", "terminate", "stop", "update", "rollback", "migrate", "adopt"}

// String returns the event's name, as it stands in URLs.
func (e Event) String() string { return eventNames[e] }

// Events lists all events.
func Events() []Event {
	return []Event{Approve, Instantiate, Terminate, Stop, Update, Rollback, Migrate, Adopt}
}

// Condition is what must hold besides the state for an event to be allowed. Whoever asks
// the table has to look.
type Condition uint8

// The conditions.
const (
	Always   Condition = iota
	UnderWay           // the deployment is Instantiating or Terminating
	Failed             // the deployment is InstantiateFailed
)

var conditionTexts = [...]string{"", "while it is under way", "if it failed"}

// String returns the condition in words; nothing for Always.
func (c Condition) String() string { return conditionTexts[c] }

// Step is what an event leads to.
type Step struct {
	To appcontext.State
	If Condition
}

// Table says what an event leads to in each state in which it is allowed.
type Table map[Event]map[appcontext.State]Step

// Groups is the table of deployment intent groups. It is EMCO's, but for these: what was
// stopped while it was terminated may be approved or terminated, since it may be
// instantiated; a rollback is bound to the states of an update; and what failed may be
// instantiated again.
func Groups() Table {
	return Table{
		Approve: {
			appcontext.Created:          {To: appcontext.Approved},
			appcontext.Approved:         {To: appcontext.Approved},
			appcontext.Updated:          {To: appcontext.Approved},
			appcontext.Terminated:       {To: appcontext.Approved},
			appcontext.TerminateStopped: {To: appcontext.Approved},
		},
		Instantiate: {
			appcontext.Approved:         {To: appcontext.Instantiated},
			appcontext.Instantiated:     {To: appcontext.Instantiated, If: Failed},
			appcontext.Terminated:       {To: appcontext.Instantiated},
			appcontext.TerminateStopped: {To: appcontext.Instantiated},
		},
		Terminate: {
			appcontext.Instantiated:       {To: appcontext.Terminated},
			appcontext.InstantiateStopped: {To: appcontext.Terminated},
			appcontext.TerminateStopped:   {To: appcontext.Terminated},
		},
		Stop: {
			appcontext.Instantiated: {To: appcontext.InstantiateStopped, If: UnderWay},
			appcontext.Terminated:   {To: appcontext.TerminateStopped, If: UnderWay},
		},
		Update:   fromLive(appcontext.Instantiated),
		Rollback: fromLive(appcontext.Instantiated),
		Migrate:  fromLive(appcontext.Updated),
		Adopt: {
			appcontext.Approved: {To: appcontext.Instantiated},
		},
	}
}

// fromLive is a row of the events that need something that runs, or was to run.
func fromLive(to appcontext.State) map[appcontext.State]Step {
	return map[appcontext.State]Step{
		appcontext.Instantiated:       {To: to},
		appcontext.InstantiateStopped: {To: to},
	}
}

// Clouds is the table of logical clouds, which need no approval. Those of level 0 are
// never under way, so they may be stopped whenever EMCO lets them be.
func Clouds() Table {
	return Table{
		Instantiate: {
			appcontext.Created:          {To: appcontext.Instantiated},
			appcontext.Terminated:       {To: appcontext.Instantiated},
			appcontext.TerminateStopped: {To: appcontext.Instantiated},
		},
		Terminate: fromLive(appcontext.Terminated),
		Stop: {
			appcontext.Instantiated: {To: appcontext.InstantiateStopped},
			appcontext.Terminated:   {To: appcontext.TerminateStopped},
		},
	}
}

// Next returns the state that the event leads to; Conflict, naming the states in which
// it is allowed, if it is not allowed in this one. See If for what must hold besides.
func (t Table) Next(s appcontext.State, e Event) (appcontext.State, error) {
	if step, ok := t[e][s]; ok {
		return step.To, nil
	}
	return s, errs.E(errs.Conflict, e.String(), "", fmt.Errorf("not allowed in state %s; it is in %s", s, t.allowed(e)))
}

// If returns what must hold besides the state.
func (t Table) If(s appcontext.State, e Event) Condition { return t[e][s].If }

// Refuse is the refusal of an event of which the condition does not hold.
func (t Table) Refuse(s appcontext.State, e Event) error {
	return errs.E(errs.Conflict, e.String(), "", fmt.Errorf("not allowed in state %s now; it is in %s", s, t.allowed(e)))
}

func (t Table) allowed(e Event) string {
	var names []string
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		if step, ok := t[e][s]; ok && step.If == Always {
			names = append(names, s.String())
		}
	}
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		if step, ok := t[e][s]; ok && step.If != Always {
			names = append(names, s.String()+" "+step.If.String())
		}
	}
	return strings.Join(names, ", ")
}
