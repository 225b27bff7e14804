package appcontext

import "fmt"

// State is the lifecycle state of a deployment, in upstream's words.
type State uint8

// The states. The numbers are not stable, the names are upstream's.
const (
	Created State = iota
	Approved
	Instantiated
	Updated
	Terminated
	InstantiateStopped
	TerminateStopped
)

var stateNames = [...]string{"Created", "Approved", "Instantiated", "Updated", "Terminated", "InstantiateStopped", "TerminateStopped"}

// Live reports whether the deployment is wanted on clusters. It may have failed or be
// stopped.
func (s State) Live() bool {
	return s == Instantiated || s == InstantiateStopped
}

// String returns upstream's name of the state.
func (s State) String() string { return stateNames[s] }

// MarshalText returns upstream's name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads upstream's name of a state.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no state is called %q", text)
}

// Phase is the state of a pair.
type Phase string

// The phases of a pair, in upstream's words where it has one.
const (
	Pending  Phase = "Pending"  // desired, not proved yet
	Applied  Phase = "Applied"  // proved, by the API server's answer or the commit on the branch
	Retrying Phase = "Retrying" // failed, retried at NextRetry
	Failed   Phase = "Failed"   // refused permanently, or retried often; still retried, at long intervals
	Deleting Phase = "Deleting" // being removed
)

// Change is how a pair's desired bundle changes the app, in Helm's words.
type Change string

// The changes. Pairs that were written by versions without steps have the empty one.
const (
	Install  Change = "install"
	Upgrade  Change = "upgrade"
	RollBack Change = "rollback"
	Remove   Change = "delete"
)
