package failpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newSet(t *testing.T, rules string) *Set {
	t.Helper()
	s := New("a.one", "a.two", "b")
	if err := s.Arm(rules); err != nil {
		t.Fatal(err)
	}
	return s
}

// hits returns which of n hits of a point fail, counted from 1.
func hits(t *testing.T, s *Set, point string, n int) (failed []int) {
	t.Helper()
	for i := range n {
		switch err := s.At(t.Context(), point); {
		case errors.Is(err, ErrInjected) && strings.Contains(err.Error(), point):
			failed = append(failed, i+1)
		case err != nil:
			t.Fatalf("At = %v", err)
		}
	}
	return failed
}

func TestRulesSayWhichHitsFail(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string][]int{
		"":                            nil,
		"b=error":                     nil,
		"a.one=error":                 {1, 2, 3, 4, 5, 6, 7},
		"a.one = error(once)":         {1},
		"a.one=error(2 times)":        {1, 2},
		"a.one=error(after 5)":        {6, 7},
		"a.one=error(after 2, once)":  {3},
		"a.one=error(1 in 3)":         {3, 6},
		"a.one=error(after 1,1 in 2)": {3, 5, 7},
		"a.*=error(after 6)":          {7},
		"b=error; a.one=error(once);a.one=error(after 2, once);": {1, 4}, // the first rule took a hit that the second did not see
	} {
		if got := hits(t, newSet(t, rules), "a.one", 7); !slices.Equal(got, want) {
			t.Errorf("%q: hits %v fail, want %v", rules, got, want)
		}
	}
}

func TestAStarCountsItsPointsTogether(t *testing.T) {
	t.Parallel()
	s := newSet(t, "a.*=error(after 2, once)")
	for i, point := range []string{"a.one", "b", "a.two", "a.one", "a.two"} {
		if failed := len(hits(t, s, point, 1)) == 1; failed != (i == 3) {
			t.Errorf("hit %d, of %s: failed %v", i, point, failed)
		}
	}
	got := s.Counts()
	if got.Fired != 1 || got.Reached["a.one"] != 2 || got.Reached["a.two"] != 2 || got.Reached["b"] != 1 || len(got.Points) != 3 {
		t.Errorf("counts are %+v", got)
	}
}

func TestWrongRulesAreRefused(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"a.one":                  "POINT=ACTION",
		"a.one=explode":          "no action",
		"a.one=error(once":       "not closed",
		"a.one=error(seldom)":    "no argument",
		"a.one=error(1 in 0)":    "no argument",
		"a.one=error(after -1)":  "no argument",
		"a.one=delay":            "duration",
		"a.one=error(1s)":        "duration",
		"a.three=error":          "there are a.one, a.two, b",
		"c*=error":               "no failpoint",
		"a.one=error;b=delay(x)": "no argument",
	} {
		s := newSet(t, "b=error")
		if err := s.Arm(rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", rules, err, want)
		}
		if len(hits(t, s, "b", 1)) != 1 {
			t.Errorf("%q: the rules that held before are gone", rules)
		}
	}
}

func TestADelayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, "b=delay(1m)")
		start := time.Now()
		if err := s.At(t.Context(), "b"); err != nil || time.Since(start) != time.Minute {
			t.Errorf("a delay of a minute: %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := s.At(ctx, "b"); err != nil || time.Since(start) != time.Second {
			t.Errorf("a delay whose context ends: %v after %s", err, time.Since(start))
		}
	})
}

func TestAKillIsTheLastStep(t *testing.T) {
	t.Parallel()
	s := newSet(t, "b=kill(after 1)")
	killed := 0
	s.kill = func() {
		killed++
		if s.mu.TryLock() { // or whoever arms meanwhile is answered by a process that is about to die
			s.mu.Unlock()
			t.Error("rules can be replaced between a death and its cause")
		}
	}
	hits(t, s, "b", 1)
	if killed != 0 {
		t.Error("the first hit killed")
	}
	_ = s.At(t.Context(), "b")
	if killed != 1 {
		t.Error("the second hit did not kill")
	}
}

// What a stopped process was about to send arrives late, although its deadline has passed. A delay, or no rule, leaves the context alone.
func TestARequestOfAStoppedProcessArrives(t *testing.T) {
	t.Parallel()
	for rules, stops := range map[string]int{"b=stop(after 1, once)": 1, "b=delay(1h)": 0, "": 0} {
		s := newSet(t, rules)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := 0
		s.stop = func() { stopped++; cancel() }
		if first, err := s.Send(ctx, "a.one"); err != nil || first != ctx {
			t.Errorf("%q: another point: %v", rules, err)
		}
		if stops == 0 {
			cancel()
		}
		var last context.Context
		for range 2 {
			var err error
			if last, err = s.Send(ctx, "b"); err != nil {
				t.Errorf("%q: %v", rules, err)
			}
		}
		if ended := last.Err() != nil; stopped != stops || ended != (stops == 0) {
			t.Errorf("%q: it stopped %d times, the request has ended: %v", rules, stopped, ended)
		}
	}
}

func TestNoSetDoesNothing(t *testing.T) {
	t.Parallel()
	var s *Set
	if err := s.At(t.Context(), "whatever"); err != nil {
		t.Error(err)
	}
	if ctx, err := s.Send(t.Context(), "whatever"); err != nil || ctx != t.Context() {
		t.Error(err)
	}
}

func TestSteeredByHTTP(t *testing.T) {
	t.Parallel()
	s := newSet(t, "")
	ask := func(method, body string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/failpoints", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	if code, text := ask(http.MethodPut, "b=error(once)"); code != 200 || !strings.Contains(text, `"fired":0`) {
		t.Errorf("PUT: %d %s", code, text)
	}
	if failed := hits(t, s, "b", 2); !slices.Equal(failed, []int{1}) {
		t.Errorf("hits %v fail, want the first", failed)
	}
	if code, text := ask(http.MethodPut, "nonsense"); code != 400 || !strings.Contains(text, "POINT=ACTION") {
		t.Errorf("PUT nonsense: %d %s", code, text)
	}
	if code, text := ask(http.MethodGet, ""); code != 200 || !strings.Contains(text, `"reached":{"b":2},"fired":1`) {
		t.Errorf("GET: %d %s", code, text)
	}
}
