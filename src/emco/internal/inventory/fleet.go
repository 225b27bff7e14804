package inventory

import (
	"iter"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Fleet is the registered clusters at one moment. It never changes.
type Fleet struct {
	clusters map[v2.ClusterKey]placement.Cluster // by key
	labelled map[label][]v2.ClusterKey           // keys of clusters, sorted
}

type label struct{ provider, name string }

var _ placement.Inventory = (*Fleet)(nil)

func newFleet() *Fleet {
	return &Fleet{clusters: map[v2.ClusterKey]placement.Cluster{}, labelled: map[label][]v2.ClusterKey{}}
}

// Cluster implements placement.Inventory.
func (f *Fleet) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	c, known := f.clusters[key]
	return c, known
}

// Clusters returns all clusters by key. They must not be changed.
func (f *Fleet) Clusters() map[v2.ClusterKey]placement.Cluster { return f.clusters }

// Labelled implements placement.Inventory.
func (f *Fleet) Labelled(provider, name string) []v2.ClusterKey {
	return f.labelled[label{provider, name}]
}

// with returns the next fleet after changes of documents, whose keys are sorted. docs are those of them that exist, in order.
func (f *Fleet) with(changed []store.Key, docs iter.Seq2[store.Doc, error]) (*Fleet, error) {
	d := f.edit()
	for doc, err := range docs {
		if err != nil {
			return nil, err
		}
		for ; changed[0] != doc.Key; changed = changed[1:] {
			d.remove(changed[0])
		}
		d.put(doc.Key)
		changed = changed[1:]
	}
	for _, k := range changed {
		d.remove(k)
	}
	return d.build(), nil
}

// edit returns a builder of the next fleet. Lists are shared until they change.
func (f *Fleet) edit() *fleetBuilder {
	return &fleetBuilder{
		fleet:      Fleet{clusters: maps.Clone(f.clusters), labelled: maps.Clone(f.labelled)},
		relabelled: map[label]map[v2.ClusterKey]bool{},
	}
}

// fleetBuilder builds a fleet from another one.
type fleetBuilder struct {
	fleet      Fleet
	relabelled map[label]map[v2.ClusterKey]bool // label -> clusters that got it (true) or lost it
}

// documentName is the key of a cluster, or of one of its labels.
type documentName struct {
	v2.ClusterKey
	label string
}

// parse reads the key of a cluster or of a label; false for other documents.
func parse(k store.Key) (documentName, bool) {
	document, label := string(k), ""
	if part := strings.Split(document, "/"); len(part) == 6 && part[4] == "labels" {
		document, label = strings.Join(part[:4], "/"), part[5]
	}
	cluster, ok := v2.ClusterOf(document)
	return documentName{cluster, label}, ok
}

// put adds a document.
func (d *fleetBuilder) put(k store.Key) {
	n, ok := parse(k)
	if !ok {
		return
	}
	c, known := d.fleet.clusters[n.ClusterKey]
	switch {
	case !known && n.label != "": // of a deleted cluster
		return
	case !known:
		c = placement.Cluster{Provider: n.Provider(), Name: n.Cluster()}
	}
	if n.label != "" && !slices.Contains(c.Labels, n.label) {
		c.Labels = append(slices.Clip(c.Labels), n.label)
		d.relabel(n, true)
	}
	d.fleet.clusters[n.ClusterKey] = c
}

// remove removes a deleted document, with all documents below it.
func (d *fleetBuilder) remove(k store.Key) {
	n, ok := parse(k)
	c, known := d.fleet.clusters[n.ClusterKey]
	if !ok || !known {
		return
	}
	if n.label == "" {
		for _, n.label = range c.Labels {
			d.relabel(n, false)
		}
		delete(d.fleet.clusters, n.ClusterKey)
		return
	}
	if slices.Contains(c.Labels, n.label) {
		d.relabel(n, false)
	}
	c.Labels = slices.DeleteFunc(slices.Clone(c.Labels), func(l string) bool { return l == n.label })
	d.fleet.clusters[n.ClusterKey] = c
}

func (d *fleetBuilder) relabel(n documentName, has bool) {
	l := label{n.Provider(), n.label}
	if d.relabelled[l] == nil {
		d.relabelled[l] = map[v2.ClusterKey]bool{}
	}
	d.relabelled[l][n.ClusterKey] = has
}

// build returns the fleet; the builder must not be used afterwards.
func (d *fleetBuilder) build() *Fleet {
	for l, clusters := range d.relabelled {
		all := merge(d.fleet.labelled[l], clusters)
		if d.fleet.labelled[l] = all; len(all) == 0 {
			delete(d.fleet.labelled, l)
		}
	}
	return &d.fleet
}

// merge applies changes to a sorted list, and returns a new list.
func merge(old []v2.ClusterKey, changes map[v2.ClusterKey]bool) []v2.ClusterKey {
	fresh := slices.Sorted(maps.Keys(changes))
	out := make([]v2.ClusterKey, 0, len(old)+len(fresh))
	for _, k := range old {
		for len(fresh) > 0 && fresh[0] < k {
			out, fresh = add(out, fresh[0], changes), fresh[1:]
		}
		if _, changed := changes[k]; !changed {
			out = append(out, k)
		}
	}
	for _, k := range fresh {
		out = add(out, k, changes)
	}
	return out
}

func add(out []v2.ClusterKey, k v2.ClusterKey, changes map[v2.ClusterKey]bool) []v2.ClusterKey {
	if changes[k] {
		return append(out, k)
	}
	return out
}
