package helm_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// with returns a chart called app, with more files.
func with(files map[string]string) map[string]string {
	chart := map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"}
	maps.Copy(chart, files)
	return chart
}

func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	b, err := rendertest.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestChartsThatAreRefused(t *testing.T) {
	t.Parallel()
	sub := packed(t, map[string]string{"../../evil": "x"})
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a broken template", with(map[string]string{"app/templates/a.yaml": "a: b\nc: {{ .Values.x"}), "app app: app/templates/a.yaml:2: unclosed action"},
		{"an unknown function", with(map[string]string{"app/templates/a.yaml": "\n{{ nope }}"}), `app app: app/templates/a.yaml:2: function "nope" not defined`},
		{
			"a value that is required", with(map[string]string{"app/templates/a.yaml": "\n\n{{ required \"set image.tag\" .Values.tag }}"}),
			"app app: app/templates/a.yaml:3: set image.tag",
		},
		{
			"a failure in a partial", with(map[string]string{"app/templates/_h.tpl": "{{ define \"x\" }}\n{{ .Values.a.b.c }}{{ end }}", "app/templates/a.yaml": "{{ include \"x\" . }}"}),
			"app app: app/templates/_h.tpl:2: nil pointer evaluating interface {}.b (at <.Values.a.b.c>) (included from app/templates/a.yaml:1)",
		},
		{"output that is no YAML", with(map[string]string{"app/templates/a.yaml": "a: [\n"}), "app app: app/templates/a.yaml:1: is no valid YAML"},
		{
			"output without kind, in two files", with(map[string]string{"app/templates/a.yaml": "x: 1", "app/templates/b.yaml": "kind: Pod"}),
			"app app: app/templates/a.yaml:1: apiVersion is missing (the line counts in the template's output)\napp/templates/b.yaml:1: document 1: apiVersion is missing",
		},
		{
			"an object in two files", with(map[string]string{"app/templates/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}", "app/templates/b.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}"}),
			"app app: app/templates/b.yaml: v1 Pod shop/p stands in app/templates/a.yaml already",
		},
		{
			"a sub-chart that is not vendored", with(map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.0.0, repository: \"https://charts.example.com\"}]"}),
			"sub-chart redis is not in app/charts; run \"helm dependency update app\"",
		},
		{"a library chart", with(map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\ntype: library"}), "type is \"library\""},
		{"a chart for another Kubernetes", with(map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\nkubeVersion: \">=1.99\""}), "the chart wants Kubernetes >=1.99, but rendering is for v1.34.0"},
		{"a chart in another directory", map[string]string{"other/Chart.yaml": "name: other"}, "app app: package of app app: app/Chart.yaml is missing; the chart lies in other"},
		{"a dependency that is null", with(map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [null]"}), "app app: "},
		{"values that are a list", with(map[string]string{"app/values.yaml": "[a]"}), "app app: the chart cannot be loaded"},
		{"a packed sub-chart that climbs", with(map[string]string{"app/charts/evil.tgz": sub}), "sub-chart charts/evil.tgz: Error in file format: entry \"../../evil\""},
		{"a packed sub-chart that is none", with(map[string]string{"app/charts/evil.tgz": "x"}), "sub-chart charts/evil.tgz: Error in file format"},
		{"a name server asked by values", with(map[string]string{"app/values.yaml": "a: [{b: '{{ getHostByName \"x\" }}'}]"}), "values.a[0].b calls getHostByName"},
		{"a name server asked by a file", with(map[string]string{"app/f.txt": "{{ getHostByName \"x\" }}"}), "app/f.txt calls getHostByName"},
		{"values that break the schema", with(map[string]string{"app/values.yaml": "size: hush", "app/values.schema.json": `{"properties":{"size":{"type":"integer"}}}`}), "values do not meet app/values.schema.json: at '/size': got string, want integer"},
		{"values that may be secret and break the schema", with(map[string]string{
			"app/values.yaml":        "{word: hush, number: 7, code: 9}",
			"app/values.schema.json": `{"properties":{"word":{"pattern":"^x"},"number":{"minimum":10},"code":{"multipleOf":2}}}`,
		}), "schema.json: at '/code': does not meet multipleOf 2; at '/number': does not meet minimum 10; at '/word': does not meet pattern '^x'"},
		{"a schema that is none", with(map[string]string{"app/values.schema.json": `{`}), "the schema is no valid JSON"},
		{"a schema that reads a file", with(map[string]string{"app/values.schema.json": `{"$ref":"file:///etc/hosts"}`}), "lies outside of the schema"},
		{"a schema that reads a file next to the chart", with(map[string]string{"app/values.schema.json": `{"$ref":"../../etc/hosts"}`}), "lies outside of the schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := render.Request{App: "app", Package: pack(t, tt.files), Release: "r1", Namespace: "shop"}
			res, err := newRenderer(t).Render(t.Context(), req)
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Render = %v, %v, want an Invalid error with %q", res.Objects, err, tt.want)
			}
		})
	}
}

