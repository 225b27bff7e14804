package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/expression"
)

// object is the name that the expressions of these tests read.
var object = map[string]expression.Type{"object": expression.Any}

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"object": tree}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	values := read(t, `{"name":"a","list":["a","b"],"nested":[["a"],["b"]],"map":{"a":1},"none":[],"empty":null}`)
	for text, want := range map[string]bool{
		`object.name == 'a' && object.name != 'b'`:     true,
		`'b' in object.list && !('c' in object.list)`:  true,
		`['b'] in object.nested`:                       true,
		`['c'] in object.nested`:                       false,
		`'a' in object.map && !('b' in object.map)`:    true,
		`object.list == ['a', 'b']`:                    true,
		`object.list != ['a']`:                         true,
		`object.map == {'a': 1}`:                       true,
		`object.none == []`:                            true,
		`object.empty == null && object.name != null`:  true,
		`object.list + ['c'] == ['a', 'b', 'c']`:       true,
		`(object.name == 'a') == ('a' in object.list)`: true,
		`size(object.name) == 1`:                       true,
	} {
		e, err := expression.CompileCondition(text, object)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, _, err := e.Holds(t.Context(), values); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`'a' in object.name`, `object.missing == 'a'`, `'a' in object.missing`} {
		e, err := expression.CompileCondition(text, object)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := e.Holds(t.Context(), values); got || !errs.Is(err, errs.Invalid) {
			t.Errorf("%s is %v, %v, want Invalid", text, got, err)
		}
	}
}

// A short text can make values that hold themselves so often that a look at all of their members takes years.
func TestValuesThatHoldThemselvesAreNotRead(t *testing.T) {
	t.Parallel()
	values := read(t, `{"list":[1,2],"text":"`+strings.Repeat("x", 1<<20)+`","many":[`+strings.Repeat("1,", 50_000)+`1]}`)
	for name, text := range map[string]string{
		"joined lists":     `[object.list]` + strings.Repeat(`.map(a, a + a)`, 44) + `.all(a, 5 in a)`,
		"nested lists":     `[object.list]` + strings.Repeat(`.map(a, [a, a])`, 44) + `.all(a, a == a)`,
		"nested maps":      `[object.list]` + strings.Repeat(`.map(a, {'a': a, 'b': a})`, 44) + `.all(a, a == a)`,
		"lists in a list":  `[object.list]` + strings.Repeat(`.map(a, [a, a])`, 44) + `.all(a, a in [a, a])`,
		"long lists":       `object.many.map(a, object.many).all(l, l == object.many)`,
		"comparisons":      `object.many.all(a, object.many == object.many)`,
		"lengths of texts": `object.many.all(a, object.text.size() > 0)`,
		"numbers of texts": `object.many.all(a, int(object.text) > 0 || true)`,
		"texts in texts":   `object.many.all(a, object.text.contains(object.text))`,
		"patterns":         `object.many.all(a, object.text.matches('(x+x+)+y') || true)`,
		"texts in a list":  `object.many.map(a, object.text).all(x, object.text + 'y' in object.many.map(a, object.text) || true)`,
		"orders of texts":  `object.many.all(a, object.text <= object.text)`,
		"joined texts":     `[object.text]` + strings.Repeat(`.map(a, a + a)`, 20) + `.all(a, a != '')`,
	} {
		t.Run(name, func(t *testing.T) {
			e, err := expression.CompileCondition(text, object)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if holds, cost, err := e.Holds(ctx, values); holds || !errs.Is(err, errs.Invalid) || ctx.Err() != nil {
				t.Errorf("%v, %v at the cost %d", holds, err, cost)
			}
		})
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	e, err := expression.Compile(`object.list.map(x, x * 2.0)`, object)
	if err != nil {
		t.Fatal(err)
	}
	values := read(t, `{"list":[1,2]}`)
	doubled, cost, err := e.Value(t.Context(), values)
	if err != nil || cost < 5 || cost > 100 {
		t.Fatalf("the value costs %d, %v", cost, err)
	}
	names := map[string]expression.Type{"object": expression.Any, "variables.doubled": expression.Any, "variables.broken": expression.Any}
	calls := 0
	values["variables.doubled"] = func() any { calls++; return doubled }
	values["variables.broken"] = func() any { return expression.Failed(errors.New("it is broken")) }
	for text, want := range map[string]string{
		`variables.doubled == [2.0, 4.0] && variables.doubled.size() == 2`: "true",
		`variables.broken.size() == 0`:                                     "it is broken",
		`variables.broken == 1`:                                            "it is broken",
		`true || variables.broken`:                                         "true",
	} {
		e, err := expression.Compile(text, names)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if holds, _, err := e.Holds(t.Context(), values); err != nil {
			got = err.Error()
		} else if holds {
			got = "true"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if calls != 1 {
		t.Errorf("the value was made %d times", calls)
	}
	if _, err := expression.Compile(`variables.unknown == 1`, names); !errs.Is(err, errs.Invalid) {
		t.Errorf("a name that nobody has declared: %v", err)
	}
}

func FuzzExpressions(f *testing.F) {
	f.Add(`object.a.all(x, x in [1, 2])`, `{"a":[1,2]}`)
	f.Add(`[object].map(a, [a, a]).map(a, a + a) == [object]`, `{"a":{"b":"c"}}`)
	f.Add(`object.a.filter(x, x.startsWith('a')).size() > 1 ? object.b : 'c' + object.b`, `{"a":["a"],"b":"c"}`)
	f.Fuzz(func(t *testing.T, text, data string) {
		e, err := expression.Compile(text, object)
		if err != nil {
			return
		}
		var tree any
		if json.Unmarshal([]byte(data), &tree) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, _, _ = e.Value(ctx, map[string]any{"object": tree})
		if ctx.Err() != nil {
			t.Errorf("%q takes ten seconds", text)
		}
	})
}
