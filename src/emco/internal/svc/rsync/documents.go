package rsync

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// documentInterval is the time between two questions to the document store about changes.
// Processes share the store and not their memory, so it must be asked.
const documentInterval = time.Second

// documentPatience is how long the document store may take to answer. Later it counts as away.
const documentPatience = 10 * time.Second

// followDocuments has the shards retry failed deliveries to a cluster after its registration or
// a sync object has changed. It also notes whether the documents answer, and has a fleet that is being registered read ahead and lists of
// clusters forgotten when nothing uses them. It ends with ctx.
func (s *Service) followDocuments(ctx context.Context) {
	known := s.shared.Routes.LastKnown
	var mark int64
	for ctx.Err() == nil {
		changes, err := s.changedDocuments(ctx, mark)
		if err == nil {
			known.Forget(changes) // the first time all: they may have changed before that question
			if mark > 0 && (changes.All || len(changes.Keys) > 0) {
				for _, sh := range s.shards.list() {
					sh.DocumentsChanged(changes)
				}
			}
			mark = changes.Mark
			s.shared.Routes.ReadAhead(ctx, changes)
		} else if ctx.Err() == nil {
			s.log.Warn("changed documents not read; will retry", "err", err)
		}
		if ctx.Err() == nil {
			known.DocumentsAsked(err)
		}
		_ = pause.For(ctx, documentInterval)
	}
}

// changedDocuments asks the document store what changed since a mark.
func (s *Service) changedDocuments(ctx context.Context, mark int64) (store.Changes, error) {
	ctx, cancel := context.WithTimeout(ctx, documentPatience)
	defer cancel()
	return s.shared.Routes.DB.Changes(ctx, mark)
}