// Helm itself would fetch the schema that a chart refers to.
func TestSchemasAreNotFetched(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	files := with(map[string]string{"app/values.schema.json": `{"$ref":"` + server.URL + `/s.json"}`})
	_, err := newRenderer(t).Render(t.Context(), render.Request{App: "app", Package: pack(t, files), Release: "r1"})
	if err == nil || asked.Load() != 0 {
		t.Errorf("Render = %v, the server was asked %d times", err, asked.Load())
	}
}

func TestProfilesAndOverridesThatAreRefused(t *testing.T) {
	t.Parallel()
	chart := with(map[string]string{"app/templates/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}"})
	copies := func(from, to string) map[string]string {
		return map[string]string{"f.yaml": "a: b", "manifest.yaml": "type: {configresource: [{filepath: \"" + from + "\", chartpath: \"" + to + "\"}]}"}
	}
	for _, tt := range []struct {
		name     string
		profile  map[string]string
		override render.Override
		want     string
	}{
		{"no manifest", map[string]string{"values.yaml": "a: b"}, render.Override{}, "manifest.yaml is missing"},
		{"a file that climbs", copies("../../x", "app/x"), render.Override{}, `filepath "../../x" leaves the archive`},
		{"a target that climbs", copies("f.yaml", "../../../x"), render.Override{}, `chartpath "../../../x" leaves the archive`},
		{"a target that climbs within", copies("f.yaml", "app/../../x"), render.Override{}, "leaves the archive"},
		{"an absolute target", copies("f.yaml", "/etc/x"), render.Override{}, "is an absolute path"},
		{"a target in another chart", copies("f.yaml", "other/x"), render.Override{}, "must lie in the chart's directory, app"},
		{"a target below a file", copies("f.yaml", "app/Chart.yaml/x"), render.Override{}, "cannot be written"},
		{"a target that is a directory", copies("f.yaml", "app/templates"), render.Override{}, "cannot be written"},
		{"a file that is missing", copies("g.yaml", "app/x"), render.Override{}, "which is not in the archive"},
		{"values that are missing", map[string]string{"manifest.yaml": "type: {values: v.yaml}"}, render.Override{}, "which is not in the archive"},
		{"values that are a list", map[string]string{"manifest.yaml": "type: {values: v.yaml}", "v.yaml": "[hush]"}, render.Override{}, "v.yaml must be a mapping"},
		{"an override without key", nil, render.Override{Value: "hush"}, "an override has no key"},
		{"an override that is no path", nil, render.Override{Key: "a[", Value: "hush"}, `override "a[" is no valid "--set"`},
		{"an override with an index beyond reason", nil, render.Override{Key: "a[99999999]", Value: "hush"}, `is no valid "--set"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := render.Request{App: "app", Package: pack(t, chart), Release: "r1", Namespace: "shop"}
			if tt.profile != nil {
				req.Profile = pack(t, tt.profile)
			} else {
				req.Overrides = []render.Override{tt.override}
			}
			_, err := newRenderer(t).Render(t.Context(), req)
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("Render = %v, want an Invalid error with %q and no value", err, tt.want)
			}
		})
	}
}

func TestNamesOfRequests(t *testing.T) {
	t.Parallel()
	chart := pack(t, with(map[string]string{"app/templates/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Release.Name }}-{{ .Release.Namespace }}}"}))
	for _, tt := range []struct{ release, namespace, want string }{
		{"r1", "shop", ""},
		{strings.Repeat("a", 53), "", ""},
		{strings.Repeat("a", 54), "shop", "release name"},
		{"", "shop", "release name"},
		{"v1.0", "shop", "release name \"v1.0\" must be a DNS label"},
		{"R1", "shop", "release name"},
		{"r1", "Shop", "namespace \"Shop\" must be a DNS label"},
	} {
		_, err := newRenderer(t).Render(t.Context(), render.Request{App: "app", Package: chart, Release: tt.release, Namespace: tt.namespace})
		if tt.want == "" && err != nil || tt.want != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("release %q in %q: got %v, want %q", tt.release, tt.namespace, err, tt.want)
		}
	}
}

// Templates see files of the chart, but no others.
func TestFilesEndAtTheChart(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `apiVersion: v1
kind: ConfigMap
metadata: {name: f}
data: {own: {{ .Files.Get "a.txt" | quote }}, up: {{ .Files.Get "../other/b.txt" | quote }}, root: {{ .Files.Get "` + secret + `" | quote }}, glob: "{{ len (.Files.Glob "../**") }}"}
`
	files := with(map[string]string{"app/a.txt": "mine", "other/b.txt": "hush", "app/templates/f.yaml": text})
	res, err := newRenderer(t).Render(t.Context(), render.Request{App: "app", Package: pack(t, files), Release: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Objects[0].Content); !strings.Contains(got, `"data":{"glob":"0","own":"mine","root":"","up":""}`) {
		t.Errorf("templates saw %s", got)
	}
}

func TestPackedSubchartsAndIgnoredFiles(t *testing.T) {
	t.Parallel()
	pod := func(name string) string { return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}" }
	inner := packed(t, map[string]string{"inner/Chart.yaml": "apiVersion: v2\nname: inner\nversion: 1.0.0", "inner/templates/i.yaml": pod("inner")})
	outer := packed(t, map[string]string{
		"./outer/Chart.yaml":             "apiVersion: v2\nname: outer\nversion: 1.0.0\ndependencies: [{name: inner, version: 1.0.0}]",
		"./outer/charts/inner-1.0.0.tgz": inner, "./outer/templates/o.yaml": pod("outer"),
	})
	files := with(map[string]string{
		"app/Chart.yaml":               "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: outer, version: 1.0.0}]",
		"app/charts/outer-1.0.0.tgz":   outer,
		"app/.helmignore":              "# backups\n*.bak\n/templates/old/\n!keep.bak\n[\n",
		"app/templates/a.yaml":         pod("a"),
		"app/templates/keep.bak":       pod("kept"),
		"app/templates/a.yaml.bak":     "{{ fail \"a backup is no template\" }}",
		"app/templates/old/x.yaml":     "{{ fail \"an ignored directory holds no templates\" }}",
		"app/templates/._a.yaml":       "\x00\x05\x16\x07 what macOS packs",
		"app/templates/NOTES.txt":      "{{ .Release.Name }} is not: [YAML",
		"app/templates/_partial.yaml":  "not: [YAML",
		"app/templates/empty.yaml":     "{{ if false }}x{{ end }}\n# nothing\n",
		"app/charts/_disabled/no.yaml": "no chart",
	})
	res, err := newRenderer(t).Render(t.Context(), render.Request{App: "app", Package: pack(t, files), Release: "r1", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range res.Objects {
		got = append(got, o.ID.Name+" "+o.Source)
	}
	want := "a app/templates/a.yaml, inner app/charts/outer/charts/inner/templates/i.yaml, kept app/templates/keep.bak, outer app/charts/outer/templates/o.yaml"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := helm.New(helm.Options{KubeVersion: "new"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("New = %v", err)
	}
}
