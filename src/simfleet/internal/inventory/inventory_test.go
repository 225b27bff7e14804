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

// folder makes a folder of texts, in order of paths.
func folder(o *Objects, files ...[2]string) *Folder {
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

func TestAllAppsAreAppliedWhereNothingPoints(t *testing.T) {
	t.Parallel()
	o := NewObjects(100)
	held, ok := o.Apply(root, folder(o,
		[2]string{"context/7/app/web/a+Deployment.yaml", deployment("a", "7-web", "90ab")},
		[2]string{"context/7/app/web/broken.yaml", "{"},
		[2]string{"context/7/app/zoo/b+Deployment.yaml", deployment("b", "7-zoo", "11ff")},
		[2]string{"status/7/app/x.yaml", deployment("no", "7-no", "00")},
	))
	if !ok || held.Flux || len(held.Apps) != 2 || held.Objects() != 2 {
		t.Fatalf("holds %+v, want two apps of one object each", held)
	}
	want := status.Object{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "a", Status: status.Current, Content: "90ab"}
	if a := held.Apps[0]; a.Label != "7-web" || a.Objects[0] != want {
		t.Errorf("app is %+v, want 7-web with %+v", a, want)
	}
}

// Files that no Kustomization points at are not applied.
func TestPointersOfFluxDecide(t *testing.T) {
	t.Parallel()
	o := NewObjects(100)
	held, ok := o.Apply(root, folder(o,
		[2]string{"7.yaml", "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: emco-7}\n"},
		[2]string{"context/7/app/web/a+Deployment.yaml", deployment("a", "7-web", "90ab")},
		[2]string{"context/7/app/later/b+Deployment.yaml", deployment("b", "7-later", "11ff")},
		[2]string{"context/7/kustomization.yaml", "kind: Kustomization"},
		[2]string{"kust7.yaml", fmt.Sprintf(kust, "web")},
	))
	if !ok || !held.Flux || len(held.Apps) != 1 || held.Objects() != 2 {
		t.Fatalf("holds %+v, want one app: its Kustomization and its object", held)
	}
	if held.Apps[0].Objects[1].Kind != "Kustomization" {
		t.Errorf("objects are %+v, want the Kustomization among them", held.Apps[0].Objects)
	}
}

func TestWhatWasNotReadIsMissing(t *testing.T) {
	t.Parallel()
	o := NewObjects(100)
	f := NewFolder([]Entry{{"context/7/app/a/x.yaml", "1"}, {"context/7/app/b/x.yaml", "1"}, {"README.md", "2"}})
	if m := o.Missing(f); len(m) != 1 || m[0] != "1" {
		t.Errorf("missing is %v, want the one manifest", m)
	}
	if _, ok := o.Apply(root, f); ok {
		t.Error("a folder was applied that was not read")
	}
}

func TestDigestsAreThoseOfPathsAndContents(t *testing.T) {
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
