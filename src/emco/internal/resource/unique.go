package resource

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A slot is kept as a reference to a key that no document has. So the store's index
// of references finds its holder, and no second document has to be kept in step.

func (h *handler[T, P]) slot(at Place, doc T) Slot {
	if h.def.Unique == nil {
		return Slot{}
	}
	return h.def.Unique(at, doc)
}

// NameSlot keeps the members of a collection from having names that differ in letter
// case or punctuation only. They would fall together where such names become names
// of Kubernetes objects, or of files on disks that ignore case.
func NameSlot(name string) Slot {
	folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
	return Slot{Name: folded, Taken: "a name that differs in letter case or punctuation only is taken"}
}

// Holder returns the document of the collection that has the slot; NotFound if none.
func Holder(ctx context.Context, db *store.DB, at Place, slot string) (store.Doc, error) {
	for doc, err := range db.List(ctx, at.Collection, store.Query{Refers: slotKey(at, Slot{Name: slot}), Limit: 1}) {
		return doc, err
	}
	return store.Doc{}, errs.E(errs.NotFound, "find", string(at.Collection), errors.New("nobody has "+slot))
}

// slotKey is the key that stands for a slot.
func slotKey(at Place, slot Slot) store.Key {
	return "unique/" + at.Collection + "/" + store.Key(slot.Name)
}

// vacant refuses a document whose slot another one of the collection has.
func (h *handler[T, P]) vacant(ctx context.Context, at Place, doc T) error {
	slot := h.slot(at, doc)
	if slot.Name == "" {
		return nil
	}
	for other, err := range h.db.List(ctx, at.Collection, store.Query{Refers: slotKey(at, slot), Limit: 2}) {
		if err != nil {
			return err
		}
		if other.Key != at.Key {
			return errs.New(errs.Conflict, slot.Taken+": "+path.Base(string(other.Key)))
		}
	}
	return nil
}
