package syncertest_test

import (
	"bytes"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/git"
)

// soundBackend is a backend that keeps the contract, with one file to break it.
type soundBackend struct {
	writer *syncer.Writer
	spoil  func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error)
}

func newSound() soundBackend {
	return soundBackend{writer: syncer.NewWriter(map[string]string{"keep": "yes"})}
}

func (s soundBackend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	files, err := s.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	edits := []git.Edit{syncer.EditDir(t.Dir(), files)}
	if s.spoil != nil {
		edits, err = s.spoil(t, apps, files)
	}
	return syncer.Change{Edits: edits}, err
}

func TestASoundBackendPasses(t *testing.T) {
	t.Parallel()
	if err := syncertest.Check(syncer.Owned(newSound())); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestEachBrokenRuleIsCaught(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	dir := func(t syncer.Target, files map[string][]byte) []git.Edit {
		return []git.Edit{syncer.EditDir(t.Dir(), files)}
	}
	tests := map[string]struct {
		spoil func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error)
		rule  string
	}{
		"minds the order": {func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if len(apps) > 0 {
				files["first"] = []byte(apps[0].Name)
			}
			return dir(t, files), nil
		}, "nothing but the set"},
		"counts its calls": {func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if n := calls.Add(1); len(apps) > 0 {
				files["call"] = []byte(strings.Repeat("x", int(n)))
			}
			return dir(t, files), nil
		}, "nothing but the set"},
		"sorts what it was given": {func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if len(apps) > 0 && t.Cluster.Cluster() == "c1" {
				slices.Reverse(apps)
			}
			return dir(t, files), nil
		}, "nothing but the set"},
		"writes elsewhere": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			return append(dir(t, files), git.Edit{Path: "README.md", File: []byte("mine")}), nil
		}, "edits stay within"},
		"forgets an object": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			delete(files, "app/collectd/agent+Service.yaml")
			return dir(t, files), nil
		}, "exactly one file"},
		"writes an object twice": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if one, ok := files["app/collectd/agent+Service.yaml"]; ok {
				files["app/collectd/again.yaml"] = one
			}
			return dir(t, files), nil
		}, "exactly one file"},
		"names the cluster in content": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			for name, text := range files {
				files[name] = append(bytes.Clone(text), "# "+t.Cluster.String()+"\n"...)
			}
			return dir(t, files), nil
		}, "equal files on all clusters"},
		"leaves a crumb": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			files["crumb"] = []byte("x")
			return dir(t, files), nil
		}, "nothing is left"},
		"forgets to remove": {func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if len(apps) == 0 {
				return nil, nil
			}
			return dir(t, files), nil
		}, "nothing is left"},
		"writes a credential": {func(t syncer.Target, apps []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			if len(apps) > 0 {
				files["login"] = []byte(syncertest.Planted)
			}
			return dir(t, files), nil
		}, "no file holds a credential"},
		"lets definitions go": {func(t syncer.Target, _ []syncer.App, files map[string][]byte) ([]git.Edit, error) {
			for name, text := range files {
				files[name] = bytes.ReplaceAll(text, []byte("  annotations:\n    keep: \"yes\"\n"), nil)
			}
			return dir(t, files), nil
		}, "definitions outlive"},
		"joins names to paths": {func(t syncer.Target, apps []syncer.App, _ map[string][]byte) ([]git.Edit, error) {
			files := map[string][]byte{}
			for _, a := range apps {
				for _, o := range slices.Concat(a.Objects, a.CRDs) {
					files[path.Join("app", a.Name, o.ID.Name+"+"+o.ID.Kind+".yaml")] = o.Content
				}
			}
			return []git.Edit{{Path: t.Dir(), Dir: files}}, nil
		}, "like names"},
		"panics": {func(syncer.Target, []syncer.App, map[string][]byte) ([]git.Edit, error) {
			panic("oh")
		}, "panics"},
		"always fails": {func(syncer.Target, []syncer.App, map[string][]byte) ([]git.Edit, error) {
			return nil, errors.New("no")
		}, "nothing but the set"},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		b := newSound()
		b.spoil = tests[name].spoil
		err := syncertest.Check(b)
		if err == nil || !strings.Contains(err.Error(), tests[name].rule) {
			t.Errorf("Check of a backend that %s: got %v, want an error with %q", name, err, tests[name].rule)
		}
	}
}

// climbingBackend writes object names into paths without a look at them.
type climbingBackend struct{}

func (climbingBackend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	e := git.Edit{Path: t.Root(), Dir: map[string][]byte{}}
	for _, a := range apps {
		for _, o := range a.Objects {
			e.Dir[a.Name+"/"+o.ID.Name] = o.Content
		}
	}
	return syncer.Change{Edits: []git.Edit{e}}, nil
}

func TestABackendThatClimbsIsCaught(t *testing.T) {
	t.Parallel()
	err := syncertest.Check(climbingBackend{})
	if err == nil || !strings.Contains(err.Error(), "hostile names are refused") {
		t.Errorf("Check(climbing) = %v, want an error about hostile names", err)
	}
}

func TestObjectIsCanonical(t *testing.T) {
	t.Parallel()
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Name: "a"}, nil)
	if want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}` + "\n"; string(o.Content) != want {
		t.Errorf("Object content = %q, want %q", o.Content, want)
	}
}
