package rsync

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// documentInterval is the time between two questions to the document store about changes.
// Processes share the store and not their memory, so it must be asked.
const documentInterval = time.Second

// followDocuments has the shards try again what failed before a document changed that tells
// how to reach a cluster: its registration, or a sync object. It ends with ctx.
func (s *Service) followDocuments(ctx context.Context) {
	var mark int64
	for ctx.Err() == nil {
		changes, err := s.shared.Routes.DB.Changes(ctx, mark)
		if err == nil {
			if mark > 0 && (changes.All || len(changes.Keys) > 0) {
				for _, sh := range s.shards.list() {
					sh.DocumentsChanged(changes)
				}
			}
			mark = changes.Mark
		} else if ctx.Err() == nil {
			s.log.Warn("changed documents not read; will retry", "err", err)
		}
		_ = pause.For(ctx, documentInterval)
	}
}
