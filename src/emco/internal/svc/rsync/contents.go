package rsync

import (
	"context"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// remembered bounds the bundles of a generation of contents' memory.
const remembered = 64

// contents reads bundles with all their objects, and keeps those that are asked for
// again and again: the clusters of a class hold the same ones.
type contents struct {
	store contentStore

	mu         sync.Mutex
	young, old map[appcontext.Digest]syncer.App // what is asked for moves to the young generation
}

// contentStore is what contents need of the AppContext.
type contentStore interface {
	GetBlob(ctx context.Context, d appcontext.Digest) ([]byte, error)
	GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error)
}

// app returns a bundle's objects, without a name.
func (c *contents) app(ctx context.Context, d appcontext.Digest) (syncer.App, error) {
	if a, ok := c.recall(d); ok {
		return a, nil
	}
	b, err := c.store.GetBundle(ctx, d)
	if err != nil {
		return syncer.App{}, err
	}
	var a syncer.App
	if a.Objects, err = c.objects(ctx, b.Objects); err != nil {
		return a, err
	}
	if a.CRDs, err = c.objects(ctx, b.CRDs); err != nil {
		return a, err
	}
	c.remember(d, a)
	return a, nil
}

func (c *contents) objects(ctx context.Context, refs []appcontext.Ref) ([]manifest.Object, error) {
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

// ids returns the objects of several bundles that may be taken away, each once.
func (c *contents) ids(ctx context.Context, bundles []appcontext.Digest) ([]manifest.ID, error) {
	var out []manifest.ID
	seen := map[manifest.ID]bool{}
	for _, d := range bundles {
		b, err := c.store.GetBundle(ctx, d)
		if err != nil {
			return nil, err
		}
		for _, r := range b.Objects {
			if !seen[r.ID] {
				seen[r.ID] = true
				out = append(out, r.ID)
			}
		}
	}
	return out, nil
}

func (c *contents) recall(d appcontext.Digest) (syncer.App, bool) {
	c.mu.Lock()
	a, ok := c.young[d]
	if !ok {
		a, ok = c.old[d]
	}
	c.mu.Unlock()
	if ok {
		c.remember(d, a)
	}
	return a, ok
}

// remember keeps a bundle; when the young generation is full, the old one is forgotten.
func (c *contents) remember(d appcontext.Digest, a syncer.App) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.young[d]; there {
		return
	}
	if c.young == nil || len(c.young) >= remembered {
		c.old, c.young = c.young, map[appcontext.Digest]syncer.App{}
	}
	c.young[d] = a
}
