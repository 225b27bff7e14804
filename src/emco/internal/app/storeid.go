package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
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
}

// join refuses stores that do not belong together, and gives both an id if they have none. It
// waits until etcd answers.
func (a *App) join(ctx context.Context, p storePair) error {
	if err := a.await(ctx, func() error { return p.join(ctx) }); err != nil {
		return err
	}
	return a.await(ctx, func() error {
		jumped, err := p.contexts.NoteProgress(ctx)
		if jumped > 0 {
			a.log.Warn("etcd was restored from a backup: EMCO skips numbers of revisions that it may have used after the backup", "deployments", jumped)
		}
		return err
	})
}

// await calls open again while a store does not answer.
func (a *App) await(ctx context.Context, open func() error) error {
	for {
		err := open()
		if !errs.Is(err, errs.Unavailable) || ctx.Err() != nil {
			return err
		}
		a.log.Warn("the start waits for the stores", "err", err)
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
		return nil
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
	return nil
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
	etcd := "etcd below " + p.config.Etcd.Prefix
	at, forget := etcd, "delete these keys from etcd"
	if len(p.config.Etcd.Endpoints) == 0 {
		at = p.config.Path("etcd")
		forget = "move that folder away"
	}
	documents, shared := documentsFile(p.config), "the same data folder"
	switch p.driver {
	case drivers.Etcd:
		documents, shared = etcd, "the same store.driver"
	case drivers.Mongo:
		documents, shared = "the database "+p.config.Store.Mongo.Database+" of MongoDB", "the same store.driver and store.mongo"
	}
	return fmt.Errorf("the AppContext in %s belongs to other documents than those in %s: %s. "+
		"If the documents were lost or replaced, restore them from a backup. "+
		"If another process uses this etcd, give this process %s, or another etcd.prefix. "+
		"To start with nothing, %s; EMCO then no longer knows what runs on the clusters",
		at, documents, reason, shared, forget)
}
