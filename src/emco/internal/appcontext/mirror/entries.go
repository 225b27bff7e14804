package mirror

import (
	"iter"
	"maps"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Entries are the entries of a deployment, by app: most changes concern one app, and copy its
// entries alone.
type Entries map[string]*appEntries

// appEntries are the entries of an app of a deployment.
type appEntries struct {
	at   map[v2.ClusterKey]*Entry
	lent *Version // set once a snapshot has the map: the next change copies it; guarded by Mirror.mu until then
}

// Version identifies the entries of an app of a deployment while they do not change.
type Version struct{ _ byte } // not empty: each has an address of its own

// At returns the entry of a pair; nil if there is none.
func (e Entries) At(p Pair) *Entry { return e.Of(p.App)[p.Cluster] }

// Of returns the entries of an app by cluster. They must not be changed.
func (e Entries) Of(app string) map[v2.ClusterKey]*Entry {
	if of := e[app]; of != nil {
		return of.at
	}
	return nil
}

// Version identifies the entries of an app: equal Versions mean equal entries, in any snapshot; only
// the times of last signs of life may differ. It is nil if the app has no entries or the snapshot was
// read from etcd; then nothing may be cached by it.
func (e Entries) Version(app string) *Version {
	if of := e[app]; of != nil {
		return of.lent
	}
	return nil
}

// Len returns the number of entries.
func (e Entries) Len() (n int) {
	for _, of := range e {
		n += len(of.at)
	}
	return n
}

// All yields all entries, in no order.
func (e Entries) All() iter.Seq2[Pair, *Entry] {
	return func(yield func(Pair, *Entry) bool) {
		for app, of := range e {
			for cluster, entry := range of.at {
				if !yield(Pair{cluster, app}, entry) {
					return
				}
			}
		}
	}
}

// put sets an entry.
func (e Entries) put(at Pair, entry *Entry) {
	e.own(at.App)[at.Cluster] = entry
}

// remove removes an entry.
func (e Entries) remove(at Pair) {
	of := e.own(at.App)
	if delete(of, at.Cluster); len(of) == 0 {
		delete(e, at.App)
	}
}

// own returns the entries of an app, to be changed.
func (e Entries) own(app string) map[v2.ClusterKey]*Entry {
	switch of := e[app]; {
	case of == nil:
		e[app] = &appEntries{at: map[v2.ClusterKey]*Entry{}}
	case of.lent != nil:
		e[app] = &appEntries{at: maps.Clone(of.at)}
	}
	return e[app].at
}

// lend notes that a snapshot has the entries.
func (e Entries) lend() {
	for _, of := range e {
		if of.lent == nil {
			of.lent = new(Version)
		}
	}
}
