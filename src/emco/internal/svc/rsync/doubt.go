package rsync

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// doubts are pairs of which the last write was not answered: etcd may hold what was
// written, or what was there before.
type doubts struct {
	// fresh are not remembered at all. The next wish for their deployment takes them for
	// written, so that none is left that nobody knows of.
	fresh map[appcontext.PairKey]appcontext.Pair
	// known are remembered as they were before, and are written even if they stay so.
	known map[appcontext.PairKey]bool
}

func newDoubts() doubts {
	return doubts{map[appcontext.PairKey]appcontext.Pair{}, map[appcontext.PairKey]bool{}}
}

// doubt notes pairs that were to be written, and keys that were to be removed.
func (l *ledger) doubt(put []appcontext.Pair, gone []appcontext.PairKey) {
	for _, p := range put {
		if _, known := l.pair(p.Key); known {
			l.doubts.known[p.Key] = true
		} else {
			l.doubts.fresh[p.Key] = p
		}
	}
	for _, k := range gone {
		l.doubts.known[k] = true
	}
}

// settle notes that a write of a pair was answered, or that it is another shard's.
func (d doubts) settle(k appcontext.PairKey) {
	delete(d.fresh, k)
	delete(d.known, k)
}

// of returns those of a deployment that are not remembered.
func (d doubts) of(uid string) (out []appcontext.Pair) {
	for _, p := range d.fresh {
		if p.Key.UID == uid {
			out = append(out, p)
		}
	}
	return out
}

// any reports whether there are some of a deployment.
func (d doubts) any(uid string) bool {
	for k := range d.known {
		if k.UID == uid {
			return true
		}
	}
	return len(d.of(uid)) > 0
}

// unhanded returns which of the pairs are still to be handed over, and forgets the others:
// nobody answered when they were handed over, and their new shard may have written them
// since.
func (l *ledger) unhanded(ctx context.Context, put []appcontext.Pair) ([]appcontext.Pair, error) {
	var open []appcontext.PairKey
	for _, p := range put {
		if l.doubts.known[p.Key] {
			open = append(open, p.Key)
		}
	}
	if len(open) == 0 {
		return put, nil
	}
	if err := l.store.Calm(ctx, l.fence); err != nil {
		return nil, err
	}
	there, err := l.store.PairsAt(ctx, open)
	if err != nil {
		return nil, err
	}
	handed := map[appcontext.PairKey]bool{}
	for _, p := range there {
		if p.Shard != l.shard {
			handed[p.Key] = true
			l.forget(p.Key)
		}
	}
	return slices.DeleteFunc(put, func(p appcontext.Pair) bool { return handed[p.Key] }), nil
}
