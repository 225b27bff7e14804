package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func config(name, rest string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" + rest
}

func TestParseKeepsValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"integers above 2^53 keep their digits", "9007199254740993", "9007199254740993"},
		{"integers above 2^64 keep their digits", "18446744073709551617", "18446744073709551617"},
		{"exponents keep their text", "1e3", "1e3"},
		{"fractions keep their digits", "0.10000000000000000001", "0.10000000000000000001"},
		{"whole floats stay as written", "1.0", "1.0"},
		{"text that looks like a number stays text", `"1e3"`, `"1e3"`},
		{"text that looks octal stays text", `'0777'`, `"0777"`},
		{"octal numbers mean what they mean to Kubernetes", "0644", "420"},
		{"hexadecimal numbers become decimal", "0xFF", "255"},
		{"underscores are dropped from numbers", "1_000", "1000"},
		{"a plus sign is dropped", "+7", "7"},
		{"a leading point gets a zero", ".5", "0.5"},
		{"a number beyond floats is text", "1e999", `"1e999"`},
		{"yes is true", "yes", "true"},
		{"off is false", "off", "false"},
		{"quoted no is text", `"no"`, `"no"`},
		{"dates are text", "2026-11-21", `"2026-11-21"`},
		{"versions are text", "1.2.3", `"1.2.3"`},
		{"ports are text", "80:80", `"80:80"`},
		{"tilde is null", "~", "null"},
		{"signs of HTML are not escaped", `"<&>"`, `"<&>"`},
		{"block text keeps its lines", "|\n  a\n  ---x\n  b\n", `"a\n---x\nb\n"`},
		{"an explicit string tag wins", "!!str 12", `"12"`},
		{"sequences keep their order", "[b, a, 1]", `["b","a",1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse("a.yaml", []byte(config("c", "data: {v: "+tt.yaml+"}")))
			if strings.HasPrefix(tt.yaml, "|") {
				got, err = Parse("a.yaml", []byte(config("c", "data:\n  v: "+strings.ReplaceAll(tt.yaml, "\n  ", "\n    "))))
			}
			want := `{"apiVersion":"v1","data":{"v":` + tt.want + `},"kind":"ConfigMap","metadata":{"name":"c"}}` + "\n"
			if err != nil || len(got) != 1 || string(got[0].Content) != want {
				t.Fatalf("Parse(%s) = %s, %v, want %s", tt.yaml, contents(got), err, want)
			}
			if got[0].Digest != DigestOf(got[0].Content) || got[0].Source != "a.yaml" {
				t.Errorf("object has digest %s and source %s", got[0].Digest, got[0].Source)
			}
		})
	}
}

func contents(objects []Object) string {
	var b strings.Builder
	for _, o := range objects {
		b.Write(o.Content)
	}
	return b.String()
}

func TestParseReadsStreams(t *testing.T) {
	t.Parallel()
	a, b := config("a", ""), config("b", "")
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"several documents", a + "---\n" + b, []string{"a", "b"}},
		{"a marker at the head and at the end", "---\n" + a + "---\n", []string{"a"}},
		{"comments alone", "# nothing\n---\n# here\n---\n" + a, []string{"a"}},
		{"a template that rendered to blanks", "\n\n   \n", nil},
		{"an explicit null", "--- ~\n---\n" + a, []string{"a"}},
		{"windows line ends", strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"a", "b"}},
		{"a byte order mark", "\xef\xbb\xbf" + a, []string{"a"}},
		{"a marker with a comment", "--- # Source: x.yaml\n" + a, []string{"a"}},
		{"content on the line of a marker", `--- {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"j"}}`, []string{"j"}},
		{"an explicit end of a document", a + "...\n---\n" + b + "...\n", []string{"a", "b"}},
		{"a directive", "%YAML 1.1\n---\n" + a, []string{"a"}},
		{"JSON", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"j"}}`, []string{"j"}},
		{"a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n- {apiVersion: v1, kind: Pod, metadata: {name: q}}\n", []string{"p", "q"}},
		{"an empty list", "apiVersion: v1\nkind: List\nitems: []\n", nil},
		{"aliases and merge keys", "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: a}\ndata: {<<: *m, x: y}\n", []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse("s.yaml", []byte(tt.text))
			var names []string
			for _, o := range got {
				names = append(names, o.ID.Name)
			}
			if err != nil || fmt.Sprint(names) != fmt.Sprint(tt.want) {
				t.Errorf("Parse(%q) = %v, %v, want %v", tt.text, names, err, tt.want)
			}
		})
	}
}

