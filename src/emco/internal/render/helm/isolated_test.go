package helm_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// TestMain makes the test program a renderer's child when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		r, err := helm.New(helm.Default())
		if err == nil {
			err = isolated.Main(r, os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is for charts that render at once, on a machine that is busy.
const patience = time.Minute

// outside returns a renderer in a child of its own, with little memory.
func outside(within time.Duration) render.Renderer {
	l := isolated.Default()
	l.Memory, l.Work = 384<<20, within
	if raced {
		l.Memory = 1 << 40
	}
	return isolated.New("helm", []string{os.Args[0], "render-child"}, l)
}

// sample is a package that can be rendered.
var sample = map[string]string{
	"app/Chart.yaml":         "apiVersion: v2\nname: app\nversion: 1.0.0\n",
	"app/values.yaml":        "text: hello\n",
	"app/crds/c.yaml":        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c.example.com}\n",
	"app/templates/hook.yml": "apiVersion: v1\nkind: Pod\nmetadata: {name: h, annotations: {helm.sh/hook: test}}\n",
	"app/templates/b.yaml":   "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {text: {{ .Values.text }}, n: 12345678901234567890}\n",
}

func sampleRequest(t *testing.T, files map[string]string) render.Request {
	t.Helper()
	packed, err := rendertest.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return render.Request{
		App: "app", Package: rendertest.Archive(packed), Release: "r1", Namespace: "shop",
		Labels: []render.Label{{Key: "emco/deployment-id", Value: "17-app"}},
	}
}

// The renderer keeps the contract, in this process and in a child.
func TestRenderersKeepTheContract(t *testing.T) {
	t.Parallel()
	for where, r := range map[string]render.Renderer{"inside": newRenderer(t), "outside": outside(patience)} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			if err := rendertest.Check(t.Context(), r, sampleRequest(t, sample)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAChildRendersWhatTheParentWould(t *testing.T) {
	t.Parallel()
	req := sampleRequest(t, sample)
	a, errA := newRenderer(t).Render(t.Context(), req)
	b, errB := outside(patience).Render(t.Context(), req)
	if errA != nil || errB != nil || fmt.Sprintf("%#v", a) != fmt.Sprintf("%#v", b) {
		t.Errorf("inside %#v, %v, outside %#v, %v", a, errA, b, errB)
	}
}

// Charts that mean harm are ended or refused, and the app is named.
func TestHostileCharts(t *testing.T) {
	t.Parallel()
	base := map[string]string{"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"}
	for _, tt := range []struct{ name, file, text, want string }{
		{"a loop without end", "templates/a.yaml", `{{ range until 60000 }}{{ range until 60000 }}{{ range until 60000 }}{{ end }}{{ end }}{{ end }}`, "took more than 500ms"},
		{"a list of a billion", "templates/a.yaml", `{{ range until 1000000000 }}{{ end }}`, "and was ended"},
		{"output without end", "templates/a.yaml", `{{ range until 100000 }}{{ repeat 10000 "x" }}{{ end }}`, "and was ended"},
		{"output above the limit", "templates/a.yaml", `# {{ repeat 21000000 "x" }}`, "renders to 21"},
		{"a text doubled forty times", "templates/a.yaml", `{{ $x := "x" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}`, "and was ended"},
		{"a template that includes itself", "templates/_a.tpl", `{{ define "a" }}{{ include "a" . }}{{ end }}`, "nested reference"},
		{"a template that calls itself", "templates/_a.tpl", `{{ define "a" }}{{ template "a" . }}{{ end }}`, "depth"},
		{"a call for a cluster", "templates/a.yaml", `{{ (lookup "v1" "Secret" "ns" "s").data }}`, "lookup needs a cluster"},
		{"a call for a name server", "templates/a.yaml", `{{ getHostByName "example.com" }}`, "getHostByName"},
		{"an environment variable", "templates/a.yaml", `{{ env "HOME" }}`, `function "env" not defined`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if raced && strings.HasSuffix(tt.want, "ended") {
				t.Skip("children are not limited under the race detector")
			}
			files := maps.Clone(base)
			files["app/"+tt.file] = tt.text
			if strings.Contains(tt.text, "define") {
				files["app/templates/b.yaml"] = `{{ include "a" . }}`
			}
			within := patience
			if strings.HasSuffix(tt.want, "500ms") {
				within = 500 * time.Millisecond // of processor time
			} else if strings.HasSuffix(tt.want, "ended") {
				within = 2 * time.Second
			}
			_, err := outside(within).Render(t.Context(), sampleRequest(t, files))
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "app app: ") {
				t.Errorf("Render = %v, want an Invalid error with %q", err, tt.want)
			}
		})
	}
}
