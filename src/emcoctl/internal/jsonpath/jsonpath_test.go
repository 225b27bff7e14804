package jsonpath_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsonpath"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
)

const list = `{"items":[
 {"metadata":{"name":"a","labels":{"app.x/y":"1"}},"spec":{"n":1,"on":true,"list":[1,2,3]},"conditions":[{"type":"Ready","status":"True"},{"type":"Stalled","status":"False"}]},
 {"metadata":{"name":"b"},"spec":{"n":2,"list":[]},"conditions":[{"type":"Ready","status":"False"}]}]}`

func TestTemplates(t *testing.T) {
	t.Parallel()
	value, err := jsontree.Parse([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{.items[*].metadata.name}": "a b",
		".items[0].metadata.name":   "a",
		"{$.items[-1].spec.n}":      "2",
		"{.items[9].spec.n}":        "",
		`{range .items[*]}{.metadata.name}{"\t"}{.spec.n}{"\n"}{end}`: "a\t1\nb\t2\n",
		`{.items[0].metadata.labels['app.x/y']}`:                      "1",
		`{.items[*].conditions[?(@.type=="Ready")].status}`:           "True False",
		`{.items[*].conditions[?(@.type!='Ready')].status}`:           "False",
		`{.items[?(@.spec.on)].metadata.name}`:                        "a",
		`{.items[0].spec.list[1:]}`:                                   "2 3",
		`{.items[0].spec.list[0:2]}`:                                  "1 2",
		`{..name}`:                                                    "a b",
		`{.items[1].metadata}`:                                        `{"name":"b"}`,
		`{.items[0].metadata.*}`:                                      `{"app.x/y":"1"} a`,
		`name: {.items[0].metadata.name}!`:                            "name: a!",
		`{range .items[*]}{range .conditions[*]}{.type},{end};{end}`:  "Ready,Stalled,;Ready,;",
		`{.items[0].metadata.none}`:                                   "",
		`{"}"}{.items[0].spec.n}`:                                     "}1",
	} {
		template, err := jsonpath.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var out strings.Builder
		if err := template.Execute(&out, value); err != nil || out.String() != want {
			t.Errorf("%s is %q, %v; want %q", text, out.String(), err, want)
		}
	}
}

func TestMalformedTemplates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{.a", "{.a[}", "{.a[x]}", "{range .a}", "{end}", `{"\q"}`, "{.a[1:b]}", "{.a..[0]x.}", strings.Repeat("{range .a}", 50)} {
		if _, err := jsonpath.Parse(text); err == nil {
			t.Errorf("Parse(%q) succeeds", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"{.a[*].b}", "{range .a}{end}", "{..a[?(@.b=='c')]}", "{", `{"x`, "[']"} {
		f.Add(seed)
	}
	value, err := jsontree.Parse([]byte(list))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if t, err := jsonpath.Parse(text); err == nil {
			_ = t.Execute(&strings.Builder{}, value)
		}
	})
}