func TestMergeKeysGiveWayToOwnKeys(t *testing.T) {
	t.Parallel()
	got, err := Parse("m.yaml", []byte(config("a", "x-a: &a {k: 1, l: 2}\nx-b: &b {l: 3, m: 4}\ndata:\n  <<: [*a, *b]\n  k: own\n")))
	want := `"data":{"k":"own","l":2,"m":4}`
	if err != nil || len(got) != 1 || !strings.Contains(string(got[0].Content), want) {
		t.Errorf("Parse = %s, %v, want %s", contents(got), err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{a: ", 9000) + "1" + strings.Repeat("}", 9000)
	for _, tt := range []struct{ name, text, want string }{
		{"no kind", "apiVersion: v1\nmetadata: {name: a}", "f.yaml:1: document 1: kind is missing"},
		{"no apiVersion", "# c\nkind: Pod\nmetadata: {name: a}", "f.yaml:2: document 1: apiVersion is missing"},
		{"no metadata", "apiVersion: v1\nkind: Pod", "Pod without metadata.name"},
		{"no name", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}", "Pod: metadata.name is missing"},
		{"a name that is a number", "apiVersion: v1\nkind: Pod\nmetadata: {name: 12}", "metadata.name must be a string; quote it"},
		{"a name that climbs", "apiVersion: v1\nkind: Pod\nmetadata: {name: ../../x}", "without slash"},
		{"a name with a line break", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\nb"}}`, "white space"},
		{"a namespace that climbs", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ../b}", "must be a DNS label"},
		{"a group that climbs", "apiVersion: ../v1\nkind: Pod\nmetadata: {name: a}", "must be <group>/<version>"},
		{"a long namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: " + strings.Repeat("n", 64) + "}", "must be a DNS label"},
		{"a long version", "apiVersion: " + strings.Repeat("v", 64) + "\nkind: Pod\nmetadata: {name: a}", "must be <group>/<version>"},
		{"a long kind", "apiVersion: v1\nkind: " + strings.Repeat("P", 64) + "\nmetadata: {name: a}", "must be letters and digits"},
		{"a kind that climbs", "apiVersion: v1\nkind: ../Pod\nmetadata: {name: a}", "must be letters and digits"},
		{"a label that is a number", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: 1}}", `metadata.labels["x"] must be a string`},
		{"an annotation that is a boolean", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {x: yes}}", `metadata.annotations["x"] must be a string`},
		{"a key twice", config("a", "data:\n  k: 1\n  k: 2\n"), `f.yaml:6: document 1: key "k" is given twice`},
		{"a key twice in two notations", config("a", "data: {1: a, \"1\": b}"), `key "1" is given twice`},
		{"text alone", "just text", "is no object"},
		{"broken YAML", "a: [1", "f.yaml:1: document 1: is no valid YAML"},
		{"tabs", "a:\n\t- b", "f.yaml:2: document 1: is no valid YAML"},
		{"a list within a list", "kind: List\nitems: [{kind: List, items: []}]", "item 1: is a list within a list"},
		{"an item that is text", "kind: List\nitems: [a]", "item 1: is no object"},
		{"a number that is none", config("a", "data: {v: .nan}"), "must be finite"},
		{"an unknown tag", config("a", "data: {v: !secret x}"), "tag !secret is not supported"},
		{"a tag that does not fit", config("a", "data: {v: !!int x}"), "does not fit its tag !!int"},
		{"a mapping as key", config("a", "data: {{a: b}: c}"), "a key must be a plain value"},
		{"an unknown anchor", "a: *b", "unknown anchor"},
		{"an anchor that holds itself", config("a", "data: &d {x: *d}"), "nested deeper"},
		{"deep nesting", deep, "nested deeper than 100 levels"},
		{"an object above the limit", config("a", "data: {v: "+strings.Repeat("x", MaxObject)+"}"), "above the limit"},
		{"text above the limit", strings.Repeat("#", MaxText+1), "above the limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse("f.yaml", []byte(tt.text))
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || len(got) != 0 {
				t.Errorf("Parse = %v, %v, want an Invalid error with %q", got, err, tt.want)
			}
		})
	}
}

func TestParseReportsAllBadDocumentsAndKeepsTheGood(t *testing.T) {
	t.Parallel()
	text := config("a", "") + "---\nkind: Pod\n---\n" + config("b", "") + "---\na: [\n---\n" + config("c", "")
	got, err := Parse("f.yaml", []byte(text))
	want := "f.yaml:5: document 2: apiVersion is missing\nf.yaml:11: document 4: is no valid YAML"
	if len(got) != 3 || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Parse = %v, %v, want 3 objects and %q", got, err, want)
	}
}

func TestProblemsAreCapped(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte(strings.Repeat("---\nkind: Pod\n", 3000)))
	if n := strings.Count(err.Error(), "\n") + 1; n != maxProblems+1 {
		t.Errorf("3000 bad documents give %d lines, want %d", n, maxProblems+1)
	}
}

func TestThreeThousandDocuments(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 3000 {
		b.WriteString(config(fmt.Sprintf("c%d", i), "---\n"))
	}
	if got, err := Parse("f.yaml", []byte(b.String())); err != nil || len(got) != 3000 {
		t.Errorf("Parse gives %d objects, %v", len(got), err)
	}
}

// An alias bomb is refused quickly and without memory, whatever it would expand to.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString(config("a", "a: &a [x, x, x, x, x, x, x, x, x, x]\n"))
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10), ", "))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	_, err := Parse("bomb.yaml", []byte(b.String()))
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "through aliases") {
		t.Errorf("Parse = %v, want a refusal", err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 50 || took > 2*time.Second {
		t.Errorf("the refusal took %d MiB and %s", used, took)
	}
}

func TestEqualObjectsHaveEqualBytes(t *testing.T) {
	t.Parallel()
	a, errA := Parse("a", []byte("kind: Pod\nmetadata:\n  name: x\n  creationTimestamp: null\nstatus: {}\napiVersion: v1\n"))
	b, errB := Parse("b", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`))
	if errA != nil || errB != nil || a[0].Digest != b[0].Digest {
		t.Errorf("got %s and %s, %v, %v", contents(a), contents(b), errA, errB)
	}
}

func TestStatusWithContentStays(t *testing.T) {
	t.Parallel()
	got, err := Parse("a", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nstatus: {phase: Running}\n"))
	if err != nil || !strings.Contains(string(got[0].Content), `"status":{"phase":"Running"}`) {
		t.Errorf("got %s, %v", contents(got), err)
	}
}

func TestObjectsDoNotShowTheirContent(t *testing.T) {
	t.Parallel()
	got, err := Parse("a", []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {k: hush}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, got[0]); strings.Contains(text, "hush") || !strings.Contains(text, "Secret x") {
			t.Errorf("%s shows %q", format, text)
		}
	}
}
