// Package syncertest holds the contract of sync backends as a check for any backend.
package syncertest

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

// Planted is every credential in the example options of backends. No plan may hold it.
const Planted = "planted-credential"

// Target returns the target that the check plans for, on the cluster with a key, which need
// not be valid.
func Target(key string) syncer.Target {
	provider, cluster, _ := strings.Cut(key, "+")
	return syncer.Target{
		Cluster: v2.NewClusterKey(provider, cluster), Deployment: "2175235486952720473", Namespace: "tenant",
		Cloud: syncer.Cloud{Name: "shop+east"},
		Repo:  syncer.Coordinates{URL: "https://git.example.org/fleet/edge.git", Branch: "main"},
	}
}

// Check tests b against the contract of syncer.Backend and returns all violations.
func Check(b syncer.Backend) error {
	var broken []error
	for _, rule := range rules {
		if err := guarded(rule.holds, b); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", rule.name, err))
		}
	}
	return errors.Join(broken...)
}

var rules = []struct {
	name  string
	holds func(syncer.Backend) error
}{
	{"the plan depends on nothing but the set of objects", pure},
	{"edits stay within what the target owns", inBounds},
	{"each object is in exactly one file", complete},
	{"objects with like names have files of their own", likeNames},
	{"equal objects have equal files on all clusters", shared},
	{"an app that leaves leaves nothing", leaving},
	{"nothing is left when nothing is desired", nothingLeft},
	{"no file holds a credential", noCredential},
	{"hostile names are refused", hostile},
	{"definitions outlive their app", definitionsMarked},
	{"a cluster that fans out has the same files in another directory", fansOut},
}

// guarded turns a panic of a backend into a broken rule.
func guarded(holds func(syncer.Backend) error, b syncer.Backend) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panics: %v", p)
		}
	}()
	return holds(b)
}

func pure(b syncer.Backend) error {
	t := Target("edge+c1")
	given := apps()
	first, err := b.Plan(t, given)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(given, apps()) {
		return errors.New("planning changed the apps that it was given")
	}
	var group errgroup.Group
	for turn := range 4 {
		group.Go(func() error {
			again, err := b.Plan(t, turned(apps(), turn))
			if diff := compare(first.Edits, again.Edits); err == nil && diff != "" {
				return fmt.Errorf("planning again, in another order, differs in %s", diff)
			}
			return err
		})
	}
	return group.Wait()
}

func inBounds(b syncer.Backend) error {
	t := Target("edge+c1")
	own := []string{t.Dir()}
	if p, ok := b.(syncer.PointerBackend); ok {
		own = append(own, p.Pointers(t)...)
	}
	for _, pointer := range own[1:] {
		if !isPointer(pointer, t) {
			return fmt.Errorf("pointer %s is neither in %s nor in a directory for pointers there", pointer, t.Root())
		}
	}
	for _, desired := range [][]syncer.App{apps(), nil} {
		c, err := b.Plan(t, desired)
		if err != nil {
			return err
		}
		for _, e := range c.Edits {
			if !slices.Contains(own, e.Path) {
				return fmt.Errorf("%s is none of %s", e.Path, strings.Join(own, ", "))
			}
			for name := range e.Dir {
				if path.IsAbs(name) || path.Clean("/"+name) != "/"+name {
					return fmt.Errorf("%q below %s is not a clean path", name, e.Path)
				}
			}
		}
		for _, path := range own {
			if !slices.ContainsFunc(c.Edits, func(e git.Edit) bool { return e.Path == path }) {
				return fmt.Errorf("no edit covers %s", path)
			}
		}
	}
	return nil
}

// isPointer reports whether a path may be a pointer's: in the cluster's directory, or in a
// directory there that holds nothing else.
func isPointer(name string, t syncer.Target) bool {
	dir := path.Dir(name)
	if dir == t.Root() {
		return true
	}
	return path.Dir(dir) == t.Root() && !slices.Contains([]string{"context", "status"}, path.Base(dir))
}

func complete(b syncer.Backend) error { return holdsAll(b, apps()) }

func likeNames(b syncer.Backend) error { return holdsAll(b, likeApps()) }

// holdsAll checks that every object of every app is in one file below the app's
// directory, that there are no other files there, and that no two files have names
// that differ in case only.
func holdsAll(b syncer.Backend, desired []syncer.App) error {
	t := Target("edge+c1")
	c, err := b.Plan(t, desired)
	if err != nil {
		return err
	}
	files := flatten(c.Edits)
	folded := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if other, taken := folded[strings.ToLower(name)]; taken {
			return fmt.Errorf("%s and %s differ in case only", other, name)
		}
		folded[strings.ToLower(name)] = name
	}
	for _, a := range desired {
		dir, err := t.AppDir(a.Name)
		if err != nil {
			return err
		}
		have, err := objectsBelow(files, dir)
		if err != nil {
			return err
		}
		want := map[manifest.ID]int{}
		for _, o := range slices.Concat(a.Objects, a.CRDs) {
			want[o.ID] = 1
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("below %s there are %v, want %v", dir, have, want)
		}
	}
	return nil
}

