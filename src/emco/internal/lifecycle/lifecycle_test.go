package lifecycle

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// groups is the expected table, written a second time and in another shape: a row a
// state, a letter an event; "." is refused.
const groups = `
Created            A . . . .
Approved           A I . . .
Instantiated       . . T U R
Updated            A . . . .
Terminated         A I . . .
InstantiateStopped . . T U R
TerminateStopped   A I . . .
`

const clouds = `
Created            . I . . .
Approved           . . . . .
Instantiated       . . T . .
Updated            . . . . .
Terminated         . I . . .
InstantiateStopped . . . . .
TerminateStopped   . . . . .
`

func TestEveryPairOfStateAndEvent(t *testing.T) {
	t.Parallel()
	outcome := map[string]appcontext.State{"A": appcontext.Approved, "I": appcontext.Instantiated, "T": appcontext.Terminated, "U": appcontext.Instantiated, "R": appcontext.Instantiated}
	for name, tt := range map[string]struct {
		table Table
		want  string
	}{"groups": {Groups(), groups}, "clouds": {Clouds(), clouds}} {
		for s, row := range strings.Split(strings.TrimSpace(tt.want), "\n") {
			from := appcontext.State(s)
			cells := strings.Fields(row)
			if cells[0] != from.String() {
				t.Fatalf("%s: row %d is %s, want %s", name, s, cells[0], from)
			}
			for i, e := range Events() {
				got, err := tt.table.Next(from, e)
				if cells[i+1] == "." {
					if !errs.Is(err, errs.Conflict) || got != from {
						t.Errorf("%s: %s in %s: got %s, %v; want a conflict", name, e, from, got, err)
					}
				} else if err != nil || got != outcome[cells[i+1]] {
					t.Errorf("%s: %s in %s: got %s, %v; want %s", name, e, from, got, err, outcome[cells[i+1]])
				}
			}
		}
	}
}

func TestRefusalsNameTheStatesThatWouldDo(t *testing.T) {
	t.Parallel()
	_, err := Groups().Next(appcontext.Created, Instantiate)
	if want := "instantiate: not allowed in state Created; it is in Approved, Terminated, TerminateStopped"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
