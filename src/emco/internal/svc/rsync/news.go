package rsync

import (
	"cmp"
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// news returns the events that were collected since the last call.
func (l *ledger) news(ctx context.Context) []appcontext.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.diary.Drain(
		func(uid string) string { return l.heads[uid] },
		func(uid, app string) bool { return l.allReady(ctx, uid, app) },
	)
}

// allReady reports whether an app is ready wherever it is to be.
func (l *ledger) allReady(ctx context.Context, uid, app string) bool {
	var keys []appcontext.PairKey
	for t := range l.targets[uid] {
		if p, there := l.pairs[t][app]; there && p.Desired != "" {
			keys = append(keys, p.Key)
		}
	}
	if err := l.reports.read(ctx, keys, false); err != nil {
		return false
	}
	for _, k := range keys {
		if !l.reports.of[k].ready {
			return false
		}
		l.reports.trim(k)
	}
	return l.readyAbroad(ctx, uid, app)
}

// readyAbroad reports whether an app is ready wherever other shards have it.
func (l *ledger) readyAbroad(ctx context.Context, uid, app string) bool {
	if l.elsewhere == nil {
		return true
	}
	snap, err := l.elsewhere.Snapshot(ctx, cmp.Or(l.heads[uid], uid))
	for place, e := range snap.Places {
		if place.App != app || e.Pair == nil || e.Pair.Shard == l.shard || e.Pair.Desired == "" {
			continue
		}
		if e.Pair.Phase != appcontext.Applied || e.Report == nil || !e.Report.Ready {
			return false
		}
	}
	return err == nil
}
