package statusview

import (
	"slices"
	"time"
	"unsafe"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
)

// countedPlaces are the places of an app of a deployment for counting. They are shared and never change.
type countedPlaces struct {
	places []placeStatus
	known  int       // of all places
	until  time.Time // when the first report becomes stale, or later; zero: never
}

// countedKey identifies counted places: they follow from the pairs of the app and from the revision.
type countedKey struct {
	pairs *mirror.Version
	rev   revisionKey
	turn  int64 // number of the interval of time: in each, places are counted again, because reports may have been confirmed
}

type countedCache = bytelru.Cache[countedKey, *countedPlaces]

// turnsOfStale is how many turns there are until a report that is not confirmed becomes stale.
const turnsOfStale = 8

// Bytes of the counted places that are kept: of all, and about those of an app besides its places.
const (
	countedBytes    = 2 << 20
	countedAppBytes = 256
)

func newCountedCache() *countedCache { return bytelru.New[countedKey, *countedPlaces](countedBytes) }

// countedPlaces returns one place for each group of equal places of an app, with its count, and how many of all places the
// snapshot has. It keeps them while the app's pairs stay the same and no report becomes stale, because clients poll summaries: a
// summary counts again only the apps that have changed.
func (r *Reader) countedPlaces(app string, desired []desiredPlace, rev revisionKey, snap mirror.Snapshot, now time.Time) ([]placeStatus, int) {
	k := countedKey{snap.Pairs.Version(app), rev, now.UnixNano() / int64(max(1, r.options.Stale/turnsOfStale))}
	counted, ok := r.counted.Get(k)
	if !ok || !counted.until.IsZero() && !now.Before(counted.until) {
		counted = &countedPlaces{}
		counted.places, counted.known = r.placesAlike(app, desired, snap, now)
		if size, keep := r.keepUntil(counted); keep && k.pairs != nil {
			r.counted.Put(k, counted, size)
		}
	}
	return slices.Clone(counted.places), counted.known // statuses are added to them
}

// keepUntil sets until when the places are valid, and returns their size; false if a report is stale, because the
// next sign of life changes that.
func (r *Reader) keepUntil(c *countedPlaces) (size int, keep bool) {
	for _, p := range c.places {
		if p.reading.stale {
			return 0, false
		}
		if at := r.expires(p.reading); !at.IsZero() && (c.until.IsZero() || at.Before(c.until)) {
			c.until = at
		}
	}
	return countedAppBytes + len(c.places)*int(unsafe.Sizeof(placeStatus{})), true
}

// maxAlike bounds the groups of equal places of an app. Further places are counted one by one.
const maxAlike = 200

// likeness is what places that stand alike have in common.
type likeness struct {
	bundle appcontext.Digest
	pair   *appcontext.Pair
	report *mirror.Report
}

// placesAlike is placesOf with the first of those places that stand alike, in order of these. Its reading is the
// oldest one. A place with a stale report stands alone.
func (r *Reader) placesAlike(app string, desired []desiredPlace, snap mirror.Snapshot, now time.Time) (out []placeStatus, known int) {
	first, entries := map[likeness]int{}, snap.Pairs.Of(app)
	for i := range desired {
		p, found := r.placeOf(&desired[i], entries[desired[i].cluster], now)
		if found {
			known++
		}
		like := likeness{p.bundle, p.pair, p.reading.report}
		at, seen := first[like]
		switch {
		case p.reading.stale:
		case seen:
			out[at].n++
			if p.reading.at.Before(out[at].reading.at) {
				out[at].reading.at = p.reading.at
			}
			continue
		case len(first) < maxAlike:
			if first[like] = len(out); len(first) == maxAlike {
				out = slices.Grow(out, len(desired)-i)
			}
		}
		out = append(out, p)
	}
	return out, known
}
