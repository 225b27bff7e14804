package views

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// registry knows the deployment intent groups and the apps by their keys. It reads only what
// has changed since the last look.
type registry struct {
	db *store.DB

	mu         sync.Mutex
	mark       int64                        // of the changes that have been read; guarded by mu
	groups     map[string]appcontext.HeadID // by key; nil: nothing was read yet; guarded by mu
	apps       map[string]bool              // keys; guarded by mu
	sorted     []groupRef                   // nil: groups has changed; guarded by mu
	sortedApps []string                     // guarded by mu
}

// groupRef is a deployment intent group.
type groupRef struct {
	key  string
	head appcontext.HeadID
}

func isGroup(key string) bool { _, ok := v2.GroupOf(key); return ok }
func isApp(key string) bool   { _, ok := v2.AppOf(key); return ok }

// all returns the groups and the keys of apps, in order. They must not be changed.
func (r *registry) all(ctx context.Context) ([]groupRef, []string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.updateLocked(ctx); err != nil {
		return nil, nil, err
	}
	if r.sorted == nil {
		r.sorted, r.sortedApps = make([]groupRef, 0, len(r.groups)), make([]string, 0, len(r.apps))
		for key, head := range r.groups {
			r.sorted = append(r.sorted, groupRef{key, head})
		}
		for key := range r.apps {
			r.sortedApps = append(r.sortedApps, key)
		}
		slices.SortFunc(r.sorted, func(a, b groupRef) int { return strings.Compare(a.key, b.key) })
		slices.Sort(r.sortedApps)
	}
	return r.sorted, r.sortedApps, nil
}

func (r *registry) updateLocked(ctx context.Context) error {
	changes, err := r.db.Changes(ctx, r.mark)
	if err != nil {
		return err
	}
	if r.groups == nil || changes.All {
		if err := r.readAllLocked(ctx); err != nil {
			return err
		}
	} else {
		for _, k := range changes.Keys {
			if err := r.readLocked(ctx, k); err != nil {
				return err
			}
		}
	}
	r.mark = changes.Mark
	return nil
}

func (r *registry) readAllLocked(ctx context.Context) error {
	groups, apps := map[string]appcontext.HeadID{}, map[string]bool{}
	for doc, err := range r.db.List(ctx, "projects", store.Query{}) {
		if err != nil {
			return err
		}
		switch key := string(doc.Key); {
		case isGroup(key):
			groups[key] = appcontext.HeadID(doc.UID)
		case isApp(key):
			apps[key] = true
		}
	}
	r.groups, r.apps, r.sorted = groups, apps, nil
	return nil
}

func (r *registry) readLocked(ctx context.Context, k store.Key) error {
	key := string(k)
	if !isGroup(key) && !isApp(key) {
		return nil
	}
	r.sorted = nil
	doc, err := r.db.Get(ctx, k)
	switch {
	case errs.Is(err, errs.NotFound):
		delete(r.groups, key)
		delete(r.apps, key)
	case err != nil:
		return err
	case isApp(key):
		r.apps[key] = true
	default:
		r.groups[key] = appcontext.HeadID(doc.UID)
	}
	return nil
}
