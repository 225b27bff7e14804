// Package lifecycle holds the state table of deployments: which actions each state allows
// and which state they lead to. It also executes each request exactly once.
// docs/lifecycle.md draws the table.
package lifecycle

import (
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

//go:generate go test -count=1 -run ^TestTheDocumentIsCurrent$ . -args -update

// Action is what a user requests for a deployment.
type Action uint8

// The actions. No request causes Adopt: a migration applies it to its target.
const (
	Approve Action = iota
	Instantiate
	Terminate
	Stop
	Update
	Rollback
	Migrate
	Adopt
	Apply // of the networks of a cluster
	Promote
)

var actionNames = [...]string{"approve", "instantiate", "terminate", "stop", "update", "rollback", "migrate", "adopt", "apply", "promote"}

// String returns the action's name as used in URLs.
func (a Action) String() string { return actionNames[a] }

// Actions lists all actions.
func Actions() []Action {
	return []Action{Approve, Instantiate, Terminate, Stop, Update, Rollback, Migrate, Adopt, Apply, Promote}
}

// Condition is what must hold in addition to the state before an action is allowed. The
// table only names it; the caller checks it.
type Condition uint8

// The conditions.
const (
	Always   Condition = iota
	UnderWay           // the deployment's status is Instantiating or Terminating
	Failed             // the deployment's status is InstantiateFailed or TerminateFailed
)

var conditionTexts = [...]string{"", "while it is under way", "if it failed"}

// String returns the condition in words, empty for Always.
func (c Condition) String() string { return conditionTexts[c] }

// Transition is the transition that an action causes.
type Transition struct {
	To appcontext.State
	If Condition
}

// Table maps each action to the states that allow it, and to the transition from each.
type Table map[Action]map[appcontext.State]Transition

// GroupTable returns the table of deployment intent groups. It differs from upstream's in four
// points: a group whose termination was stopped may be approved or terminated, because it
// may also be instantiated; a rollback needs the same states as an update; a group that
// failed may be instantiated again; and one whose termination failed may be terminated
// again.
func GroupTable() Table {
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
			appcontext.Terminated:         {To: appcontext.Terminated, If: Failed},
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
		Promote: {
			appcontext.Instantiated: {To: appcontext.Instantiated},
		},
	}
}

// fromLive returns the row of an action that needs an instantiated deployment.
func fromLive(to appcontext.State) map[appcontext.State]Transition {
	return map[appcontext.State]Transition{
		appcontext.Instantiated:       {To: to},
		appcontext.InstantiateStopped: {To: to},
	}
}

// CloudTable returns the table of logical clouds, which need no approval. Clouds of level 0
// change at once, so Stop has no condition.
func CloudTable() Table {
	return Table{
		Instantiate: {
			appcontext.Created:          {To: appcontext.Instantiated},
			appcontext.Terminated:       {To: appcontext.Instantiated},
			appcontext.TerminateStopped: {To: appcontext.Instantiated},
		},
		Terminate: fromLive(appcontext.Terminated),
		Update: {
			appcontext.Instantiated: {To: appcontext.Instantiated},
		},
		Stop: {
			appcontext.Instantiated: {To: appcontext.InstantiateStopped},
			appcontext.Terminated:   {To: appcontext.TerminateStopped},
		},
	}
}

// NetworkTable returns the table of the networks of clusters. Networks that are applied may be applied again: nothing
// changes, unless it failed.
func NetworkTable() Table {
	return Table{
		Apply: {
			appcontext.Created:          {To: appcontext.NetworksApplied},
			appcontext.NetworksApplied:  {To: appcontext.NetworksApplied},
			appcontext.Terminated:       {To: appcontext.NetworksApplied},
			appcontext.TerminateStopped: {To: appcontext.NetworksApplied},
		},
		Terminate: {
			appcontext.NetworksApplied:    {To: appcontext.Terminated},
			appcontext.InstantiateStopped: {To: appcontext.Terminated},
		},
		Stop: {
			appcontext.NetworksApplied: {To: appcontext.InstantiateStopped},
			appcontext.Terminated:      {To: appcontext.TerminateStopped},
		},
	}
}

// Next returns the state that the action leads to. If the state does not allow the action,
// the error is Conflict and names the states that do. See If for the extra condition.
func (t Table) Next(s appcontext.State, a Action) (appcontext.State, error) {
	if transition, ok := t[a][s]; ok {
		return transition.To, nil
	}
	return s, errs.E(errs.Conflict, a.String(), "", fmt.Errorf("not allowed in state %s; allowed in %s", s, t.allowed(a)))
}

// If returns the condition that must hold in addition to the state.
func (t Table) If(s appcontext.State, a Action) Condition { return t[a][s].If }

// Refuse returns the error for an action whose condition does not hold. It names the status too, if that is another
// word: users see the status.
func (t Table) Refuse(s appcontext.State, status string, a Action) error {
	now := s.String() + " now"
	if status != s.String() {
		now += ", with the status " + status
	}
	return errs.E(errs.Conflict, a.String(), "", fmt.Errorf("not allowed in state %s; allowed in %s", now, t.allowed(a)))
}

func (t Table) allowed(a Action) string {
	var names []string
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		if transition, ok := t[a][s]; ok && transition.If == Always {
			names = append(names, s.String())
		}
	}
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		if transition, ok := t[a][s]; ok && transition.If != Always {
			names = append(names, s.String()+" "+transition.If.String())
		}
	}
	return strings.Join(names, ", ")
}
