package customizetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares what clusters get by a controller's edits with testdata/NAME.yaml. charts are the objects
// that the charts of the apps render, by app.
func Golden(t testing.TB, name string, c customize.Controller, d customize.Deployment, charts map[string]string) {
	t.Helper()
	edits, err := c.Customize(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range edits.Findings {
		fmt.Fprintf(&b, "# finding of app %s: %s\n", f.App, f.Text)
	}
	for _, app := range d.Apps {
		for _, class := range customize.Classes(app.Name, app.Clusters, edits.Edits) {
			fmt.Fprintf(&b, "# app %s on %v\n", app.Name, class.Clusters)
			writeClass(t, &b, class, app.Name, d.Namespace, charts[app.Name])
		}
	}
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != b.String() {
		t.Errorf("%s (%v) is not what the controller makes (go test -update rewrites it):\n%s", file, err, b.String())
	}
}

// writeClass writes the objects that the clusters of a class get.
func writeClass(t testing.TB, b *strings.Builder, class customize.Class, app, namespace, chart string) {
	t.Helper()
	objects, err := manifest.Parse("workload.yaml", []byte(chart))
	if err == nil {
		objects, err = manifest.Complete(objects, manifest.Defaults{Namespace: namespace, Stamp: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := class.Apply(render.Result{Objects: objects}, render.Request{App: app, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("app %s: %s", app, f)
	}
	for _, o := range r.Objects {
		text, err := yaml.JSONToYAML(o.Content)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "---\n%s", text)
	}
}
