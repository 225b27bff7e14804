package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	blobGrace   = time.Hour // longest upload that is still to be named by its document
	sweepPeriod = time.Hour
	probeTime   = 2 * time.Second
)

// documentUpkeep looks after the documents: it says whether they can be read, and removes uploads
// that no document names.
type documentUpkeep struct {
	db  *store.DB
	log *slog.Logger
}

func (u *documentUpkeep) Name() string { return "documents" }

// Ready asks the document store.
func (u *documentUpkeep) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	for _, err := range u.db.List(ctx, "", store.Query{Limit: 1}) {
		return err
	}
	return nil
}

// Run sweeps once in a while until ctx ends.
func (u *documentUpkeep) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := u.db.SweepBlobs(ctx, blobGrace); err != nil {
			u.log.Warn("sweep of uploads", "err", err)
		}
	}
}
