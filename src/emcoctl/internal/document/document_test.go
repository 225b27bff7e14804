package document_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
)

func TestParse(t *testing.T) {
	t.Parallel()
	p, err := document.Parse("x.yaml", []byte(`# head
---
---
version: emco/v2
resourceContext:
  anchor: projects/p/composite-apps
metadata:
  name: 12
  description: <a> & b
  other: dropped
spec:
  compositeAppVersion: v1
---
resourceContext: {anchor: c/labels}
clusterLabel: west
---
resourceContext: {anchor: a/b}
file: one
files: [two, three]
spec: {}
...
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []document.Document{
		{
			Anchor: "projects/p/composite-apps", Names: anchor.Names{Name: "12", Version: "v1"},
			Body: []byte(`{"metadata":{"name":"12","description":"\u003ca\u003e \u0026 b"},"spec":{"compositeAppVersion":"v1"}}`),
			At:   document.Position{File: "x.yaml", Line: 4},
		},
		{Anchor: "c/labels", Names: anchor.Names{Label: "west"}, Body: []byte(`{"metadata":{"name":""},"clusterLabel":"west"}`), At: document.Position{File: "x.yaml", Line: 14}},
		{Anchor: "a/b", Body: []byte(`{"metadata":{"name":""}}`), File: "one", Files: []string{"two", "three"}, At: document.Position{File: "x.yaml", Line: 17}},
	}
	if len(p.Documents) != len(want) || len(p.Warnings) != 0 {
		t.Fatalf("got %d documents, warnings %q", len(p.Documents), p.Warnings)
	}
	for i := range want {
		if !reflect.DeepEqual(p.Documents[i], want[i]) {
			t.Errorf("document %d is\n%+v (%s), want\n%+v (%s)", i, p.Documents[i], p.Documents[i].Body, want[i], want[i].Body)
		}
	}
}

// TestScalars pins how upstream's client turns YAML scalars into JSON.
func TestScalars(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"yes": `"yes"`, "true": "true", "1.0": "1", "010": "8", "0x10": "16", "2020-01-02": `"2020-01-02T00:00:00Z"`,
		"~": "null", `"12"`: `"12"`, "{1: a, b: {true: c}}": `{"1":"a","b":{"true":"c"}}`, "[\n\t1,\n\t2]": "[1,2]", "|\n    a\n    b": `"a\nb\n"`,
	} {
		p, err := document.Parse("s.yaml", []byte("spec:\n  v: "+in+"\n"))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		var body struct{ Spec struct{ V json.RawMessage } }
		if err := json.Unmarshal(p.Documents[0].Body, &body); err != nil || string(body.Spec.V) != want {
			t.Errorf("%q becomes %s, %v; want %s", in, body.Spec.V, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for in, where := range map[string]string{
		"a: [": "f.yaml:1: ",
		"metadata: {name: a}\n---\n\nspec:\n  - list": "f.yaml:5: ",
		"just text":             "f.yaml:1: ",
		"spec: {a: 1, a: 2}":    "f.yaml:1: ",
		"\nspec: {v: .nan}":     "f.yaml:2: ",
		"resourceContext: text": "f.yaml:1: ",
	} {
		_, err := document.Parse("f.yaml", []byte(in))
		if !errs.Is(err, errs.Malformed) || !strings.HasPrefix(err.Error(), where) || strings.Contains(err.Error(), "yaml: ") {
			t.Errorf("Parse(%q): %v (%v), want Malformed at %q", in, err, errs.KindOf(err), where)
		}
	}
}

func TestUnknownKeysAreWarnedAbout(t *testing.T) {
	t.Parallel()
	p, err := document.Parse("f.yaml", []byte("resourceContext: {anchor: a}\nMetadata: {Name: x}\nbody: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`f.yaml:2: key "Metadata" is ignored; did you mean "metadata"?`, `f.yaml:3: key "body" is ignored`}
	if !reflect.DeepEqual(p.Unknown, want) {
		t.Errorf("warnings %q, want %q", p.Unknown, want)
	}
	if got := string(p.Documents[0].Body); got != `{"metadata":{"name":""}}` {
		t.Errorf("body %s, want that of upstream's client", got)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	values, err := document.ParseValues("v.yaml", []byte("A: one\nList: [x, y]\nDeep: {B: 2, C: {D: 3}}\n---\nA: ignored\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, in, want, missing string }{
		{"a key", "{{.A}}", "one", ""},
		{"a range", "{{range $i, $e := .List}}{{$i}}{{$e}}{{end}}", "0x1y", ""},
		{"a deep key", "{{.Deep.C.D}}", "3", ""},
		{"a missing key", "a: {{.Nope}}", "a: <no value>", `t:1:5: no value for "Nope"`},
		{"a missing deep key", "\n{{ if .A }}{{ .Deep.X }}{{ end }}", "\n<no value>", `t:2:14: no value for "Deep.X"`},
		{"a missing key asked for in if", "{{if .Nope}}x{{end}}", "", ""},
		{"a missing key in a range", "{{range .List}}\n{{$.Nope}}{{end}}", "\n<no value>\n<no value>", `t:2: no value in "<no value>"`},
		{"the words themselves", "<no value>", "<no value>", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := document.Expand("t", []byte(tt.in), values)
			if string(got.Text) != tt.want || strings.Join(got.Missing, "\n") != tt.missing || err != nil {
				t.Errorf("Expand = %q, %q, %v; want %q, %q", got.Text, got.Missing, err, tt.want, tt.missing)
			}
		})
	}
	for _, in := range []string{"{{.A", "{{nofunc}}", "{{.A.B}}", "{{range .List}}{{.X}}{{end}}"} {
		if _, err := document.Expand("t", []byte(in), values); !errs.Is(err, errs.Malformed) || !strings.HasPrefix(err.Error(), "t:1:") {
			t.Errorf("Expand(%q): %v, want Malformed with file and line", in, err)
		}
	}
}

// Whoever reads an error looks into the template, and never sees what it expands to.
func TestLinesOfExpandedTextAreThoseOfTheTemplate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	values := filepath.Join(dir, "v.yaml")
	if err := os.WriteFile(values, []byte("Names: [a, b, c]\nText: \"one\\ntwo\"\nBad: \"x: y\"\nOff: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(text string) (document.ParseResult, error) {
		return document.Load(document.Sources{Names: []string{document.Stdin}, Values: []string{values}, Stdin: strings.NewReader(text)})
	}
	const list = `{{- range .Names }}
---
resourceContext: {anchor: projects}
metadata:
  name: {{ . }}
  {{- if $.Off }}
  description: never
  {{- end }}
{{- end }}
`
	for after, want := range map[string]string{
		"--- {a: [": "-:10: ",
		"---\nmetadata: {name: n}\nspec:\n  a: {{ .Bad }}":                                "-:13: ",
		"---\nspec: |\n  {{ .Text }}\nversion: x: y":                                      "-:12: ",
		"---\n{{ define \"x\" }}a: b\nc: d: e{{ end }}metadata: {}\n{{ template \"x\" }}": "-:12: ",
		"---\nmetadata: text": "-:11: ",
	} {
		if _, err := load(list + after); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want an error at %q", after, err, want)
		} else if !strings.HasSuffix(err.Error(), " (in what the template expands to)") {
			t.Errorf("%q: %v does not name the template", after, err)
		}
	}
	all, err := load(list + "---\nmetadata: {name: d}\nbody: 1\n")
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, d := range all.Documents {
		at = append(at, d.At.String())
	}
	if want := []string{"-:3", "-:3", "-:3", "-:11"}; !slices.Equal(at, want) {
		t.Errorf("documents at %v, want %v", at, want)
	}
	if want := `-:12: key "body" is ignored`; !slices.Contains(all.Warnings, want) {
		t.Errorf("warnings %q, want %q", all.Warnings, want)
	}
}

func TestMergeOfValues(t *testing.T) {
	t.Parallel()
	parse := func(text string) document.Values {
		v, err := document.ParseValues("v", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a := parse("m: {x: 1, y: {z: 2}}\nl: [1, 2]\ns: a\nk: {q: 1}\n")
	got := a.Merge(parse("m: {y: {w: 3}}\nl: [3]\nk: text\n"))
	want := parse("m: {x: 1, y: {z: 2, w: 3}}\nl: [3]\ns: a\nk: text\n")
	text := func(v document.Values) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if text(got) != text(want) {
		t.Errorf("Merge = %s, want %s", text(got), text(want))
	}
	if text(a) != text(parse("m: {x: 1, y: {z: 2}}\nl: [1, 2]\ns: a\nk: {q: 1}\n")) {
		t.Errorf("Merge changed its receiver: %s", text(a))
	}
}

// FuzzParse: whatever the input, there is an error that names the file, or documents
// whose body is JSON with metadata, in lines that rise.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a: b\n---\nmetadata: {name: x}\nspec: {v: [1, {2: 3}]}\n", "--- |\n text\n", "&a [*a]", "spec: &x {y: *x}", "{", "%YAML 1.2\n---\n",
		"? complex\n: key\n", "spec: {<<: {a: 1}}", "---\n...\n---\n", "\xff\xfe", "metadata: !!binary aGk=", "spec: {v: .inf}", "a: !!set {x}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := document.Parse("f", text)
		if err != nil {
			if !errs.Is(err, errs.Malformed) || !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error %v of kind %v", err, errs.KindOf(err))
			}
			return
		}
		line := 0
		for _, d := range p.Documents {
			var body struct{ Metadata *struct{ Name string } }
			if err := json.Unmarshal(d.Body, &body); err != nil || body.Metadata == nil {
				t.Fatalf("body %q: %v", d.Body, err)
			}
			if d.At.Line < line {
				t.Fatalf("document at line %d after one at %d", d.At.Line, line)
			}
			line = d.At.Line
		}
	})
}

// A file at the limit is read whole; one above it is refused: a cut file would silently
// lose documents.
func TestInputAboveTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	const limit = 32 << 20
	head := "resourceContext: {anchor: projects}\nmetadata: {name: p1}\n---\n"
	tail := "---\nresourceContext: {anchor: projects}\nmetadata: {name: p2}\n"
	fill := func(size int) string {
		line := "# " + strings.Repeat("x", 1<<20) + "\n"
		out := head + strings.Repeat(line, size/len(line)-1)
		return out + "#" + strings.Repeat("y", size-len(out)-len(tail)-2) + "\n" + tail
	}
	whole := fill(limit)
	if p, err := document.Load(document.Sources{Names: []string{"-"}, Stdin: strings.NewReader(whole)}); err != nil || len(p.Documents) != 2 {
		t.Errorf("Load of %d bytes: %d documents, %v; want 2", len(whole), len(p.Documents), err)
	}
	large := fill(limit + 1)
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]document.Sources{
		file: {Names: []string{file}},
		"-":  {Names: []string{"-"}, Stdin: strings.NewReader(large)},
	} {
		if p, err := document.Load(s); !errs.Is(err, errs.TooLarge) || !strings.Contains(err.Error(), name) {
			t.Errorf("Load of %d bytes from %s: %d documents, %v; want an error of kind TooLarge that names it", len(large), name, len(p.Documents), err)
		}
	}
}

// A document of another version is read, with a warning.
func TestAnotherVersionIsNamed(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"emco/v2": "", "": "", "emco/v9": "x.yaml:1: version emco/v9 is read as emco/v2, the only one there is",
	} {
		p, err := document.Parse("x.yaml", []byte("version: "+version+"\nresourceContext: {anchor: projects}\nmetadata: {name: a}\n"))
		if got := strings.Join(p.Warnings, "|"); err != nil || got != want || len(p.Documents) != 1 {
			t.Errorf("version %q: got %v and the warnings %q, want %q", version, err, got, want)
		}
	}
}
