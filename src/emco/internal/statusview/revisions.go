package statusview

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
)

// revisionContent is a revision with its placements by app, in order of cluster. It is
// shared and never changes.
type revisionContent struct {
	rev    appcontext.Revision
	places map[string][]desiredPlace
}

// has reports whether a revision desires a pair.
func (c *revisionContent) has(p mirror.Pair) bool {
	_, found := slices.BinarySearchFunc(c.places[p.App], p.Cluster, func(at desiredPlace, k v2.ClusterKey) int { return cmp.Compare(at.cluster, k) })
	return found
}

// desiredPlace is what a cluster should hold of an app.
type desiredPlace struct {
	cluster v2.ClusterKey
	bundle  appcontext.Digest
}

// revisionKey identifies a revision. A revision never changes, and no other one has its deployment and
// number.
type revisionKey struct {
	head appcontext.HeadID
	rev  int64
}

type revisionCache = bytelru.Cache[revisionKey, *revisionContent]

// The bound of cached revisions, and what a revision and each of its placements take, about; in bytes.
const (
	revisionCacheBytes = 32 << 20
	revisionBytes      = 2 << 10
	placeBytes         = 48
)

func newRevisionCache() *revisionCache {
	return bytelru.New[revisionKey, *revisionContent](revisionCacheBytes)
}

// content returns a revision, or NotFound.
func (r *Reader) content(ctx context.Context, head appcontext.HeadID, n int64) (*revisionContent, error) {
	k := revisionKey{head, n}
	if known, ok := r.revisions.Get(k); ok {
		return known, nil
	}
	rev, err := r.contexts.Revision(ctx, head, n)
	if errs.Is(err, errs.NotFound) {
		return nil, errs.New(errs.NotFound, fmt.Sprintf("nothing is kept of revision %d; GET …/revisions lists those that are kept", n))
	}
	if err != nil {
		return nil, err
	}
	out := &revisionContent{rev: rev, places: map[string][]desiredPlace{}}
	size := revisionBytes
	once := map[appcontext.Digest]appcontext.Digest{}             // equal digests share one string
	placements, err := r.contexts.DesiredPlacements(ctx, head, n) // the revision was just there
	if err != nil {
		return nil, err
	}
	for _, p := range placements {
		for name, bundle := range p.Apps {
			if once[bundle] == "" {
				once[bundle] = bundle
			}
			out.places[name] = append(out.places[name], desiredPlace{p.Cluster, once[bundle]})
			size += placeBytes
		}
	}
	for _, places := range out.places {
		slices.SortFunc(places, func(a, b desiredPlace) int { return cmp.Compare(a.cluster, b.cluster) })
	}
	r.revisions.Put(k, out, size)
	return out, nil
}
