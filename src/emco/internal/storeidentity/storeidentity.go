// Package storeidentity checks that the two stores of an installation belong together: the documents, and the AppContext that
// was made from them. Each holds the same random id, so a start finds documents that were lost or replaced, and a second
// process that uses the same etcd with documents of its own. Package generation finds that one of them alone was restored from a backup.
package storeidentity

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/generation"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Stores are the two stores.
type Stores struct {
	Documents store.Driver
	Contexts  *appcontext.Store
	Places    Places

	// Apart decides about stores of different times: it gets the error that describes them, and returns nil to go on with
	// them as they are. If Apart is nil, Join refuses them.
	Apart func(context.Context, error) error
}

// Places are words for errors: where the stores are, and what people can do there.
type Places struct {
	Documents, Contexts string
	Forget              string // how to empty the AppContext, such as "move that folder away"
	Share               string // what processes with the same documents have in common, such as "the same data folder"
}

// Join refuses stores that do not belong together, and gives both an id if they have none. The error is Unavailable if a
// store does not answer.
func (s Stores) Join(ctx context.Context) error {
	recorded, err := s.Contexts.DocumentsID(ctx)
	if err != nil {
		return fmt.Errorf("read the id of the AppContext: %w", err)
	}
	own, err := store.ID(ctx, s.Documents)
	if err != nil {
		return fmt.Errorf("read the id of the documents: %w", err)
	}
	if own != "" && own == recorded {
		return s.compare(ctx)
	}
	if own != "" && recorded == "" {
		if emptied, err := s.checkEmptied(ctx); emptied || err != nil {
			return err
		}
	}
	if own == "" || recorded == "" { // a folder of an older version, a first start, or a lost store
		if err := s.checkOwner(ctx, recorded); err != nil {
			return err
		}
		if own, err = store.Identify(ctx, s.Documents, cmp.Or(own, recorded, rand.Text())); err != nil {
			return fmt.Errorf("record the id of the documents: %w", err)
		}
		if recorded, err = s.Contexts.Identify(ctx, own); err != nil {
			return fmt.Errorf("record the id of the AppContext: %w", err)
		}
	}
	if own != recorded {
		return s.refusal("the two stores have different ids")
	}
	return s.compare(ctx)
}

// Generations are the stores as those that may be of different generations.
func (s Stores) Generations() generation.Stores {
	return generation.Stores{Documents: s.Documents, Contexts: s.Contexts}
}

// compare refuses two stores if only one of them was restored.
func (s Stores) compare(ctx context.Context) error {
	err := s.Generations().Compare(ctx)
	if _, apart := errors.AsType[*generation.Apart](err); apart {
		return s.fromOtherTimes(ctx, err)
	}
	return err
}

// checkEmptied refuses an AppContext without an id if the documents have one and hold more than that: the AppContext was
// lost. A crash at the first start leaves nothing but the id.
func (s Stores) checkEmptied(ctx context.Context) (emptied bool, err error) {
	lost := s.Generations().Compare(ctx)
	if _, apart := errors.AsType[*generation.Apart](lost); lost != nil && !apart {
		return false, lost
	}
	filled, err := store.Filled(ctx, s.Documents)
	if err != nil {
		return false, fmt.Errorf("read the documents: %w", err)
	}
	if lost == nil && filled { // documents of an older version have no generation
		lost = errors.New("the AppContext is empty, the documents are not")
	}
	if lost == nil {
		return false, nil
	}
	return true, s.fromOtherTimes(ctx, lost)
}

// fromOtherTimes names the way back for stores of different times.
func (s Stores) fromOtherTimes(ctx context.Context, err error) error {
	if s.Apart != nil {
		return s.Apart(ctx, err)
	}
	return fmt.Errorf("%w. The AppContext is in %s, the documents are in %s. "+
		"Stop all processes, and restore both from the same backup. Or have EMCO continue with them as they are, by "+
		"emco adopt with the flags of this start: what was done after the older backup is forgotten, and stays on clusters and branches; "+
		"docs/guides/backup.md says what to look at then", err, s.Places.Contexts, s.Places.Documents)
}

// Adopt joins stores that are from different times.
func (s Stores) Adopt(ctx context.Context) error {
	own, err := store.ID(ctx, s.Documents)
	if err == nil {
		_, err = s.Contexts.Identify(ctx, own) // an emptied one has none
	}
	if err != nil {
		return fmt.Errorf("record the id of the AppContext: %w", err)
	}
	return s.Generations().Adopt(ctx, time.Now())
}

// checkOwner compares deployments of the AppContext with documents, while an id is missing.
// One deployment whose document exists proves that the stores belong together.
func (s Stores) checkOwner(ctx context.Context, recorded string) error {
	deployments := 0
	for h, err := range s.Contexts.Heads(ctx) {
		if err != nil {
			return fmt.Errorf("read the AppContext: %w", err)
		}
		doc, err := s.Documents.Get(ctx, store.Key(h.Document))
		switch {
		case err == nil && appcontext.HeadID(doc.UID) == h.UID:
			return nil
		case err != nil && !errs.Is(err, errs.NotFound):
			return fmt.Errorf("read the document of a deployment: %w", err)
		}
		deployments++
	}
	switch {
	case deployments > 0:
		return s.refusal(fmt.Sprintf("none of its %d deployments has a document", deployments))
	case recorded != "":
		return s.refusal("the documents have no id")
	}
	return nil
}

// refusal explains why the stores do not belong together, and how to go on.
func (s Stores) refusal(reason string) error {
	return fmt.Errorf("the AppContext in %s belongs to other documents than those in %s: %s. "+
		"If the documents were lost or replaced, restore them from a backup. "+
		"If another process uses this etcd, give this process %s, or another etcd.prefix. "+
		"To start with nothing, %s, and the documents too; EMCO then no longer knows what runs on the clusters",
		s.Places.Contexts, s.Places.Documents, reason, s.Places.Share, s.Places.Forget)
}
