package helm_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// examples is where the example charts and profiles lie, from this directory.
const examples = "../../../../../examples"

// goldenRequest is the file "request" of a golden archive. Package and profile come from the
// examples, unless the archive holds files below "chart/" and "profile/".
type goldenRequest struct {
	App       string   `json:"app"`
	Profile   bool     `json:"profile,omitempty"`
	Release   string   `json:"release"`
	Namespace string   `json:"namespace"`
	Overrides []string `json:"overrides,omitempty"` // key=value
	Labels    []string `json:"labels,omitempty"`    // key=value
}

// Each archive in testdata holds a request and what it renders to. With -update
// the latter is rewritten.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			golden(t, file)
		})
	}
}

func golden(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	res, err := newRenderer(t).Render(t.Context(), request(t, ar))
	want := txtar.Format(ar)
	var kept []txtar.File
	for _, f := range ar.Files {
		if top, _, _ := strings.Cut(f.Name, "/"); top == "request" || top == "chart" || top == "profile" {
			kept = append(kept, f)
		}
	}
	ar.Files = append(kept, output(t, res, err)...)
	got := txtar.Format(ar)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; see git diff after -update:\n%s", file, got)
	}
}

func newRenderer(t *testing.T) render.Renderer {
	t.Helper()
	r, err := helm.New(helm.Default())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// request builds the request that a golden archive describes.
func request(t *testing.T, ar *txtar.Archive) render.Request {
	t.Helper()
	var in goldenRequest
	chart, profile := map[string]string{}, map[string]string{}
	for _, f := range ar.Files {
		switch top, rest, _ := strings.Cut(f.Name, "/"); top {
		case "request":
			if err := yaml.UnmarshalStrict(f.Data, &in); err != nil {
				t.Fatal(err)
			}
		case "chart":
			chart[rest] = string(f.Data)
		case "profile":
			profile[rest] = string(f.Data)
		}
	}
	if len(chart) == 0 {
		chart = folder(t, filepath.Join(examples, "charts", in.App), in.App)
	}
	if len(profile) == 0 && in.Profile {
		profile = folder(t, filepath.Join(examples, "profiles", in.App), "")
	}
	req := render.Request{App: in.App, Release: in.Release, Namespace: in.Namespace, Package: pack(t, chart)}
	if len(profile) > 0 {
		req.Profile = pack(t, profile)
	}
	for _, o := range in.Overrides {
		k, v, _ := strings.Cut(o, "=")
		req.Overrides = append(req.Overrides, render.Override{Key: k, Value: v})
	}
	for _, l := range in.Labels {
		k, v, _ := strings.Cut(l, "=")
		req.Labels = append(req.Labels, render.Label{Key: k, Value: v})
	}
	return req
}

func folder(t *testing.T, dir, under string) map[string]string {
	t.Helper()
	files, err := rendertest.Dir(os.DirFS(dir), under)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func pack(t *testing.T, files map[string]string) render.Archive {
	t.Helper()
	packed, err := rendertest.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return rendertest.Archive(packed)
}

// output writes a result as files that are good to read and to compare.
func output(t *testing.T, res render.Result, err error) []txtar.File {
	t.Helper()
	if err != nil {
		return []txtar.File{{Name: "error", Data: []byte(err.Error() + "\n")}}
	}
	var out []txtar.File
	add := func(dir string, i int, o manifest.Object, head string) {
		var indented bytes.Buffer
		if err := json.Indent(&indented, o.Content, "", "  "); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s/%02d-%s-%s", dir, i+1, o.ID.Kind, o.ID.Name)
		out = append(out, txtar.File{Name: name, Data: append([]byte("# "+o.Source+head+"\n"), indented.Bytes()...)})
	}
	for i, o := range res.CRDs {
		add("crds", i, o, "")
	}
	for i, o := range res.Objects {
		add("objects", i, o, "")
	}
	for i, h := range res.Hooks {
		add("hooks", i, h.Object, fmt.Sprintf(" %v weight %d delete %v", h.Events, h.Weight, h.DeletePolicies))
	}
	if len(res.Findings) > 0 {
		out = append(out, txtar.File{Name: "findings", Data: []byte(strings.Join(res.Findings, "\n") + "\n")})
	}
	return out
}
