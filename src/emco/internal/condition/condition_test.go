package condition_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition"
)

// input is an event with data.
func input(t testing.TB, data string) condition.Input {
	t.Helper()
	in := condition.Input{Event: map[string]any{"id": "errors", "agent": "watcher"}, Group: map[string]string{"project": "shop", "name": "autumn"}}
	var read map[string]any
	if err := json.Unmarshal([]byte(data), &read); err != nil {
		t.Fatal(err)
	}
	in.Event["data"] = read
	return in
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"event.data.rate > 0.5":                                      true,
		"event.data.count > 2":                                       true, // numbers of JSON compare with whole numbers
		"event.data.count == 3":                                      true,
		"event.data.count > 2.5 && event.id == 'quiet'":              false,
		"event.data.sites.exists(s, s.startsWith('n'))":              true,
		"event.data.sites.all(s, s.startsWith('n'))":                 false,
		"has(event.data.missing)":                                    false,
		"group.project == 'shop' && event.agent.matches('^watch')":   true,
		"size(event.data.sites) == 2 && 'north' in event.data.sites": true,
	} {
		c, err := condition.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := c.Holds(t.Context(), input(t, `{"rate":0.9,"count":3,"sites":["north","south"]}`)); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestExpressionsThatAreNoConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      "no CEL",
		"event.data.rate >":     "no CEL",
		"event.data.rate":       "not true or false",
		"1 + 1":                 "not true or false",
		"secrets.key == 'x'":    "undeclared reference",
		"group.name + 1 == 'a'": "no matching overload",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "no CEL",
		"true || " + strings.Repeat("x", 5000):                       "at most 4096",
	} {
		if _, err := condition.Compile(text); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want Invalid: %s", text, err, want)
		}
	}
}

// An expression cannot use much time or memory, whatever the event holds.
func TestEvaluationIsBounded(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.Repeat("1,", 2000) + "1]"
	for _, text := range []string{
		"event.data.l.all(a, event.data.l.all(b, event.data.l.all(c, a == b && b == c)))",
		"event.data.l.map(a, event.data.l.map(b, event.data.l)).size() > 0",
		"event.data.missing > 1",
		"event.data.l > 1",
		"[event.data.l]" + strings.Repeat(".map(a, a + a)", 40) + ".all(a, 1 in a)", // a list of 2^51 numbers
	} {
		c, err := condition.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := c.Holds(t.Context(), input(t, `{"l":`+numbers+`}`)); holds || !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v, %v, want Invalid", text, holds, err)
		}
	}
	c, err := condition.Compile("event.data.l.all(a, a == 1)")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Holds(ended, input(t, `{"l":`+numbers+`}`)); err == nil {
		t.Error("an ended context does not end an evaluation")
	}
}

func FuzzConditions(f *testing.F) {
	f.Add("event.data.rate > 0.5 && group.name == 'a'", `{"rate":0.9}`)
	f.Add("event.data.l.exists(x, x in [1, 2])", `{"l":[1,{"a":null}]}`)
	f.Fuzz(func(t *testing.T, text, data string) {
		c, err := condition.Compile(text)
		if err != nil {
			return
		}
		var read map[string]any
		if json.Unmarshal([]byte(data), &read) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		holds, err := c.Holds(ctx, condition.Input{Event: map[string]any{"id": "a", "agent": "b", "data": read}, Group: map[string]string{"name": "a"}})
		if holds && err != nil {
			t.Errorf("%q holds with the error %v", text, err)
		}
		if ctx.Err() != nil {
			t.Errorf("%q takes ten seconds", text)
		}
	})
}
