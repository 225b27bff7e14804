package statusview

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// historyKey identifies a history: an action is recorded by the write that changes the head.
type historyKey struct {
	head appcontext.HeadID
	mod  int64 // revision of etcd of the head's last write
}

// historyCache keeps histories, because clients poll statuses. Its values are shared and never change.
type historyCache = bytelru.Cache[historyKey, []appcontext.HistoryEntry]

const (
	historiesBytes = 4 << 20 // of all histories that are kept
	entryBytes     = 300     // of an entry, about, besides its reason
)

func newHistoryCache() *historyCache {
	return bytelru.New[historyKey, []appcontext.HistoryEntry](historiesBytes)
}

// history returns the actions up to the head that was read; nil: it does not exist.
func (r *Reader) history(ctx context.Context, doc store.Doc, head *appcontext.Head) (appcontext.Head, []appcontext.HistoryEntry, error) {
	if head == nil {
		return lifecycle.History(ctx, r.contexts, doc)
	}
	k := historyKey{head.UID, head.Mod}
	if acts, ok := r.histories.Get(k); ok {
		return *head, acts, nil
	}
	acts, err := r.contexts.History(ctx, head.UID)
	if err != nil {
		return *head, nil, err
	}
	acts = slices.DeleteFunc(acts, func(a appcontext.HistoryEntry) bool { return a.Seq > head.Seq })
	size := 0
	for _, a := range acts {
		size += entryBytes + len(a.Reason)
	}
	r.histories.Put(k, acts, size)
	return *head, acts, nil
}
