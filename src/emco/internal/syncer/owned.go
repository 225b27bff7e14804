package syncer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Owned returns b with a guard. Before b, it refuses hostile targets and duplicate apps.
// After b, it refuses plans that do not edit exactly the paths that the target owns; such a
// plan is a bug of b, and Internal.
func Owned(b Backend) Backend {
	o := guardedBackend{b, new(cleanTrees)}
	if p, ok := b.(PointerBackend); ok {
		return guardedPointerBackend{o, p}
	}
	return o
}

type guardedBackend struct {
	Backend
	clean *cleanTrees
}

type guardedPointerBackend struct {
	guardedBackend
	PointerBackend
}

func (o guardedPointerBackend) Plan(t Target, apps []App) (Change, error) {
	return o.plan(t, apps, o.Pointers)
}

func (o guardedBackend) Plan(t Target, apps []App) (Change, error) {
	return o.plan(t, apps, func(Target) []string { return nil })
}

func (o guardedBackend) plan(t Target, apps []App, pointers func(Target) []string) (Change, error) {
	if err := t.Check(); err != nil {
		return Change{}, err
	}
	if err := distinctApps(t, apps); err != nil {
		return Change{}, err
	}
	c, err := o.Backend.Plan(t, apps)
	if err != nil {
		return Change{}, err
	}
	return c, o.bounded(c, t, append(pointers(t), t.Dir()))
}

func distinctApps(t Target, apps []App) error {
	seen := make(map[string]bool, len(apps))
	for _, a := range apps {
		if err := checkApp(a.Name); err != nil {
			return err
		}
		if seen[a.Name] {
			return errs.E(errs.Invalid, "plan", "app "+a.Name, fmt.Errorf("is given twice for cluster %s", t.Cluster))
		}
		seen[a.Name] = true
	}
	return nil
}

// bounded checks that the edits are for exactly the owned paths, each once, and that every
// path is clean.
func (o guardedBackend) bounded(c Change, t Target, own []string) error {
	slices.Sort(own)
	paths := make([]string, len(c.Edits))
	for i, e := range c.Edits {
		paths[i] = e.Path
		if err := o.cleanEdit(e); err != nil {
			return errs.E(errs.Internal, "plan", "cluster "+t.Cluster.String(), err)
		}
	}
	if !slices.Equal(paths, own) {
		return errs.E(errs.Internal, "plan", "cluster "+t.Cluster.String(),
			fmt.Errorf("edits %s, but the target owns %s", strings.Join(paths, ", "), strings.Join(own, ", ")))
	}
	return nil
}

// cleanEdit refuses an edit with a path that is not clean, or is within ".git".
func (o guardedBackend) cleanEdit(e git.Edit) error {
	if err := o.clean.check(e.Dir); err != nil {
		return err
	}
	if !cleanPath(e.Path) || (e.File != nil && e.Dir != nil) {
		return fmt.Errorf("edit of %q is not clean", e.Path)
	}
	return nil
}

// cleanTrees remembers the trees that were checked last. Targets with the same apps share a tree, and nobody
// changes it, so it is checked once for all of them.
type cleanTrees struct {
	mu     sync.Mutex
	recent []map[string][]byte // the newest last; guarded by mu
}

// check refuses a tree with a path that is not clean, or is within ".git".
func (c *cleanTrees) check(files map[string][]byte) error {
	if len(files) == 0 || c.known(files) {
		return nil
	}
	for name := range files {
		if !cleanPath(name) {
			return fmt.Errorf("%q is not a clean path", name)
		}
	}
	c.remember(files)
	return nil
}

func (c *cleanTrees) known(files map[string][]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := reflect.ValueOf(files).Pointer()
	return slices.ContainsFunc(c.recent, func(t map[string][]byte) bool { return reflect.ValueOf(t).Pointer() == same })
}

func (c *cleanTrees) remember(files map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == maxTrees {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, files)
}

// cleanPath reports whether p is relative, clean, and of usable elements.
func cleanPath(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if element(part) != nil {
			return false
		}
	}
	return true
}
