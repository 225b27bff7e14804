package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/storeidentity"
)

// Of a start that waits for stores.
const (
	storePause  = time.Second     // between two attempts
	storeNotice = 2 * time.Second // from the first attempt to the line in the log; an attempt takes longer
)

// join refuses stores that do not belong together. It waits until they answer.
func (a *App) join(ctx context.Context, c config.Config, s storeidentity.Stores) error {
	if err := a.await(ctx, "the stores: "+s.Places.Documents+", and "+etcdPlace(c), func() error { return s.Join(ctx) }); err != nil {
		return err
	}
	return a.await(ctx, etcdPlace(c), func() error {
		jumped, err := s.Contexts.NoteProgress(ctx)
		if jumped > 0 {
			a.log.Warn("etcd was restored from a backup: EMCO skips numbers of revisions that it may have used after the backup", "deployments", jumped)
		}
		return err
	})
}

// etcdPlace names the etcd of the settings.
func etcdPlace(c config.Config) string {
	if len(c.Etcd.Endpoints) == 0 {
		return "etcd in " + c.Path("etcd")
	}
	return "etcd at " + strings.Join(c.Etcd.Endpoints, ", ")
}

// await calls open again while what it opens does not answer.
func (a *App) await(ctx context.Context, what string, open func() error) error {
	notice := time.AfterFunc(storeNotice, func() { a.log.Warn("the start waits for " + what + ", which has not answered yet") })
	defer notice.Stop()
	begun := time.Now()
	for {
		err := open()
		switch {
		case !errs.Is(err, errs.Unavailable) || ctx.Err() != nil:
			return err
		case a.patience > 0 && time.Since(begun) >= a.patience:
			return fmt.Errorf("%s did not answer within %s: %w", what, a.patience, err)
		}
		a.log.Warn("the start still waits for "+what+"; a line of the component etcd says why a connection fails", "err", err)
		if pause.For(ctx, storePause) != nil {
			return err
		}
	}
}

// storePlaces returns where the settings put the stores.
func storePlaces(c config.Config, driver string) storeidentity.Places {
	shared := "etcd below " + c.Etcd.Prefix
	p := storeidentity.Places{Documents: documentsFile(c), Contexts: shared, Forget: "delete these keys from etcd", Share: "the same data folder"}
	if len(c.Etcd.Endpoints) == 0 {
		p.Contexts, p.Forget = c.Path("etcd"), "move that folder away"
	}
	switch driver {
	case drivers.Etcd:
		p.Documents, p.Share = shared, "the same store.driver"
	case drivers.Mongo:
		p.Documents, p.Share = "the database "+c.Store.Mongo.Database+" of MongoDB", "the same store.driver and store.mongo"
	}
	return p
}
