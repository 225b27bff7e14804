package appcontext

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStatesComeBackByName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for s := Created; s <= TerminateStopped; s++ {
		text, err := json.Marshal(map[string]State{"state": s})
		must(t, err)
		if want := `{"state":"` + s.String() + `"}`; string(text) != want {
			t.Errorf("state %d is %s, want %s", s, text, want)
		}
		var back map[string]State
		must(t, json.Unmarshal(text, &back))
		if back["state"] != s {
			t.Errorf("%s came back as %s", s, back["state"])
		}
		seen[s.String()] = true
	}
	if len(seen) != len(stateNames) {
		t.Errorf("%d names for %d states", len(seen), len(stateNames))
	}
}

func TestUnknownStatesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "created", "Created ", "7", "Applying"} {
		s := Terminated
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("UnmarshalText(%q) = %v, want an error that names it", text, err)
		}
		if s != Terminated {
			t.Errorf("UnmarshalText(%q) set the state to %s", text, s)
		}
	}
}

func TestHeadsComeBackFromJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := Head{
			UID: HeadID(rapid.String().Draw(t, "uid")), Document: rapid.String().Draw(t, "subject"),
			State: State(rapid.IntRange(0, int(TerminateStopped)).Draw(t, "state")),
			Seq:   rapid.Int64().Draw(t, "seq"), Rev: rapid.Int64().Draw(t, "rev"),
			Gone: rapid.Bool().Draw(t, "gone"), Failure: rapid.String().Draw(t, "failure"),
		}
		if rapid.Bool().Draw(t, "has operation") {
			h.Op = &Operation{ID: "o", At: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0).UTC()}
		}
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var back Head
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if (back.Op == nil) != (h.Op == nil) || h.Op != nil && *back.Op != *h.Op {
			t.Fatalf("operation %+v came back as %+v", h.Op, back.Op)
		}
		if back.Op, h.Op = nil, nil; back != h {
			t.Fatalf("%+v came back as %+v", h, back)
		}
	})
}
