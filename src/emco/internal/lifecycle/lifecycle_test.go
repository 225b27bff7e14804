package lifecycle

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// groups is the expected table, written a second time and in another shape: one row per state,
// one column per action. A cell names the next state: approved, instantiated,
// terminated, updated, or stopped. "." is refused; "?" needs that it failed, "!" that it
// is under way.
const groups = `
                   approve instantiate terminate stop update rollback migrate adopt apply promote
Created            a       .           .         .    .      .        .       .     .    .
Approved           a       i           .         .    .      .        .       i     .    .
Instantiated       .       i?          t         is!  i      i        u       .     .    i
Applied            .       .           .         .    .      .        .       .     .    .
Updated            a       .           .         .    .      .        .       .     .    .
Terminated         a       i           t?        ts!  .      .        .       .     .    .
InstantiateStopped .       .           t         .    i      i        u       .     .    .
TerminateStopped   a       i           t         .    .      .        .       .     .    .
`

const clouds = `
                   approve instantiate terminate stop update rollback migrate adopt apply promote
Created            .       i           .         .    .      .        .       .     .    .
Approved           .       .           .         .    .      .        .       .     .    .
Instantiated       .       .           t         is   i      .        .       .     .    .
Applied            .       .           .         .    .      .        .       .     .    .
Updated            .       .           .         .    .      .        .       .     .    .
Terminated         .       i           .         ts   .      .        .       .     .    .
InstantiateStopped .       .           t         .    .      .        .       .     .    .
TerminateStopped   .       i           .         .    .      .        .       .     .    .
`

const networks = `
                   approve instantiate terminate stop update rollback migrate adopt apply promote
Created            .       .           .         .    .      .        .       .     ap   .
Approved           .       .           .         .    .      .        .       .     .    .
Instantiated       .       .           .         .    .      .        .       .     .    .
Applied            .       .           t         is   .      .        .       .     ap   .
Updated            .       .           .         .    .      .        .       .     .    .
Terminated         .       .           .         ts   .      .        .       .     ap   .
InstantiateStopped .       .           t         .    .      .        .       .     .    .
TerminateStopped   .       .           .         .    .      .        .       .     ap   .
`

var letters = map[string]appcontext.State{
	"a": appcontext.Approved, "i": appcontext.Instantiated, "t": appcontext.Terminated, "u": appcontext.Updated,
	"is": appcontext.InstantiateStopped, "ts": appcontext.TerminateStopped, "ap": appcontext.NetworksApplied,
}

func TestEveryPairOfStateAndEvent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		table Table
		want  string
	}{"groups": {GroupTable(), groups}, "clouds": {CloudTable(), clouds}, "networks": {NetworkTable(), networks}} {
		rows := strings.Split(strings.TrimSpace(tt.want), "\n")
		for i, e := range Actions() {
			if got := strings.Fields(rows[0])[i]; got != e.String() {
				t.Fatalf("%s: column %d is %s, want %s", name, i, got, e)
			}
		}
		for s, row := range rows[1:] {
			cells := strings.Fields(row)
			if got := appcontext.State(s).String(); cells[0] != got {
				t.Fatalf("%s: row %d is %s, want %s", name, s, cells[0], got)
			}
			for i, e := range Actions() {
				wantTransition(t, tt.table, appcontext.State(s), e, cells[i+1])
			}
		}
	}
}

// wantTransition compares one pair with its cell.
func wantTransition(t *testing.T, table Table, from appcontext.State, a Action, cell string) {
	t.Helper()
	to, err := table.Next(from, a)
	if cell == "." {
		if !errs.Is(err, errs.Conflict) || to != from {
			t.Errorf("%s in %s: got %s, %v; want a conflict", a, from, to, err)
		}
		return
	}
	condition := map[bool]Condition{strings.HasSuffix(cell, "?"): Failed, strings.HasSuffix(cell, "!"): UnderWay}[true]
	if want := letters[strings.TrimRight(cell, "?!")]; err != nil || to != want || table.If(from, a) != condition {
		t.Errorf("%s in %s: got %s if %q, %v; want %s if %q", a, from, to, table.If(from, a), err, want, condition)
	}
}

func TestRefusalsNameTheStatesThatWouldDo(t *testing.T) {
	t.Parallel()
	_, err := GroupTable().Next(appcontext.Created, Instantiate)
	if want := "instantiate: not allowed in state Created; allowed in Approved, Terminated, TerminateStopped, Instantiated if it failed"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	for status, shown := range map[string]string{"Terminated": "", "TerminateFailed": ", with the status TerminateFailed"} {
		err = GroupTable().Refuse(appcontext.Terminated, status, Stop)
		want := "stop: not allowed in state Terminated now" + shown + "; allowed in Instantiated while it is under way, Terminated while it is under way"
		if err.Error() != want || !errs.Is(err, errs.Conflict) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
