package syncer_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

func configMaps(names ...string) (out []manifest.Object) {
	for _, n := range names {
		out = append(out, manifest.Object{ID: manifest.ID{Version: "v1", Kind: "ConfigMap", Name: n}, Content: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + n + `"}}`)})
	}
	return out
}

func TestTargetsWithTheSameAppsShareATree(t *testing.T) {
	t.Parallel()
	w := syncer.NewWriterWith(syncer.Keep(), map[string][]byte{"always": []byte("x")})
	web, db := configMaps("a", "b"), configMaps("a", "b")
	tree := func(apps ...syncer.App) map[string][]byte {
		files, err := w.Tree(apps)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	same := func(a, b map[string][]byte) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	first := tree(syncer.App{Name: "web", Objects: web})
	if !same(first, tree(syncer.App{Name: "web", Objects: web})) {
		t.Error("the same apps give two trees")
	}
	for what, other := range map[string]map[string][]byte{
		"another name":     tree(syncer.App{Name: "db", Objects: web}),
		"other objects":    tree(syncer.App{Name: "web", Objects: db}),
		"fewer objects":    tree(syncer.App{Name: "web", Objects: web[:1]}),
		"definitions":      tree(syncer.App{Name: "web", CRDs: web}),
		"one app more":     tree(syncer.App{Name: "web", Objects: web}, syncer.App{Name: "db", Objects: db}),
		"no apps, no file": tree(),
	} {
		if same(first, other) {
			t.Errorf("%s: the tree is shared", what)
		}
	}
	if len(tree()) != 0 || len(first) != 3 {
		t.Errorf("%d files without apps, %d of one app; want none, and the one of each tree too", len(tree()), len(first))
	}
	for i := range 20 { // more than are remembered
		tree(syncer.App{Name: fmt.Sprint("app", i), Objects: web})
	}
	if got := tree(syncer.App{Name: "web", Objects: web}); !reflect.DeepEqual(got, first) {
		t.Errorf("a tree that was forgotten comes back as %v", got)
	}
}
