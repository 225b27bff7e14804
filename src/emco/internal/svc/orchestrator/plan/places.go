package plan

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Places returns the clusters of each app by the current documents, and what it would be rendered from there; nil if another process
// chooses the clusters: it is not asked. Apps that cannot be placed are left out, and those whose place depends on more than
// documents. Errors are those of Plan, but the logical cloud need not be ready. Clients poll statuses, and each asks for
// places: the same ones are returned until a document changes that they may follow from.
func (p Planner) Places(ctx context.Context, doc store.Doc) (*placement.Places, error) {
	turn, err := p.places.follow(ctx)
	if err != nil {
		return nil, err
	}
	if known, ok := p.places.get(doc.Key); ok {
		return known, nil
	}
	places, err := p.findPlaces(ctx, doc)
	if err == nil {
		p.places.put(doc.Key, turn, places)
	}
	return places, err
}

func (p Planner) findPlaces(ctx context.Context, doc store.Doc) (*placement.Places, error) {
	d, err := p.read(ctx, doc, nil)
	if err != nil || d.remote {
		return nil, err
	}
	packages, err := p.packages(ctx, d.app)
	if err != nil {
		return nil, err
	}
	profiles, err := p.profiles(ctx, store.Key(d.app.ProfileStoreKey(d.group.Spec.Profile)))
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(packages))
	if err := p.demands(ctx, &d, names, true); err != nil {
		return nil, err
	}
	out := &placement.Places{Cloud: d.cloudID, Clusters: map[string][]v2.ClusterKey{}, Sources: map[string]string{}}
	for _, name := range names {
		if d.demands[name].Momentary {
			continue
		}
		decision, err := p.decide(ctx, d, name)
		if errs.Is(err, errs.Invalid) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Clusters[name] = decision.Clusters
		profile, has := profiles[name]
		sources, err := p.sources(ctx, d, customize.App{Name: name, Clusters: decision.Clusters}, packages[name], profile)
		switch {
		case err == nil && has:
			out.Sources[name] = string(sources)
		case err != nil && !errs.Is(err, errs.Invalid):
			return nil, err
		}
	}
	return out, nil
}

// placesCache keeps the places of groups until documents change that they may follow from: those of the composite app's version, with
// the group and its intents; those of the project, such as logical clouds; and all documents outside of projects, such as
// clusters and their labels.
type placesCache struct {
	db    *store.DB
	known *bytelru.Cache[store.Key, knownPlaces] // by group

	mu      sync.Mutex
	mark    int64            // of the changes that were read; guarded by mu
	turn    int64            // counts the calls of follow that found changes; guarded by mu
	all     int64            // turn of the last change that concerns all groups; guarded by mu
	changed map[string]int64 // turn of the last change, by scope; guarded by mu
}

// knownPlaces are places that follow from the documents of a turn.
type knownPlaces struct {
	turn   int64
	places *placement.Places // nil: another process chooses
}

const (
	placesBytes = 64 << 20 // of all places that are kept
	groupBytes  = 256      // of those of a group, about, besides the places
	maxScopes   = 10_000   // in placesCache.changed
)

func newPlacesCache(db *store.DB) *placesCache {
	return &placesCache{db: db, known: bytelru.New[store.Key, knownPlaces](placesBytes), changed: map[string]int64{}}
}

// follow notes what was written since the last call, and returns the turn of the documents that are read afterwards, or an earlier
// one.
func (c *placesCache) follow(ctx context.Context) (turn int64, err error) {
	c.mu.Lock()
	mark, turn := c.mark, c.turn
	c.mu.Unlock()
	changes, err := c.db.Changes(ctx, mark)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes.All || changes.Mark > c.mark {
		c.noteLocked(changes)
	}
	if changes.Mark < c.mark { // another call has noted more; what ctx reads may be older than that
		return turn, nil
	}
	return c.turn, nil
}

func (c *placesCache) noteLocked(changes store.Changes) {
	c.mark = changes.Mark
	c.turn++
	if changes.All || len(c.changed)+len(changes.Keys) > maxScopes {
		c.all = c.turn
		clear(c.changed)
		return
	}
	for _, key := range changes.Keys {
		if scope := scopeOf(key); scope == "" {
			c.all = c.turn
		} else {
			c.changed[scope] = c.turn
		}
	}
}

// scopeOf returns what a document concerns: the groups of a version of a composite app, or those of a project; "" for all groups.
func scopeOf(key store.Key) string {
	if app, ok := v2.CompositeAppOf(string(key)); ok {
		return app.StoreKey()
	}
	return key.Project()
}

// get returns the places of a group; false if they are not known. It drops those that are older than a change.
func (c *placesCache) get(group store.Key) (*placement.Places, bool) {
	known, ok := c.known.Get(group)
	if !ok || known.turn < c.lastChange(group) {
		c.known.Remove(group)
		return nil, false
	}
	return known.places, true
}

// lastChange returns the turn of the last change that concerns a group.
func (c *placesCache) lastChange(group store.Key) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.all, c.changed[scopeOf(group)], c.changed[group.Project()])
}

func (c *placesCache) put(group store.Key, turn int64, places *placement.Places) {
	c.known.Put(group, knownPlaces{turn, places}, groupBytes+places.Bytes())
}
