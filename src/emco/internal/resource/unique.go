package resource

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A unique key is stored as a reference to a key that no document has. So the store's index
// of references finds its holder, and no second document must be kept consistent.

func (h *handler[T, P]) uniqueKey(at Place, doc T) UniqueKey {
	if h.def.Unique == nil {
		return UniqueKey{}
	}
	return h.def.Unique(at, doc)
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
	return store.Doc{}, errs.E(errs.NotFound, "find", string(at.Collection), errors.New("nobody has "+name))
}

// uniqueIndexKey is the key in the index of references that stands for a unique key.
func uniqueIndexKey(at Place, unique UniqueKey) store.Key {
	return "unique/" + at.Collection + "/" + store.Key(unique.Name)
}

// vacant refuses a document whose unique key another one of the collection has.
func (h *handler[T, P]) vacant(ctx context.Context, at Place, doc T) error {
	unique := h.uniqueKey(at, doc)
	if unique.Name == "" {
		return nil
	}
	for other, err := range h.db.List(ctx, at.Collection, store.Query{Refers: uniqueIndexKey(at, unique), Limit: 2}) {
		if err != nil {
			return err
		}
		if other.Key != at.Key {
			return errs.New(errs.Conflict, unique.Taken+": "+path.Base(string(other.Key)))
		}
	}
	return nil
}
