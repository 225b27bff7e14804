package statusview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// content is a revision with its placements by app, each in order of cluster. It is
// shared, and never changes.
type content struct {
	rev    appcontext.Revision
	places map[string][]wanted
	size   int
}

// wanted is what a cluster shall hold of an app.
type wanted struct {
	cluster string
	bundle  appcontext.Digest
}

// contents keeps the revisions that were asked for last. They never change, and no two
// have the same deployment and number.
type contents struct {
	mu    sync.Mutex
	known map[contentKey]*content
	order []contentKey // oldest first
	size  int          // placements in all
}

type contentKey struct {
	uid string
	rev int64
}

// maxContents bounds the placements that are kept, each some 50 bytes.
const maxContents = 200_000

func newContents() *contents { return &contents{known: map[contentKey]*content{}} }

func (c *contents) get(k contentKey) *content {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[k]
}

// put keeps one more, and lets the oldest go as long as there are too many.
func (c *contents) put(k contentKey, v *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[k] != nil || v.size > maxContents/2 {
		return
	}
	c.known[k] = v
	c.order = append(c.order, k)
	for c.size += v.size; c.size > maxContents; {
		old := c.order[0]
		c.size -= c.known[old].size
		delete(c.known, old)
		c.order = c.order[1:]
	}
}

// content returns a revision, or NotFound.
func (r *Reader) content(ctx context.Context, uid string, n int64) (*content, error) {
	k := contentKey{uid, n}
	if known := r.contents.get(k); known != nil {
		return known, nil
	}
	rev, err := r.contexts.Revision(ctx, uid, n)
	if errs.Is(err, errs.NotFound) {
		return nil, errs.New(errs.NotFound, fmt.Sprintf("nothing is kept of revision %d; GET …/revisions lists those that are kept", n))
	}
	if err != nil {
		return nil, err
	}
	out := &content{rev: rev, places: map[string][]wanted{}, size: 1}
	once := map[appcontext.Digest]appcontext.Digest{} // equal digests share their text
	placements, err := r.contexts.Placements(ctx, uid, n)
	if err != nil {
		return nil, err
	}
	for _, p := range placements {
		for name, bundle := range p.Apps {
			if once[bundle] == "" {
				once[bundle] = bundle
			}
			out.places[name] = append(out.places[name], wanted{p.Cluster, once[bundle]})
			out.size++
		}
	}
	for _, places := range out.places {
		slices.SortFunc(places, func(a, b wanted) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	r.contents.put(k, out)
	return out, nil
}
