// Package lifecycle is the table of what may be done with a deployment in which
// state, and what comes of it.
//
//	Created ──approve──► Approved ──instantiate──► Instantiated ──terminate──► Terminated
//	                        ▲                        │     ▲                      │  │
//	                        │                        └─────┘ update, rollback,    │  │
//	                        │                        instantiate if it failed     │  │
//	                        └──────────approve────────────────────────────────────┘  │
//	                                               ▲───────────instantiate───────────┘
package lifecycle

import (
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Event is something that a user asks of a deployment.
type Event uint8

// The events.
const (
	Approve Event = iota
	Instantiate
	Terminate
	Update
	Rollback
)

var eventNames = [...]string{"approve", "instantiate", "terminate", "update", "rollback"}

// String returns the event's name, as it stands in URLs.
func (e Event) String() string { return eventNames[e] }

// Events lists all events.
func Events() []Event { return []Event{Approve, Instantiate, Terminate, Update, Rollback} }

// Table says to which state an event leads from each state in which it is allowed.
type Table map[Event]map[appcontext.State]appcontext.State

// Groups is the table of deployment intent groups. EMCO refuses to approve what was
// stopped while terminating although it lets the same be instantiated; here both may.
func Groups() Table {
	return Table{
		Approve: {
			appcontext.Created:          appcontext.Approved,
			appcontext.Approved:         appcontext.Approved,
			appcontext.Updated:          appcontext.Approved,
			appcontext.Terminated:       appcontext.Approved,
			appcontext.TerminateStopped: appcontext.Approved,
		},
		Instantiate: {
			appcontext.Approved:         appcontext.Instantiated,
			appcontext.Terminated:       appcontext.Instantiated,
			appcontext.TerminateStopped: appcontext.Instantiated,
		},
		Terminate: {
			appcontext.Instantiated:       appcontext.Terminated,
			appcontext.InstantiateStopped: appcontext.Terminated,
		},
		Update:   revisable(),
		Rollback: revisable(),
	}
}

// revisable is when another revision may follow. EMCO lets a rollback happen in any state.
func revisable() map[appcontext.State]appcontext.State {
	return map[appcontext.State]appcontext.State{
		appcontext.Instantiated:       appcontext.Instantiated,
		appcontext.InstantiateStopped: appcontext.Instantiated,
	}
}

// Clouds is the table of logical clouds, which need no approval.
func Clouds() Table {
	return Table{
		Instantiate: {
			appcontext.Created:    appcontext.Instantiated,
			appcontext.Terminated: appcontext.Instantiated,
		},
		Terminate: {
			appcontext.Instantiated: appcontext.Terminated,
		},
	}
}

// Next returns the state that the event leads to; Conflict, naming the states in
// which it is allowed, if it is not allowed in this one.
func (t Table) Next(s appcontext.State, e Event) (appcontext.State, error) {
	if next, ok := t[e][s]; ok {
		return next, nil
	}
	return s, errs.E(errs.Conflict, e.String(), "", fmt.Errorf("not allowed in state %s; it is in %s", s, t.allowed(e)))
}

func (t Table) allowed(e Event) string {
	var names []string
	for s := appcontext.Created; s <= appcontext.TerminateStopped; s++ {
		if _, ok := t[e][s]; ok {
			names = append(names, s.String())
		}
	}
	return strings.Join(names, ", ")
}
