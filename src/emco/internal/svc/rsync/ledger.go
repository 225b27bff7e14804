package rsync

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// pairStore is what the ledger needs of the AppContext.
type pairStore interface {
	Pairs(ctx context.Context) iter.Seq2[appcontext.Pair, error]
	PutPairs(ctx context.Context, own appcontext.Fence, put []appcontext.Pair, remove []appcontext.PairKey) error
	PutReports(ctx context.Context, own appcontext.Fence, put []appcontext.Report, remove []appcontext.PairKey) error
}

// ledger is the one place that changes pairs: first in etcd, then in memory. What it
// shows is therefore never ahead of what survives a crash.
type ledger struct {
	store pairStore
	fence appcontext.Fence
	retry Retry
	now   func() time.Time

	mu       sync.Mutex
	pairs    map[target]map[string]appcontext.Pair // by app
	targets  map[string]map[target]bool            // by deployment
	subjects map[string]string                     // by deployment, for people who read
}

// load reads all pairs.
func (l *ledger) load(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pairs, l.targets = map[target]map[string]appcontext.Pair{}, map[string]map[target]bool{}
	l.subjects = map[string]string{}
	for p, err := range l.store.Pairs(ctx) {
		if err != nil {
			return err
		}
		l.keep(p)
	}
	return nil
}

// intend writes down what a deployment wishes for and returns the targets that are
// due for it.
func (l *ledger) intend(ctx context.Context, w wish) ([]target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := intend(w, l.deployment(w.uid), l.now())
	if err := l.store.PutPairs(ctx, l.fence, due, nil); err != nil {
		return nil, err
	}
	for _, p := range due {
		l.keep(p)
	}
	if len(l.targets[w.uid]) > 0 && w.subject != "" {
		l.subjects[w.uid] = w.subject
	}
	return targetsOf(due), nil
}

// settle writes down what sinks said. Outcomes of pairs that are not known any more are dropped.
func (l *ledger) settle(ctx context.Context, outcomes []outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var put []appcontext.Pair
	var gone []appcontext.PairKey
	for _, o := range outcomes {
		p, known := l.pairs[targetOf(o.key)][o.key.App]
		if !known {
			continue
		}
		stays := true
		if o.err != nil {
			p = l.retry.failed(p, o.err, l.now())
		} else {
			p, stays = settle(p, o, l.now())
		}
		if stays {
			put = append(put, p)
		} else {
			gone = append(gone, o.key)
		}
	}
	return l.write(ctx, put, gone)
}

// report writes down what clusters say of pairs that are known.
func (l *ledger) report(ctx context.Context, reports []appcontext.Report) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var known []appcontext.Report
	for _, r := range reports {
		if _, ok := l.pairs[targetOf(r.Key)][r.Key.App]; ok {
			known = append(known, r)
		}
	}
	return l.store.PutReports(ctx, l.fence, known, nil)
}

// write stores and then remembers. Reports of what is gone go with it.
func (l *ledger) write(ctx context.Context, put []appcontext.Pair, gone []appcontext.PairKey) error {
	if err := l.store.PutReports(ctx, l.fence, nil, gone); err != nil {
		return err
	}
	if err := l.store.PutPairs(ctx, l.fence, put, gone); err != nil {
		return err
	}
	for _, p := range put {
		l.keep(p)
	}
	for _, k := range gone {
		l.forget(k)
	}
	return nil
}

func (l *ledger) keep(p appcontext.Pair) {
	t := targetOf(p.Key)
	if l.pairs[t] == nil {
		l.pairs[t] = map[string]appcontext.Pair{}
	}
	if l.targets[t.uid] == nil {
		l.targets[t.uid] = map[target]bool{}
	}
	l.pairs[t][p.Key.App], l.targets[t.uid][t] = p, true
}

func (l *ledger) forget(k appcontext.PairKey) {
	t := targetOf(k)
	if delete(l.pairs[t], k.App); len(l.pairs[t]) > 0 {
		return
	}
	delete(l.pairs, t)
	if delete(l.targets[t.uid], t); len(l.targets[t.uid]) == 0 {
		delete(l.targets, t.uid)
		delete(l.subjects, t.uid)
	}
}

// subject returns what a deployment belongs to, or its id if that is not known.
func (l *ledger) subject(uid string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.subjects[uid], uid)
}

// deployment returns all pairs of a deployment, in no order.
func (l *ledger) deployment(uid string) []appcontext.Pair {
	var out []appcontext.Pair
	for t := range l.targets[uid] {
		out = slices.AppendSeq(out, maps.Values(l.pairs[t]))
	}
	return out
}

// of returns the pairs of a target, in order of app.
func (l *ledger) of(t target) []appcontext.Pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.pairs[t]), byKey)
}

// all returns every target that has pairs, in order.
func (l *ledger) all() []target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.pairs), compareTargets)
}
