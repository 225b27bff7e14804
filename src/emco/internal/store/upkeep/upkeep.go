// Package upkeep checks whether the document store answers, for /readyz, and removes uploads that no
// document refers to.
package upkeep

import (
	"context"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	blobGrace    = time.Hour // an upload may take this long before its document refers to it
	sweepPeriod  = time.Hour
	firstSweep   = time.Minute            // after the start
	probeTimeout = 800 * time.Millisecond // probes of /readyz often wait for a second only
)

// Service looks after a document store.
type Service struct {
	DB  *store.DB
	Log *slog.Logger
}

// Name is "documents".
func (s *Service) Name() string { return "documents" }

// Ready reads from the document store.
func (s *Service) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	for _, err := range s.DB.List(ctx, "", store.Query{Limit: 1}) {
		return err
	}
	return nil
}

// Run sweeps uploads periodically until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	next := time.NewTimer(firstSweep)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		next.Reset(sweepPeriod)
		if err := s.DB.SweepBlobs(ctx, blobGrace); err != nil {
			s.Log.Warn("cannot sweep uploads", "err", err)
		}
	}
}
