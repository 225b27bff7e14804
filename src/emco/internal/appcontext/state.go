package appcontext

import "fmt"

// State is where a deployment stands in its life, in EMCO's words.
type State uint8

// The states. The numbers are not stable, the names are EMCO's.
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

// Live reports whether somebody wants something of the deployment on clusters. It may
// have failed or have been stopped.
func (s State) Live() bool {
	return s == Instantiated || s == InstantiateStopped
}

// String returns EMCO's name of the state.
func (s State) String() string { return stateNames[s] }

// MarshalText returns EMCO's name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads EMCO's name of a state.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no state is called %q", text)
}

// Phase is where a pair stands.
type Phase string

// The phases of a pair, in EMCO's words where it has one.
const (
	Pending  Phase = "Pending"  // wanted, nothing proved yet
	Applied  Phase = "Applied"  // the sink has proof: the API server's answer, or the commit on the branch
	Retrying Phase = "Retrying" // failed, will be tried again at NextRetry
	Failed   Phase = "Failed"   // refused for good, or tried often; still tried again, at long intervals
	Deleting Phase = "Deleting" // to be removed
)

// Change is what the way to a pair's desired bundle is to the app, in Helm's words.
type Change string

// The changes. The empty one is that of pairs that were written before there were steps.
const (
	Install  Change = "install"
	Upgrade  Change = "upgrade"
	RollBack Change = "rollback"
	Remove   Change = "delete"
)
