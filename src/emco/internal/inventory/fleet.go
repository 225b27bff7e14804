package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Fleet is the clusters at one moment. It never changes.
type Fleet struct {
	clusters map[string]placement.Cluster // by key
	labelled map[label][]string           // keys of clusters, sorted
}

type label struct{ provider, name string }

var _ placement.Inventory = (*Fleet)(nil)

func newFleet() *Fleet {
	return &Fleet{clusters: map[string]placement.Cluster{}, labelled: map[label][]string{}}
}

// Cluster implements placement.Inventory.
func (f *Fleet) Cluster(key string) (placement.Cluster, bool) {
	c, known := f.clusters[key]
	return c, known
}

// Labelled implements placement.Inventory.
func (f *Fleet) Labelled(provider, name string) []string { return f.labelled[label{provider, name}] }

// change returns a copy to work on. Lists are shared until they change.
func (f *Fleet) change() *draft {
	return &draft{
		fleet:  Fleet{clusters: maps.Clone(f.clusters), labelled: maps.Clone(f.labelled)},
		lately: map[label]map[string]bool{},
	}
}

// draft is a fleet that is being made from another one.
type draft struct {
	fleet  Fleet
	lately map[label]map[string]bool // labels that clusters got (true) and lost
}

// name is what a document's key says: a cluster, or one of its labels.
type name struct{ provider, cluster, label string }

func (n name) key() string { return placement.Cluster{Provider: n.provider, Name: n.cluster}.Key() }

// parse reads the key of a cluster or of a label; false if it is another document's.
func parse(k store.Key) (name, bool) {
	part := strings.Split(string(k), "/")
	switch {
	case len(part) == 4 && part[0] == providers && part[2] == "clusters":
		return name{provider: part[1], cluster: part[3]}, true
	case len(part) == 6 && part[0] == providers && part[2] == "clusters" && part[4] == "labels":
		return name{provider: part[1], cluster: part[3], label: part[5]}, true
	}
	return name{}, false
}

// put takes in a document that is there.
func (d *draft) put(k store.Key) {
	n, ok := parse(k)
	if !ok {
		return
	}
	c, known := d.fleet.clusters[n.key()]
	switch {
	case !known && n.label != "": // of a cluster that is gone
		return
	case !known:
		c = placement.Cluster{Provider: n.provider, Name: n.cluster}
	}
	if n.label != "" && !slices.Contains(c.Labels, n.label) {
		c.Labels = append(slices.Clip(c.Labels), n.label)
		d.relabel(n, true)
	}
	d.fleet.clusters[n.key()] = c
}

// remove takes out a document that is not there, with all below it.
func (d *draft) remove(k store.Key) {
	n, ok := parse(k)
	c, known := d.fleet.clusters[n.key()]
	if !ok || !known {
		return
	}
	if n.label == "" {
		for _, n.label = range c.Labels {
			d.relabel(n, false)
		}
		delete(d.fleet.clusters, n.key())
		return
	}
	if slices.Contains(c.Labels, n.label) {
		d.relabel(n, false)
	}
	c.Labels = slices.DeleteFunc(slices.Clone(c.Labels), func(l string) bool { return l == n.label })
	d.fleet.clusters[n.key()] = c
}

func (d *draft) relabel(n name, has bool) {
	l := label{n.provider, n.label}
	if d.lately[l] == nil {
		d.lately[l] = map[string]bool{}
	}
	d.lately[l][n.key()] = has
}

// done returns the fleet; the draft must not be used any more.
func (d *draft) done() *Fleet {
	for l, lately := range d.lately {
		all := merged(d.fleet.labelled[l], lately)
		if d.fleet.labelled[l] = all; len(all) == 0 {
			delete(d.fleet.labelled, l)
		}
	}
	return &d.fleet
}

// merged returns a sorted list with changes, as a new list.
func merged(old []string, lately map[string]bool) []string {
	fresh := slices.Sorted(maps.Keys(lately))
	out := make([]string, 0, len(old)+len(fresh))
	for _, k := range old {
		for len(fresh) > 0 && fresh[0] < k {
			out, fresh = add(out, fresh[0], lately), fresh[1:]
		}
		if _, told := lately[k]; !told {
			out = append(out, k)
		}
	}
	for _, k := range fresh {
		out = add(out, k, lately)
	}
	return out
}

func add(out []string, k string, lately map[string]bool) []string {
	if lately[k] {
		return append(out, k)
	}
	return out
}
