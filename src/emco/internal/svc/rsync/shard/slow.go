package shard

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// slowAfter is how long a delivery may take before the status gives a reason.
const slowAfter = 5 * time.Second

// noteWhenSlow has the pairs of targets name where they wait, if their delivery has not ended
// after slowAfter. The caller must call ended after the delivery.
func (s *Shard) noteWhenSlow(ctx context.Context, targets []pair.Target, where string) (ended func()) {
	begun, done := time.Now(), make(chan struct{})
	timer := time.AfterFunc(slowAfter, func() {
		defer close(done)
		why := "waits for " + where + " since " + begun.UTC().Format(time.RFC3339)
		if err := s.pairs.NoteWaiting(ctx, targets, why); err != nil && ctx.Err() == nil {
			s.Log.Warn("a slow delivery not noted", "err", err, "targets", len(targets), "where", where)
		}
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}
