package jsontree_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

func parse(t *testing.T, text string) jsontree.Node {
	t.Helper()
	n, err := jsontree.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return n
}

func TestAtAndString(t *testing.T) {
	t.Parallel()
	n := parse(t, `{"a":{"b":"x","n":1.50,"t":true,"z":null},"kv":[{"q":1,"p":2},{"r":{}}],"s":["x"]}`)
	for path, want := range map[string]string{
		"a.b": "x", "a.n": "1.50", "a.t": "true", "a.z": "", "a.none.deeper": "", "kv": "p,q,r", "a": "b,n,t,z", "s": "",
	} {
		if got := n.At(path).String(); got != want {
			t.Errorf("At(%s) = %q, want %q", path, got, want)
		}
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"","b":null,"c":[],"d":{},"e":{"f":""},"g":0,"h":false}`: `{"g":0,"h":false}`,
		`{"l":["",{"x":""},1]}`:        `{"l":[null,null,1]}`,
		`{}`:                           `null`,
		` [ ] `:                        `null`,
		`{"a":{"b":{"c":"kept"}}}`:     `{"a":{"b":{"c":"kept"}}}`,
		`"1"`:                          `"1"`,
		`{"same":"text","other":null}`: `{"same":"text"}`,
	} {
		if got := parse(t, in).Prune(); !reflect.DeepEqual(got, parse(t, want)) {
			t.Errorf("Prune of %s = %+v, want %s", in, got, want)
		}
	}
	if reflect.DeepEqual(parse(t, `"1"`), parse(t, `1`)) {
		t.Error("a string equals a number")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "<html>", `{"a"`, `[1,]`, `"x`, "nul", "1 2", `{"a":tru}`, strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		if n, err := jsontree.Parse([]byte(in)); err == nil {
			t.Errorf("Parse(%.20q) = %+v, want an error", in, n)
		}
	}
}

// FuzzParse: what the standard library takes for JSON is read, what it does not is
// refused; values that nest too deeply are refused, too.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",null,{"b":true}]}`, "", " 1 ", `"\u00e9"`, "[[[]]]", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := jsontree.Parse(text)
		if deep := strings.Contains(string(text), strings.Repeat("[", 9)); (err == nil) != json.Valid(text) && !deep {
			t.Fatalf("Parse(%q): %v, valid %v", text, err, json.Valid(text))
		}
		if again := n.Prune().Prune(); !reflect.DeepEqual(again, n.Prune()) {
			t.Fatalf("Prune of %q changes twice", text)
		}
	})
}

func TestJSONIsWrittenSorted(t *testing.T) {
	t.Parallel()
	n, err := jsontree.Parse([]byte(`{"b":[1, true, null, [], {}], "a":"x<\n\"", "c":{"z":1e3,"y":""}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.JSON()
	if want := `{"a":"x\u003c\n\"","b":[1,true,null,[],{}],"c":{"y":"","z":1e3}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	again, err := jsontree.Parse(got)
	if err != nil || !reflect.DeepEqual(n, again) {
		t.Errorf("read again it is %+v, %v; want %+v", again, err, n)
	}
}
