package syncer_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

var cluster = v2.NewClusterKey("p", "c")

// fixedBackend is a backend that plans the same edits for every target.
type fixedBackend struct {
	edits []git.Edit
	calls *int
}

func (f fixedBackend) Plan(syncer.Target, []syncer.App) (syncer.Change, error) {
	*f.calls++
	return syncer.Change{Edits: f.edits}, nil
}

// pointerBackend is one with a pointer file.
type pointerBackend struct{ fixedBackend }

func (pointerBackend) Pointers(t syncer.Target) []string { return []string{t.Pointer("")} }

func TestOwnedRefusesPlansBeyondTheTarget(t *testing.T) {
	t.Parallel()
	at := syncer.Target{Cluster: cluster, Deployment: "7"}
	file := []byte("x")
	dir := git.Edit{Path: at.Dir(), Dir: map[string][]byte{"app/a/x.yaml": file}}
	pointer := git.Edit{Path: at.Pointer(""), File: file}
	inside := func(names ...string) []git.Edit {
		e := git.Edit{Path: at.Dir(), Dir: map[string][]byte{}}
		for _, name := range names {
			e.Dir[name] = file
		}
		return []git.Edit{e}
	}
	for _, c := range []struct {
		name   string
		edits  []git.Edit
		points bool
		ok     bool
	}{
		{"what the target owns", []git.Edit{dir}, false, true},
		{"nothing left", []git.Edit{{Path: at.Dir()}}, false, true},
		{"its directory and pointer", []git.Edit{pointer, dir}, true, true},
		{"a pointer that is not declared", []git.Edit{pointer, dir}, false, false},
		{"a pointer that is not covered", []git.Edit{dir}, true, false},
		{"edits that are not sorted", []git.Edit{dir, pointer}, true, false},
		{"no edit", nil, false, false},
		{"an edit twice", []git.Edit{dir, dir}, false, false},
		{"the directory of another cluster", []git.Edit{{Path: "clusters/p+other/context/7"}}, false, false},
		{"the directory of another deployment", []git.Edit{{Path: "clusters/p+c/context/8"}}, false, false},
		{"the directory of the cluster", []git.Edit{{Path: at.Root()}}, false, false},
		{"another file of the repository, too", []git.Edit{{Path: "README.md", File: file}, dir}, false, false},
		{"its directory by another path", []git.Edit{{Path: "clusters/p+c/./context/7"}}, false, false},
		{"a file and a directory in one", []git.Edit{{Path: at.Dir(), Dir: dir.Dir, File: file}}, false, false},
		{"a file above its directory", inside("../8/x.yaml"), false, false},
		{"a file that climbs further down", inside("app/../../x.yaml"), false, false},
		{"a file by an absolute path", inside("/etc/passwd"), false, false},
		{"a file by an unclean path", inside("app//x.yaml"), false, false},
		{"a file without a name", inside(""), false, false},
		{"a file in .git", inside("app/a/.git/config"), false, false},
		{"a file in .GIT", inside("app/a/.GIT/config"), false, false},
		{"a backslash", inside(`app\x.yaml`), false, false},
		{"a good file and a bad one", inside("app/a/x.yaml", "../x.yaml"), false, false},
	} {
		var b syncer.Backend = fixedBackend{c.edits, new(int)}
		if c.points {
			b = pointerBackend{fixedBackend{c.edits, new(int)}}
		}
		_, err := syncer.Owned(b).Plan(at, []syncer.App{{Name: "a"}})
		if c.ok && err != nil || !c.ok && !errs.Is(err, errs.Internal) {
			t.Errorf("%s: Plan: %v; want it accepted: %t, else Internal", c.name, err, c.ok)
		}
		if !c.ok && !strings.Contains(errText(err), "p+c") {
			t.Errorf("%s: the error does not name the cluster: %v", c.name, err)
		}
	}
}

// Targets with the same apps share a tree, which is checked once. So what must never happen, a change of a tree that was
// planned, goes unnoticed: that shows that the paths are not checked for each target.
func TestATreeThatTargetsShareIsCheckedOnce(t *testing.T) {
	t.Parallel()
	plan := func(b syncer.Backend, edits []git.Edit, cluster string, tree map[string][]byte) error {
		at := syncer.Target{Cluster: v2.NewClusterKey("p", cluster), Deployment: "7"}
		edits[0] = git.Edit{Path: at.Dir(), Dir: tree}
		_, err := b.Plan(at, []syncer.App{{Name: "a"}})
		return err
	}
	edits := make([]git.Edit, 1)
	b := syncer.Owned(fixedBackend{edits, new(int)})
	shared := map[string][]byte{"app/a/x.yaml": []byte("x")}
	if err := plan(b, edits, "c1", shared); err != nil {
		t.Fatal(err)
	}
	shared["../x.yaml"] = []byte("x")
	if err := plan(b, edits, "c2", shared); err != nil {
		t.Errorf("the tree was checked again: %v", err)
	}
	if err := plan(b, edits, "c3", maps.Clone(shared)); !errs.Is(err, errs.Internal) {
		t.Errorf("another tree with a bad path: Plan: %v, want Internal", err)
	}
	for i := range 20 { // more than are remembered
		if err := plan(b, edits, "c4", map[string][]byte{fmt.Sprintf("app/a/%d.yaml", i): nil}); err != nil {
			t.Fatal(err)
		}
	}
	if err := plan(b, edits, "c5", shared); !errs.Is(err, errs.Internal) {
		t.Errorf("a tree that was forgotten: Plan: %v, want it checked again, and Internal", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOwnedRefusesBadInputBeforeTheBackendSeesIt(t *testing.T) {
	t.Parallel()
	good := syncer.Target{Cluster: cluster, Deployment: "7"}
	for name, c := range map[string]struct {
		at   syncer.Target
		apps []syncer.App
	}{
		"a cluster that climbs":    {syncer.Target{Cluster: v2.NewClusterKey("../p", "c"), Deployment: "7"}, nil},
		"a deployment that climbs": {syncer.Target{Cluster: cluster, Deployment: ".."}, nil},
		"no deployment":            {syncer.Target{Cluster: cluster}, nil},
		"an app that climbs":       {good, []syncer.App{{Name: ".."}}},
		"an app that comes twice":  {good, []syncer.App{{Name: "a"}, {Name: "b"}, {Name: "a"}}},
	} {
		calls := 0
		if _, err := syncer.Owned(fixedBackend{nil, &calls}).Plan(c.at, c.apps); !errs.Is(err, errs.Invalid) || calls > 0 {
			t.Errorf("%s: Plan: %v after %d calls of the backend, want Invalid and none", name, err, calls)
		}
	}
}

// The guard keeps the backend's other interfaces.
func TestOwnedKeepsPointers(t *testing.T) {
	t.Parallel()
	if _, ok := syncer.Owned(fixedBackend{}).(syncer.PointerBackend); ok {
		t.Error("a backend without pointers has some")
	}
	at := syncer.Target{Cluster: cluster, Deployment: "7"}
	if p, ok := syncer.Owned(pointerBackend{}).(syncer.PointerBackend); !ok || len(p.Pointers(at)) != 1 {
		t.Error("the pointers of a backend are lost")
	}
}
