// Package content reads bundles and their objects by digest, decides the steps from one
// bundle to another (StepPlans), and caches what many clusters share.
package content

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// Reader reads bundles with all their objects.
type Reader struct {
	store Store
	cache[appcontext.Digest, syncer.App]
}

// NewReader returns a reader of what a store holds.
func NewReader(store Store) *Reader { return &Reader{store: store} }

// Store is where content is stored.
type Store interface {
	GetBlob(ctx context.Context, d appcontext.Digest) ([]byte, error)
	GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error)
}

// SettledApp returns all that is in a bundle but its hooks, without a name.
func (c *Reader) SettledApp(ctx context.Context, d appcontext.Digest) (syncer.App, error) {
	if a, ok := c.get(d); ok {
		return a, nil
	}
	b, err := c.store.GetBundle(ctx, d)
	if err != nil {
		return syncer.App{}, err
	}
	a, err := c.AppOf(ctx, steps.Settled(b))
	if err == nil {
		c.put(d, a, sizeOfApp(a))
	}
	return a, err
}

// refSize is about what a reference to an object, or an object without its content, takes in memory.
const refSize = 256

func sizeOfApp(a syncer.App) int {
	n := 0
	for _, objects := range [][]manifest.Object{a.Objects, a.CRDs} {
		for _, o := range objects {
			n += refSize + len(o.Content)
		}
	}
	return n
}

// AppOf returns objects and definitions, without a name.
func (c *Reader) AppOf(ctx context.Context, refs []appcontext.Ref) (syncer.App, error) {
	all, err := c.objects(ctx, refs)
	var a syncer.App
	for _, o := range all {
		if manifest.IsCRD(o.ID) {
			a.CRDs = append(a.CRDs, o)
		} else {
			a.Objects = append(a.Objects, o)
		}
	}
	return a, err
}

func (c *Reader) objects(ctx context.Context, refs []appcontext.Ref) ([]manifest.Object, error) {
	out := make([]manifest.Object, 0, len(refs))
	for _, r := range refs {
		content, err := c.store.GetBlob(ctx, r.Digest)
		if err != nil {
			return nil, errs.E(errs.KindOf(err), "read", r.Kind+" "+r.Name, err)
		}
		out = append(out, manifest.Object{ID: r.ID, Digest: r.Digest, Content: content})
	}
	return out, nil
}

// IDs returns the objects of several bundles that may be removed, hooks included, each once.
func (c *Reader) IDs(ctx context.Context, bundles []appcontext.Digest) ([]manifest.ID, error) {
	var out []manifest.ID
	seen := map[manifest.ID]bool{}
	for _, d := range bundles {
		b, err := c.store.GetBundle(ctx, d)
		if err != nil {
			return nil, err
		}
		refs := b.Objects[:len(b.Objects):len(b.Objects)]
		for _, h := range b.Hooks {
			refs = append(refs, h.Ref)
		}
		out = AppendNew(out, refs, seen)
	}
	return out, nil
}

// AppendNew appends the ids that were not seen yet.
func AppendNew(ids []manifest.ID, refs []appcontext.Ref, seen map[manifest.ID]bool) []manifest.ID {
	for _, r := range refs {
		if !seen[r.ID] {
			seen[r.ID] = true
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// kept returns the objects that ask to be kept when their app is removed.
func (c *Reader) kept(ctx context.Context, refs []appcontext.Ref) (map[manifest.ID]bool, error) {
	objects, err := c.objects(ctx, refs)
	out := map[manifest.ID]bool{}
	for _, o := range objects {
		if manifest.Kept(o.Annotations()) {
			out[steps.Key(o.ID)] = true
		}
	}
	return out, err
}
