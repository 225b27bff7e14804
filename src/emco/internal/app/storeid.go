package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/generation"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
)

// storePause is the wait between attempts to reach etcd at a start.
const storePause = time.Second

// storePair are the two stores of an installation: documents, and the AppContext that was made
// from them. Each holds the same random id, so a start finds a documents.db that was lost or
// replaced, and a second process that uses the same etcd with documents of its own.
type storePair struct {
	documents store.Driver
	contexts  *appcontext.Store
	config    config.Config
	driver    string // of documents

	apart func(context.Context, error) error // called with how the stores are of different times; nil: they are refused
}

// join refuses stores that do not belong together, and gives both an id if they have none. It
// waits until etcd answers.
func (a *App) join(ctx context.Context, p storePair) error {
	if err := a.await(ctx, "the stores", func() error { return p.join(ctx) }); err != nil {
		return err
	}
	return a.await(ctx, "etcd", func() error {
		jumped, err := p.contexts.NoteProgress(ctx)
		if jumped > 0 {
			a.log.Warn("etcd was restored from a backup: EMCO skips numbers of revisions that it may have used after the backup", "deployments", jumped)
		}
		return err
	})
}

// await calls open again while what it opens does not answer.
func (a *App) await(ctx context.Context, what string, open func() error) error {
	begun := time.Now()
	for {
		err := open()
		switch {
		case !errs.Is(err, errs.Unavailable) || ctx.Err() != nil:
			return err
		case a.patience > 0 && time.Since(begun) >= a.patience:
			return fmt.Errorf("%s did not answer within %s: %w", what, a.patience, err)
		}
		a.log.Warn("the start waits for the stores; a line of the component etcd says why a connection fails", "err", err)
		if pause.For(ctx, storePause) != nil {
			return err
		}
	}
}

func (p storePair) join(ctx context.Context) error {
	recorded, err := p.contexts.DocumentsID(ctx)
	if err != nil {
		return fmt.Errorf("read the id of the AppContext: %w", err)
	}
	own, err := store.ID(ctx, p.documents)
	if err != nil {
		return fmt.Errorf("read the id of the documents: %w", err)
	}
	if own != "" && own == recorded {
		return p.compare(ctx)
	}
	if own != "" && recorded == "" {
		if emptied, err := p.checkEmptied(ctx); emptied || err != nil {
			return err
		}
	}
	if own == "" || recorded == "" { // a folder of an older version, a first start, or a lost store
		if err := p.checkOwner(ctx, recorded); err != nil {
			return err
		}
		if own, err = store.Identify(ctx, p.documents, cmp.Or(own, recorded, rand.Text())); err != nil {
			return fmt.Errorf("record the id of the documents: %w", err)
		}
		if recorded, err = p.contexts.Identify(ctx, own); err != nil {
			return fmt.Errorf("record the id of the AppContext: %w", err)
		}
	}
	if own != recorded {
		return p.refusal("the two stores have different ids")
	}
	return p.compare(ctx)
}

// generations are the stores as those that may be of different generations.
func (p storePair) generations() generation.Stores {
	return generation.Stores{Documents: p.documents, Contexts: p.contexts}
}

// compare refuses two stores if only one of them was restored.
func (p storePair) compare(ctx context.Context) error {
	err := p.generations().Compare(ctx)
	if _, apart := errors.AsType[*generation.Apart](err); apart {
		return p.fromOtherTimes(ctx, err)
	}
	return err
}

// checkEmptied refuses an AppContext without an id if the documents have one and hold more than that: the AppContext was
// lost. A crash at the first start leaves nothing but the id.
func (p storePair) checkEmptied(ctx context.Context) (emptied bool, err error) {
	lost := p.generations().Compare(ctx)
	if _, apart := errors.AsType[*generation.Apart](lost); lost != nil && !apart {
		return false, lost
	}
	filled, err := store.Filled(ctx, p.documents)
	if err != nil {
		return false, fmt.Errorf("read the documents: %w", err)
	}
	if lost == nil && filled { // documents of an older version have no generation
		lost = errors.New("the AppContext is empty, the documents are not")
	}
	if lost == nil {
		return false, nil
	}
	return true, p.fromOtherTimes(ctx, lost)
}

// fromOtherTimes names the way back for stores of different times.
func (p storePair) fromOtherTimes(ctx context.Context, err error) error {
	if p.apart != nil {
		return p.apart(ctx, err)
	}
	return fmt.Errorf("%w. The AppContext is in %s, the documents are in %s. "+
		"Stop all processes, and restore both from the same backup. Or have EMCO continue with them as they are, by "+
		"emco adopt with the flags of this start: what was done after the older backup is forgotten, and stays on clusters and branches; "+
		"docs/guides/backup.md says what to look at then", err, p.contextsPlace(), p.documentsPlace())
}

// adopt joins stores that are from different times.
func (p storePair) adopt(ctx context.Context) error {
	own, err := store.ID(ctx, p.documents)
	if err == nil {
		_, err = p.contexts.Identify(ctx, own) // an emptied one has none
	}
	if err != nil {
		return fmt.Errorf("record the id of the AppContext: %w", err)
	}
	return p.generations().Adopt(ctx, time.Now())
}

// checkOwner compares deployments of the AppContext with documents, while an id is missing.
// One deployment whose document exists proves that the stores belong together.
func (p storePair) checkOwner(ctx context.Context, recorded string) error {
	deployments := 0
	for h, err := range p.contexts.Heads(ctx) {
		if err != nil {
			return fmt.Errorf("read the AppContext: %w", err)
		}
		doc, err := p.documents.Get(ctx, store.Key(h.Document))
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
		return p.refusal(fmt.Sprintf("none of its %d deployments has a document", deployments))
	case recorded != "":
		return p.refusal("the documents have no id")
	}
	return nil
}

// refusal explains why the stores do not belong together, and how to go on.
func (p storePair) refusal(reason string) error {
	forget, shared := "delete these keys from etcd", "the same data folder"
	if len(p.config.Etcd.Endpoints) == 0 {
		forget = "move that folder away"
	}
	switch p.driver {
	case drivers.Etcd:
		shared = "the same store.driver"
	case drivers.Mongo:
		shared = "the same store.driver and store.mongo"
	}
	return fmt.Errorf("the AppContext in %s belongs to other documents than those in %s: %s. "+
		"If the documents were lost or replaced, restore them from a backup. "+
		"If another process uses this etcd, give this process %s, or another etcd.prefix. "+
		"To start with nothing, %s, and the documents too; EMCO then no longer knows what runs on the clusters",
		p.contextsPlace(), p.documentsPlace(), reason, shared, forget)
}

func (p storePair) contextsPlace() string {
	if len(p.config.Etcd.Endpoints) == 0 {
		return p.config.Path("etcd")
	}
	return "etcd below " + p.config.Etcd.Prefix
}

func (p storePair) documentsPlace() string {
	switch p.driver {
	case drivers.Etcd:
		return "etcd below " + p.config.Etcd.Prefix
	case drivers.Mongo:
		return "the database " + p.config.Store.Mongo.Database + " of MongoDB"
	}
	return documentsFile(p.config)
}
