package syncertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

// Object returns an object in canonical form with the given members in addition to those
// that identify it.
func Object(id manifest.ID, members map[string]any) manifest.Object {
	metadata := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		metadata["namespace"] = id.Namespace
	}
	tree := map[string]any{"apiVersion": id.APIVersion(), "kind": id.Kind, "metadata": metadata}
	maps.Copy(tree, members)
	content, err := json.Marshal(tree)
	if err != nil {
		panic("syncertest: an input is no JSON: " + err.Error())
	}
	content = append(content, '\n')
	return manifest.Object{ID: id, Content: content, Digest: manifest.DigestOf(content), Source: "chart/templates/x.yaml"}
}

func id(group, version, kind, namespace, name string) manifest.ID {
	return manifest.ID{Group: group, Version: version, Kind: kind, Namespace: namespace, Name: name}
}

// apps returns the desired apps of the check: two, one with a definition.
func apps() []syncer.App {
	return []syncer.App{
		{Name: "collectd", Objects: []manifest.Object{
			Object(id("", "v1", "ConfigMap", "tenant", "config"), map[string]any{"data": map[string]any{"size": "010", "on": "yes"}}),
			Object(id("apps", "v1", "DaemonSet", "tenant", "agent"), map[string]any{"spec": map[string]any{"minReadySeconds": 5}}),
			Object(id("", "v1", "Service", "tenant", "agent"), map[string]any{"spec": map[string]any{"clusterIP": "None"}}),
		}},
		{Name: "operator", Objects: []manifest.Object{
			Object(id("example.org", "v1", "Widget", "tenant", "w"), map[string]any{"spec": map[string]any{"big": json.Number("9007199254740993")}}),
		}, CRDs: []manifest.Object{
			Object(id("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "widgets.example.org"), nil),
		}},
	}
}

// likeApps returns objects whose file names would be equal in upstream EMCO.
func likeApps() []syncer.App {
	long := strings.Repeat("n", 240)
	return []syncer.App{{Name: "like", Objects: []manifest.Object{
		Object(id("", "v1", "ConfigMap", "a", "same"), nil),
		Object(id("", "v1", "ConfigMap", "b", "same"), nil),
		Object(id("serving.knative.dev", "v1", "Service", "a", "web"), nil),
		Object(id("", "v1", "Service", "a", "web"), nil),
		Object(id("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "Admin"), nil),
		Object(id("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "admin"), nil),
		Object(id("", "v1", "ConfigMap", "a", long+"1"), nil),
		Object(id("", "v1", "ConfigMap", "a", long+"2"), nil),
		Object(id("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "system:x+y"), nil),
	}}}
}

// turned returns the same apps in another order, of apps and of objects.
func turned(apps []syncer.App, turn int) []syncer.App {
	for i := range apps {
		n := len(apps[i].Objects)
		apps[i].Objects = slices.Concat(apps[i].Objects[turn%n:], apps[i].Objects[:turn%n])
	}
	if turn%2 == 1 {
		slices.Reverse(apps)
	}
	return apps
}

// flatten returns the files after the edits, by path.
func flatten(edits []git.Edit) map[string]string {
	out := map[string]string{}
	for _, e := range edits {
		if e.File != nil {
			out[e.Path] = string(e.File)
		}
		for name, content := range e.Dir {
			out[e.Path+"/"+name] = string(content)
		}
	}
	return out
}

// compare returns where two plans differ, "" if they do not.
func compare(a, b []git.Edit) string {
	if len(a) != len(b) {
		return fmt.Sprintf("the number of edits, %d and %d", len(a), len(b))
	}
	for i := range a {
		same := a[i].Path == b[i].Path && bytes.Equal(a[i].File, b[i].File) && (a[i].File == nil) == (b[i].File == nil) &&
			maps.EqualFunc(a[i].Dir, b[i].Dir, bytes.Equal)
		if !same {
			return a[i].Path
		}
	}
	return ""
}

// objectsBelow counts the objects in the files of a directory.
func objectsBelow(files map[string]string, dir string) (map[manifest.ID]int, error) {
	out := map[manifest.ID]int{}
	for name, text := range files {
		if path.Dir(name) != dir {
			continue
		}
		var o struct {
			APIVersion string
			Kind       string
			Metadata   struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		group, version, split := strings.Cut(o.APIVersion, "/")
		if !split {
			group, version = "", o.APIVersion
		}
		out[id(group, version, o.Kind, o.Metadata.Namespace, o.Metadata.Name)]++
	}
	return out, nil
}
