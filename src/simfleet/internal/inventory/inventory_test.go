package inventory

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	root   = "clusters/edge+c1"
	object = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  namespace: shop\n  labels: {%s: %s}\n  annotations: {%s: %s}\n"
	kust   = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: emco-7-%[1]s, namespace: flux-system, labels: {emco/deployment-id: 7-%[1]s}}\nspec: {path: ./clusters/edge+c1/context/7/app/%[1]s}\n"
)

// folder returns a folder of files, each a path and a text, sorted by path.
func folder(o *ObjectCache, files ...[2]string) *Folder {
	var entries []Entry
	contents := map[git.Hash][]byte{}
	for i, f := range files {
		id := git.Hash(fmt.Sprintf("%040x", i))
		entries = append(entries, Entry{Path: f[0], ID: id})
		contents[id] = []byte(f[1])
	}
	o.Add(contents)
	return NewFolder(entries)
}

func deployment(name, label, content string) string {
	return fmt.Sprintf(object, name, status.DeploymentLabel, label, status.ContentAnnotation, content)
}

func TestWithoutKustomizationsAllAppsAreApplied(t *testing.T) {
	t.Parallel()
	o := NewObjectCache(100)
	state, ok := o.Apply(root, folder(o,
		[2]string{"context/7/app/web/a+Deployment.yaml", deployment("a", "7-web", "90ab")},
		[2]string{"context/7/app/web/broken.yaml", "{"},
		[2]string{"context/7/app/zoo/b+Deployment.yaml", deployment("b", "7-zoo", "11ff")},
		[2]string{"status/7/app/x.yaml", deployment("no", "7-no", "00")},
	))
	if !ok || state.Flux || len(state.Apps) != 2 || state.Objects() != 2 {
		t.Fatalf("state is %+v, want two apps of one object each", state)
	}
	want := status.Object{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "a", Status: status.Current, Content: "90ab"}
	if a := state.Apps[0]; a.Label != "7-web" || a.Objects[0] != want {
		t.Errorf("app is %+v, want 7-web with %+v", a, want)
	}
}

// Files outside of the path of every Kustomization are not applied.
func TestKustomizationsSelectTheApps(t *testing.T) {
	t.Parallel()
	o := NewObjectCache(100)
	state, ok := o.Apply(root, folder(o,
		[2]string{"7.yaml", "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: emco-7}\n"},
		[2]string{"context/7/app/web/a+Deployment.yaml", deployment("a", "7-web", "90ab")},
		[2]string{"context/7/app/later/b+Deployment.yaml", deployment("b", "7-later", "11ff")},
		[2]string{"context/7/kustomization.yaml", "kind: Kustomization"},
		[2]string{"kust7.yaml", fmt.Sprintf(kust, "web")},
	))
	if !ok || !state.Flux || len(state.Apps) != 1 || state.Objects() != 2 {
		t.Fatalf("state is %+v, want one app: its Kustomization and its object", state)
	}
	if state.Apps[0].Objects[1].Kind != "Kustomization" {
		t.Errorf("objects are %+v, want the Kustomization among them", state.Apps[0].Objects)
	}
}

func TestFilesThatWereNotReadAreMissing(t *testing.T) {
	t.Parallel()
	o := NewObjectCache(100)
	f := NewFolder([]Entry{{"context/7/app/a/x.yaml", "1"}, {"context/7/app/b/x.yaml", "1"}, {"README.md", "2"}})
	if m := o.Missing(f); len(m) != 1 || m[0] != "1" {
		t.Errorf("missing is %v, want the one manifest", m)
	}
	if _, ok := o.Apply(root, f); ok {
		t.Error("a folder was applied although its files were not read")
	}
}

func TestDigestsDependOnPathsAndContents(t *testing.T) {
	t.Parallel()
	a := NewFolder([]Entry{{"a", "1"}, {"b", "2"}})
	if a.Digest != NewFolder([]Entry{{"a", "1"}, {"b", "2"}}).Digest {
		t.Error("equal folders have different digests")
	}
	for _, other := range [][]Entry{{{"a", "1"}}, {{"a", "2"}, {"b", "1"}}, {{"a", "1"}, {"c", "2"}}, nil} {
		if NewFolder(other).Digest == a.Digest {
			t.Errorf("%v has the digest of another folder", other)
		}
	}
}
