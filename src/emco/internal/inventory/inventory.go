// Package inventory knows the registered clusters with their labels, and which of them
// belong to a logical cloud. It keeps them in memory and asks the store only for what has
// changed since, so that looking at a large fleet after a small change takes little.
package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	providers = "cluster-providers"
	members   = "/cluster-references"
)

// Inventory is safe for use by many goroutines. Make it with New.
type Inventory struct {
	db      *store.DB
	confine Confine

	mu     sync.Mutex
	mark   int64 // of the changes that have been taken in
	fleet  *Fleet
	clouds map[store.Key]*membership // that were asked for, and have not changed since
}

// Confine makes the filter that keeps apps within a logical cloud, of which the members are
// given by key.
type Confine func(name string, members []string) placement.Filter

// New returns an inventory of what the store holds. It reads nothing yet.
func New(db *store.DB, confine Confine) *Inventory {
	return &Inventory{db: db, confine: confine, clouds: map[store.Key]*membership{}}
}

// membership is the filter of a logical cloud.
type membership struct {
	filter placement.Filter
	used   int64 // the mark at which it was asked for last
}

// maxClouds bounds how many logical clouds are remembered.
const maxClouds = 256

// Fleet returns the clusters as they are now: what was written before the call is in it.
func (i *Inventory) Fleet(ctx context.Context) (*Fleet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.update(ctx); err != nil {
		return nil, err
	}
	return i.fleet, nil
}

// Cloud returns the filter that admits the members of a logical cloud. As long as they are
// the same, so is the filter.
func (i *Inventory) Cloud(ctx context.Context, key store.Key, name string) (placement.Filter, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.update(ctx); err != nil {
		return nil, err
	}
	m, known := i.clouds[key]
	if !known {
		clusters, err := i.membersOf(ctx, key)
		if err != nil {
			return nil, err
		}
		i.forgetOldest()
		m = &membership{filter: i.confine(name, clusters)}
		i.clouds[key] = m
	}
	m.used = i.mark
	return m.filter, nil
}

func (i *Inventory) membersOf(ctx context.Context, key store.Key) (clusters []string, err error) {
	for ref, err := range store.All[v2.ClusterReference](ctx, i.db, key+members, store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, ref.Value.Spec.ClusterProvider+"+"+ref.Value.Spec.Cluster)
	}
	return clusters, nil
}

// forgetOldest makes room for a logical cloud.
func (i *Inventory) forgetOldest() {
	if len(i.clouds) < maxClouds {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(i.clouds)), func(a, b store.Key) int {
		return cmp.Compare(i.clouds[a].used, i.clouds[b].used)
	})
	delete(i.clouds, oldest)
}

// update takes in what was written since the last time. The mark moves on when all of it
// was read, so that a failure loses nothing.
func (i *Inventory) update(ctx context.Context) error {
	changes, err := i.db.Changes(ctx, i.mark)
	if err != nil {
		return err
	}
	if i.fleet == nil || changes.All {
		clear(i.clouds)
		i.fleet, err = i.readAll(ctx)
	} else {
		err = i.readSome(ctx, changes.Keys)
	}
	if err != nil {
		i.fleet = nil
		return err
	}
	i.mark = changes.Mark
	return nil
}

// readAll reads every cluster and label.
func (i *Inventory) readAll(ctx context.Context) (*Fleet, error) {
	d := newFleet().change()
	for doc, err := range i.db.List(ctx, providers, store.Query{}) {
		if err != nil {
			return nil, err
		}
		d.put(doc.Key)
	}
	return d.done(), nil
}

// readSome reads what was written, if it is about clusters, and forgets the logical clouds
// that it is about.
func (i *Inventory) readSome(ctx context.Context, keys []store.Key) error {
	slices.Sort(keys) // clusters before their labels
	var d *draft
	for _, k := range slices.Compact(keys) {
		if cloud, _, member := strings.Cut(string(k), members+"/"); member {
			delete(i.clouds, store.Key(cloud))
		}
		if _, ok := parse(k); !ok {
			continue
		}
		if d == nil {
			d = i.fleet.change()
		}
		if err := i.readOne(ctx, d, k); err != nil {
			return err
		}
	}
	if d != nil {
		i.fleet = d.done()
	}
	return nil
}

func (i *Inventory) readOne(ctx context.Context, d *draft, k store.Key) error {
	_, err := i.db.Get(ctx, k)
	switch {
	case errs.Is(err, errs.NotFound):
		d.remove(k)
	case err != nil:
		return err
	default:
		d.put(k)
	}
	return nil
}
