package syncer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

func object(group, kind, namespace, name string) manifest.Object {
	return manifest.Object{ID: manifest.ID{Group: group, Version: "v1", Kind: kind, Namespace: namespace, Name: name}}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		objects []manifest.Object
		want    []string
	}{
		{"upstream's name is name and kind", []manifest.Object{object("apps", "Deployment", "n", "web")}, []string{"web+Deployment.yaml"}},
		{
			"the same name in two namespaces gets the namespace",
			[]manifest.Object{object("", "Secret", "a", "s"), object("", "Secret", "b", "s")},
			[]string{"s+Secret+a+.yaml", "s+Secret+b+.yaml"},
		},
		{
			"the same kind in two groups gets the group",
			[]manifest.Object{object("", "Service", "a", "s"), object("serving.knative.dev", "Service", "a", "s")},
			[]string{"s+Service+a+.yaml", "s+Service+a+serving.knative.dev.yaml"},
		},
		{
			"others keep the short name",
			[]manifest.Object{object("", "Secret", "a", "s"), object("", "Secret", "b", "s"), object("", "Secret", "b", "t")},
			[]string{"s+Secret+a+.yaml", "s+Secret+b+.yaml", "t+Secret.yaml"},
		},
		{
			"names that differ in case only get a hash",
			[]manifest.Object{object("g", "Role", "", "Admin"), object("g", "Role", "", "admin")},
			[]string{"Admin+Role++g+157bdba741e1.yaml", "admin+Role++g+43651dc641c5.yaml"},
		},
		{"colons stay, as in the names of roles", []manifest.Object{object("g", "Role", "", "system:node")}, []string{"system:node+Role.yaml"}},
	}
	for _, test := range tests {
		files, err := syncer.App{Name: "app", Objects: test.objects}.Files()
		if err != nil {
			t.Errorf("%s: Files: %v", test.name, err)
			continue
		}
		if got := names(files); !slices.Equal(got, test.want) {
			t.Errorf("%s: Files = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestObjectsThatHaveNoFileAreRefused(t *testing.T) {
	t.Parallel()
	two := object("apps", "Deployment", "n", "web")
	two.ID.Version = "v1beta1"
	two.Source = "chart/web.yaml"
	tests := map[string][]manifest.Object{
		"twice in two versions": {object("apps", "Deployment", "n", "web"), two},
		"no name":               {object("", "Secret", "n", "")},
		"a slash":               {object("", "Secret", "n", "../x")},
		"a line end":            {object("", "Secret", "n", "a\nb")},
	}
	for name, objects := range tests {
		_, err := syncer.App{Name: "shop", Objects: objects}.Files()
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "app shop: ") {
			t.Errorf("%s: Files: %v, want Invalid that names the app", name, err)
		}
	}
}

// Whatever the objects, their files have names of their own, in any order of objects,
// also where case is ignored, and each is a plain file name.
func TestFileNamesNeverCollide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "A", "b", "a+b", "a+Kind", strings.Repeat("x", 253), strings.Repeat("x", 252) + "y"})
		one := rapid.Custom(func(t *rapid.T) manifest.Object {
			return object(part.Draw(t, "group"), rapid.SampledFrom([]string{"Kind", "kind", "B"}).Draw(t, "kind"), part.Draw(t, "namespace"), part.Draw(t, "name"))
		})
		objects := rapid.SliceOfNDistinct(one, 1, 30, func(o manifest.Object) manifest.ID { return o.ID }).Draw(t, "objects")
		files, err := syncer.App{Objects: objects}.Files()
		if err != nil {
			t.Fatalf("Files: %v", err)
		}
		seen := map[string]bool{}
		for _, f := range files {
			key := strings.ToLower(f.Name)
			if seen[key] || len(f.Name) > 255 || strings.Contains(f.Name, "/") {
				t.Fatalf("file name %q is taken or not plain", f.Name)
			}
			seen[key] = true
		}
		slices.Reverse(objects)
		again, err := syncer.App{Objects: objects}.Files()
		if err != nil || !slices.Equal(names(files), names(again)) {
			t.Fatalf("in reverse order Files = %q, %v; want %q", names(again), err, names(files))
		}
	})
}

func names(files []syncer.File) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.Name
	}
	return out
}

func TestPathsOfATarget(t *testing.T) {
	t.Parallel()
	target := syncer.Target{Cluster: v2.NewClusterKey("p", "c"), Deployment: "42"}
	app, err := target.AppDir("web")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{target.Root(), target.Dir(), app, target.Pointer("kust")}
	want := []string{"clusters/p+c", "clusters/p+c/context/42", "clusters/p+c/context/42/app/web", "clusters/p+c/kust42.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("paths are %q, want %q", got, want)
	}
	for _, bad := range []string{"", "..", "a/b", ".GIT", "a\\b", "x\x7f", strings.Repeat("l", 256)} {
		if _, err := target.AppDir(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("AppDir(%q): %v, want Invalid", bad, err)
		}
		for _, at := range []syncer.Target{
			{Cluster: v2.NewClusterKey(bad, "c"), Deployment: "1"},
			{Cluster: v2.NewClusterKey("p", bad), Deployment: "1"},
			{Cluster: v2.NewClusterKey("p", "c"), Deployment: v2.DeploymentID(bad)},
		} {
			if err := at.Check(); !errs.Is(err, errs.Invalid) {
				t.Errorf("Check of %q, %q: %v, want Invalid", at.Cluster, at.Deployment, err)
			}
		}
	}
}

func TestClustersFanOutOverDirectories(t *testing.T) {
	t.Parallel()
	dirs := map[string]bool{}
	for i := range 3000 {
		at := syncer.Target{Cluster: v2.NewClusterKey("edge", fmt.Sprintf("c%d", i)), Deployment: "7", FanOut: true}
		part := strings.Split(at.Dir(), "/")
		if len(part) != 5 || part[0] != "clusters" || len(part[1]) != 2 || part[2] != at.Cluster.String() {
			t.Fatalf("the directory is %s", at.Dir())
		}
		dirs[part[1]] = true
	}
	if len(dirs) != 256 {
		t.Errorf("3000 clusters are in %d directories, want 256", len(dirs))
	}
}
