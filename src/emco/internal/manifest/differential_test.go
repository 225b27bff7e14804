package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// scalars are texts whose meaning differs between versions of YAML, or that a
// careless reader changes.
var scalars = []string{
	"yes", "No", "on", "OFF", "y", "N", "true", "TRUE", "tRUE", "null", "~", "Null", "nULL", "", "0", "-0", "00", "007", "08", "0o17",
	"0x1F", "0X1f", "0b101", "-0b11", "1_000", "_1", "1__0", "+5", "-5", "+-5", "1.", ".5", "-.5", "+.5", ".", "..", "-", "--", "+", "1e3",
	"1E+3", "1e-3", "1.5e3", "e3", "1e", "9007199254740993", "-9223372036854775808", "18446744073709551615",
	"1e999", "12:30", "12:30:45", "190:20:30", "2026-11-21", "2026-11-21T10:00:00Z", "2001-12-14 21:59:43.10 -5", "1.2.3", "1.10", "0.10",
	"<<", "=", "text", "a b", "0777a", "1k", "0x", "0b", "0b2", "-0x10", "0.0.0.0/0", "1,000", "::1", "@", "1e3x", "Infinity", "NaN",
}

// Plain scalars mean to us what they mean to Kubernetes' own YAML reader, but that
// no digit is lost. Quoted ones are text.
func TestScalarsMeanWhatTheyMeanToKubernetes(t *testing.T) {
	t.Parallel()
	for _, s := range scalars {
		for _, text := range []string{"v: " + s, "v: " + quote(s), s + "x: 1", "v: [" + strings.ReplaceAll(s, ",", "") + "]"} {
			compare(t, text)
		}
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// compare reads a mapping both ways. Where Kubernetes reads it, we do, and alike.
func compare(t interface {
	Helper()
	Errorf(string, ...any)
}, text string,
) {
	t.Helper()
	theirs, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return // what we must refuse is tested elsewhere
	}
	got, err := Parse("t", []byte("apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec:\n  "+strings.ReplaceAll(text, "\n", "\n  ")))
	if err != nil || len(got) != 1 {
		t.Errorf("Parse(%q) = %v; Kubernetes reads %s", text, err, theirs)
		return
	}
	tree, err := decode(got[0])
	if err != nil {
		t.Errorf("decode(%q): %v", text, err)
		return
	}
	if want := parsed(theirs); !same(tree["spec"], want) {
		t.Errorf("Parse(%q) has %v, want %v", text, tree["spec"], want)
	}
}

func parsed(text []byte) any {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return v
}

// same compares values, numbers by value: ours must be what theirs is after rounding
// to a float, since theirs went through one.
func same(ours, theirs any) bool {
	switch theirs := theirs.(type) {
	case json.Number:
		n, ok := ours.(json.Number)
		return ok && sameNumber(n, theirs)
	case []any:
		list, ok := ours.([]any)
		if !ok || len(list) != len(theirs) {
			return false
		}
		for i := range list {
			if !same(list[i], theirs[i]) {
				return false
			}
		}
		return true
	case objectTree:
		m, ok := ours.(objectTree)
		if !ok || len(m) != len(theirs) {
			return false
		}
		for k, v := range theirs {
			if w, ok := m[k]; !ok || !same(w, v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(ours, theirs)
}

func sameNumber(ours, theirs json.Number) bool {
	a, okA := new(big.Rat).SetString(ours.String())
	b, okB := new(big.Rat).SetString(theirs.String())
	if !okA || !okB {
		return false
	}
	fa, _ := a.Float64()
	fb, _ := b.Float64()
	return a.Cmp(b) == 0 || fa == fb
}

// genYAML draws a mapping in block or flow style with scalars of all kinds.
func genYAML() *rapid.Generator[string] {
	word := rapid.OneOf(rapid.SampledFrom(scalars), rapid.StringMatching(`[a-z]{1,6}`), rapid.StringMatching(`[-+.0-9_exob]{1,8}`))
	safe := rapid.Custom(func(t *rapid.T) string {
		w := word.Draw(t, "word")
		if rapid.Bool().Draw(t, "quoted") || strings.ContainsAny(w, ",:!@=") {
			return quote(w)
		}
		return w
	})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			v := safe.Draw(t, "value")
			switch rapid.IntRange(0, 3).Draw(t, "form") {
			case 1:
				v = "[" + v + ", {k: " + safe.Draw(t, "inner") + "}]"
			case 2:
				v = "\n  - " + v + "\n  - a: " + safe.Draw(t, "inner")
			case 3:
				v = "|-\n  " + rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "block")
			}
			fmt.Fprintf(&b, "k%d: %s\n", i, v)
		}
		return b.String()
	})
}

func TestDocumentsMeanWhatTheyMeanToKubernetes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { compare(t, genYAML().Draw(t, "yaml")) })
}

// FuzzParse looks for texts that break the parser, or whose canonical form does not
// read back as itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "---", "a: &a [*a]", "kind: List\nitems: [{kind: List}]", "? {a: b}\n: c", "%YAML 1.1\n---\na: b", "...\n", "\xef\xbb\xbfa: 1",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\ndata: {<<: [{a: 1}, {b: 2}]}\n", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, creationTimestamp: null}\nspec: {template: {metadata: {}}}\nstatus: {}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := Parse("f", text)
		if err == nil || len(objects) > 0 {
			for _, o := range objects {
				again, err := Parse("f", o.Content)
				if err != nil || len(again) != 1 || again[0].Digest != o.Digest || again[0].ID != o.ID {
					t.Fatalf("%s reads back as %v, %v", o.Content, again, err)
				}
			}
		}
		if _, err := Complete(objects, Defaults{Namespace: "ns", Labels: map[string]string{"l": "v"}}); err != nil {
			t.Logf("complete: %v", err)
		}
	})
}
