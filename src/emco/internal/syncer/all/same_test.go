package all_test

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

// appFiles returns what a backend makes of the same apps below "app/", and how many
// files it has elsewhere.
func appFiles(t *testing.T, b syncer.Backend) (files map[string][]byte, pointers int) {
	t.Helper()
	object := func(group, kind, namespace, name string, annotations map[string]any) manifest.Object {
		o := syncertest.Object(manifest.ID{Group: group, Version: "v1", Kind: kind, Namespace: namespace, Name: name}, map[string]any{
			"metadata": map[string]any{"name": name, "namespace": namespace, "annotations": annotations},
		})
		return o
	}
	apps := []syncer.App{
		{Name: "web", Objects: []manifest.Object{
			object("", "ConfigMap", "tenant", "settings", nil),
			object("batch", "Job", "tenant", "migrate", map[string]any{"helm.sh/hook": "pre-upgrade"}),
			object("", "PersistentVolumeClaim", "tenant", "data", map[string]any{"helm.sh/resource-policy": "keep"}),
		}, DependsOn: []syncer.Dependency{{App: "operator", Ready: true}}},
		{Name: "operator", CRDs: []manifest.Object{object("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.org", nil)}},
	}
	at := syncertest.Target("edge+c1")
	c, err := b.Plan(at, apps)
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	files = map[string][]byte{}
	for _, e := range c.Edits {
		if e.File != nil {
			pointers++
		}
		for name, content := range e.Dir {
			if full := path.Join(e.Path, name); strings.HasPrefix(full, at.Dir()+"/app/") {
				files[full] = content
			} else {
				pointers++
			}
		}
	}
	return files, pointers
}

// A cluster that goes from one reconciler to another keeps its apps' files to the byte:
// only what points at them is rewritten.
func TestAllBackendsWriteTheSameAppFolders(t *testing.T) {
	t.Parallel()
	r := all.Backends()
	var want map[string][]byte
	for _, name := range r.Names() {
		b, err := r.Open(name, r.Example(name))
		if err != nil {
			t.Fatal(err)
		}
		got, pointers := appFiles(t, b)
		if want == nil {
			want = got
		}
		if !maps.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s writes other files for apps:\n%s\nwant\n%s", name, listing(got), listing(want))
		}
		if name == "git" && pointers > 0 || slices.Contains([]string{"fluxcd", "argocd", "anthos"}, name) && pointers == 0 {
			t.Errorf("%s writes %d files that point at them", name, pointers)
		}
	}
	if len(want) != 4 {
		t.Errorf("there are %d files, want 4", len(want))
	}
}

func listing(files map[string][]byte) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&out, "-- %s --\n%s", name, files[name])
	}
	return out.String()
}
