package appcontext

import "fmt"

// State is the lifecycle state of a deployment, in upstream's words.
type State uint8

// The states. The numbers are not stable, the names are upstream's.
const (
	Created State = iota
	Approved
	Instantiated
	NetworksApplied // of the networks of a cluster: "Applied", as Instantiated of other deployments
	Updated
	Terminated
	InstantiateStopped
	TerminateStopped
)

var stateNames = [...]string{"Created", "Approved", "Instantiated", "Applied", "Updated", "Terminated", "InstantiateStopped", "TerminateStopped"}

// Live reports whether the deployment is wanted on clusters. It may have failed or be
// stopped.
func (s State) Live() bool {
	return s == Instantiated || s == NetworksApplied || s == InstantiateStopped
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