func shared(b syncer.Backend) error {
	var content []map[string]string
	for _, cluster := range []string{"edge+c1", "other+site-7"} {
		t := Target(cluster)
		c, err := b.Plan(t, apps())
		if err != nil {
			return err
		}
		below := map[string]string{}
		for name, text := range flatten(c.Edits) {
			if inner, ok := strings.CutPrefix(name, t.Dir()+"/app/"); ok {
				below[inner] = text
			}
		}
		content = append(content, below)
	}
	if !maps.Equal(content[0], content[1]) {
		return errors.New("files of apps differ between two clusters")
	}
	return nil
}

func leaving(b syncer.Backend) error {
	t := Target("edge+c1")
	all := apps()
	c, err := b.Plan(t, all[1:])
	if err != nil {
		return err
	}
	for name, text := range flatten(c.Edits) {
		if strings.Contains(name+text, "app/"+all[0].Name) {
			return fmt.Errorf("%s still names app %s", name, all[0].Name)
		}
	}
	return nil
}

func nothingLeft(b syncer.Backend) error {
	t := Target("edge+c1")
	full, err := b.Plan(t, apps())
	if err != nil {
		return err
	}
	for _, desired := range [][]syncer.App{nil, {}, {{Name: "empty"}}} {
		none, err := b.Plan(t, desired)
		if err != nil {
			return err
		}
		if files := flatten(none.Edits); len(files) > 0 {
			return fmt.Errorf("%d files are left, such as %s", len(files), slices.Min(slices.Collect(maps.Keys(files))))
		}
		for _, e := range full.Edits {
			if !slices.ContainsFunc(none.Edits, func(r git.Edit) bool { return r.Path == e.Path }) {
				return fmt.Errorf("%s is written but never removed", e.Path)
			}
		}
	}
	return nil
}

func noCredential(b syncer.Backend) error {
	c, err := b.Plan(Target("edge+c1"), apps())
	if err != nil {
		return err
	}
	for name, text := range flatten(c.Edits) {
		if strings.Contains(name+text, Planted) {
			return fmt.Errorf("%s holds a credential", name)
		}
	}
	return nil
}

func definitionsMarked(b syncer.Backend) error {
	c, err := b.Plan(Target("edge+c1"), apps())
	if err != nil {
		return err
	}
	for name, text := range flatten(c.Edits) {
		isCRD := strings.Contains(text, "\nkind: CustomResourceDefinition\n")
		if isCRD && !strings.Contains(text, "annotations:") {
			return fmt.Errorf("%s has no annotation that keeps it", name)
		}
	}
	return nil
}

// hostile checks that names that climb are refused, or stay within bounds.
func hostile(b syncer.Backend) error {
	names := []string{"../../../README", "..", ".", ".git", "a/b", `a\b`, "/etc", "a\nb", "a\x00b", "\xff"}
	for _, name := range names {
		targets := []syncer.Target{Target(name), Target("edge+c1"), Target("edge+c1"), Target("edge+c1")}
		targets[1].Deployment = v2.DeploymentID(name)
		desired := [][]syncer.App{apps(), apps(), apps(), apps()}
		desired[2][0].Name = name
		desired[3][0].Objects[0].ID.Name = name
		for i, t := range targets {
			c, err := b.Plan(t, desired[i])
			if err != nil {
				continue
			}
			for file := range flatten(c.Edits) {
				inside := strings.HasPrefix(file, "clusters/edge+c1/") && path.Clean(file) == file
				if !inside || strings.Contains(file, "\\") || slices.Contains(strings.Split(file, "/"), ".git") {
					return fmt.Errorf("name %q leads to %q", name, file)
				}
			}
			if i < 3 || name == "\xff" {
				return fmt.Errorf("name %q is accepted", name)
			}
		}
	}
	return nil
}

// fansOut compares the plans of a cluster with and without fan-out: the pointers must name
// the deeper directory. Files with ignore rules, which name each directory of the path, may
// differ otherwise.
func fansOut(b syncer.Backend) error {
	flat := Target("edge+c1")
	deep := flat
	deep.FanOut = true
	want, err := b.Plan(flat, apps())
	if err != nil {
		return err
	}
	got, err := b.Plan(deep, apps())
	if err != nil {
		return err
	}
	files := flatten(got.Edits)
	for name, content := range flatten(want.Edits) {
		moved := strings.ReplaceAll(name, flat.Root(), deep.Root())
		text, there := files[moved]
		if !there || !strings.Contains(content, "ignore") && text != strings.ReplaceAll(content, flat.Root(), deep.Root()) {
			return fmt.Errorf("%s differs from the file without fan-out, or still leads to %s", moved, flat.Root())
		}
		if strings.Contains(text, flat.Root()+"/") {
			return fmt.Errorf("%s leads to %s", moved, flat.Root())
		}
	}
	return nil
}
