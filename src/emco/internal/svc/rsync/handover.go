package rsync

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// handing is how pairs are handed over.
type handing struct {
	to     string    // shard
	commit string    // that holds what is proved to be there, from now on; empty: as before
	before time.Time // of what was settled before
	anew   bool      // what is settled is to be delivered again: a platform has to be told
}

// changedHands counts how often pairs were handed over, or taken in. Who has worked out what
// is to be written from what the ledger held then, writes it only if that number is still
// the same.
func (l *ledger) changedHands() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hands
}

// stale refuses a wish that was worked out before pairs changed hands: it might take for new
// what another shard has, or for unwanted what has come from one. What wishes for nothing
// anywhere does neither. The caller holds mu.
func (l *ledger) stale(w pair.Desired) error {
	if w.Removed || w.Handovers == l.hands {
		return nil
	}
	return errs.E(errs.Unavailable, "take in", "deployment "+w.Deployment, errors.New("pairs have changed hands meanwhile"))
}

// handOver writes down that pairs are another shard's from now on, and forgets them if that
// is not this one.
func (l *ledger) handOver(ctx context.Context, targets []pair.Target, h handing) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var put []appcontext.Pair
	for _, t := range targets {
		for _, p := range l.pairs[t] {
			put = append(put, h.apply(p, l))
		}
	}
	slices.SortFunc(put, pair.CompareKeys)
	l.hands++
	if h.to == l.shard {
		return l.write(ctx, entry{put: put})
	}
	put, err := l.unhanded(ctx, put)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(put, portion) {
		if err := l.store.PutPairs(ctx, l.fence, part, nil); err != nil {
			l.doubt(part, nil)
			return err
		}
		for _, p := range part {
			l.forget(p.Key)
		}
	}
	return nil
}

// apply returns a pair as it is handed over.
func (h handing) apply(p appcontext.Pair, l *ledger) appcontext.Pair {
	p.Shard = h.to
	if p.Commit != "" && h.commit != "" && p.At.Before(h.before) {
		p.Commit = h.commit
	}
	if h.anew && p.Phase == appcontext.Applied {
		p.From, p.At, p.Sent = p.Desired, l.now(), false
		p = pair.Reset(p)
	}
	return p
}

// takeIn remembers pairs that another shard has handed over. Those that are known already
// stay as they are: this shard has changed them since.
func (l *ledger) takeIn(pairs []appcontext.Pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pairs {
		if _, known := l.pair(p.Key); !known {
			l.keep(p)
			l.hands++
		}
	}
}
