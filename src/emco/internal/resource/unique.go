package resource

import (
	"context"
	"path"

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
