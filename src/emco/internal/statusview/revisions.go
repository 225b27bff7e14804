package statusview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// revisionContent is a revision with its placements by app, in order of cluster. It is
// shared and never changes.
type revisionContent struct {
	rev    appcontext.Revision
	places map[string][]desiredPlace
	size   int
}

// desiredPlace is what a cluster should hold of an app.
type desiredPlace struct {
	cluster v2.ClusterKey
	bundle  appcontext.Digest
}

// revisionCache keeps revisions, the oldest read first. A revision never
// changes, and no other one has its deployment and number.
type revisionCache struct {
	mu    sync.Mutex
	known map[revisionKey]*revisionContent // guarded by mu
	order []revisionKey                    // oldest first; guarded by mu
	size  int                              // placements of all known; guarded by mu
}

type revisionKey struct {
	head appcontext.HeadID
	rev  int64
}

// maxCachedPlacements bounds the cache; a placement takes some 50 bytes.
const maxCachedPlacements = 200_000

func newRevisionCache() *revisionCache {
	return &revisionCache{known: map[revisionKey]*revisionContent{}}
}

func (c *revisionCache) get(k revisionKey) *revisionContent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[k]
}

// put adds a revision and drops the oldest ones while the cache is too large.
func (c *revisionCache) put(k revisionKey, v *revisionContent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[k] != nil || v.size > maxCachedPlacements/2 {
		return
	}
	c.known[k] = v
	c.order = append(c.order, k)
	for c.size += v.size; c.size > maxCachedPlacements; {
		old := c.order[0]
		c.size -= c.known[old].size
		delete(c.known, old)
		c.order = c.order[1:]
	}
}

// content returns a revision, or NotFound.
func (r *Reader) content(ctx context.Context, head appcontext.HeadID, n int64) (*revisionContent, error) {
	k := revisionKey{head, n}
	if known := r.revisions.get(k); known != nil {
		return known, nil
	}
	rev, err := r.contexts.Revision(ctx, head, n)
	if errs.Is(err, errs.NotFound) {
		return nil, errs.New(errs.NotFound, fmt.Sprintf("nothing is kept of revision %d; GET …/revisions lists those that are kept", n))
	}
	if err != nil {
		return nil, err
	}
	out := &revisionContent{rev: rev, places: map[string][]desiredPlace{}, size: 1}
	once := map[appcontext.Digest]appcontext.Digest{} // equal digests share one string
	placements, err := r.contexts.Placements(ctx, head, n)
	if err != nil {
		return nil, err
	}
	for _, p := range placements {
		for name, bundle := range p.Apps {
			if once[bundle] == "" {
				once[bundle] = bundle
			}
			out.places[name] = append(out.places[name], desiredPlace{p.Cluster, once[bundle]})
			out.size++
		}
	}
	for _, places := range out.places {
		slices.SortFunc(places, func(a, b desiredPlace) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	r.revisions.put(k, out)
	return out, nil
}
