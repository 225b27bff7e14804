package resource

import (
	"context"
	"errors"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A unique key is stored as a reference to a key that no document has. So the store's index
// of references finds its holder, and no second document must be kept consistent.

func (d *Def[T]) uniqueKey(at Place, doc T) UniqueKey {
	if d.Unique == nil {
		return UniqueKey{}
	}
	return d.Unique(at, doc)
}

// UniqueName keeps the members of a collection from having names that differ in letter
// case or punctuation only. They would fall together where such names become names
// of Kubernetes objects, or of files on disks that ignore case.
func UniqueName(name string) UniqueKey {
	folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
	return UniqueKey{Name: folded, Taken: "a name that differs in letter case or punctuation only is taken"}
}

// Holder returns the document of the collection that has the unique key; NotFound if none.
func Holder(ctx context.Context, db *store.DB, at Place, name string) (store.Doc, error) {
	for doc, err := range db.List(ctx, at.Collection, store.Query{Refers: uniqueIndexKey(at, UniqueKey{Name: name}), Limit: 1}) {
		return doc, err
	}
	return store.Doc{}, errs.E(errs.NotFound, "find", string(at.Collection), errors.New("no document has the unique key "+name))
}

// uniqueIndexKey is the key in the index of references that stands for a unique key.
func uniqueIndexKey(at Place, unique UniqueKey) store.Key {
	return "unique/" + at.Collection + "/" + store.Key(unique.Name)
}
