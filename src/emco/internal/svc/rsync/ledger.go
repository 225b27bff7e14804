package rsync

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/events"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// pairStore is what the ledger needs of the AppContext.
type pairStore interface {
	PutPairs(ctx context.Context, own appcontext.Fence, put []appcontext.Pair, remove []appcontext.PairKey) error
	PutReports(ctx context.Context, own appcontext.Fence, put []appcontext.Report, remove []appcontext.PairKey) error
	PairsAt(ctx context.Context, keys []appcontext.PairKey) ([]appcontext.Pair, error)
	Calm(ctx context.Context, own appcontext.Fence) error
	reportStore
}

// ledger is the one place that changes the pairs of a shard: first in etcd, then in
// memory. What it shows is therefore never ahead of what survives a crash.
type ledger struct {
	store pairStore
	fence appcontext.Fence
	shard string // what its pairs name as theirs
	retry pair.Retry
	now   func() time.Time
	ways  *content.StepPlans

	elsewhere elsewhere // nil: there are no other shards

	mu       sync.Mutex
	pairs    map[pair.Target]map[string]appcontext.Pair // by app
	targets  map[string]map[pair.Target]bool            // by deployment
	sites    map[string]map[pair.Target]bool            // by cluster
	subjects map[string]string                          // by deployment, for people who read
	clouds   map[string]tenancy                         // by deployment
	heads    map[string]string                          // by deployment: uid of the head that it is about
	wanted   map[string]bool                            // deployments of which something is wished for
	restless restless
	orders   map[string]order // by deployment, if there is any order in it
	hands    int64            // how often pairs were handed over
	stops    map[string]bool  // deployments for which nothing more is done
	doubts   doubts
	reports  hearings
	diary    events.Recorder
	stirred  stirred // deployments with pairs that may go on now
}

// load takes in the shard's pairs. Those that do not name it yet do so from now on, so
// that no other shard takes them for its own.
func (l *ledger) load(ctx context.Context, pairs []appcontext.Pair) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pairs, l.targets, l.sites = map[pair.Target]map[string]appcontext.Pair{}, map[string]map[pair.Target]bool{}, map[string]map[pair.Target]bool{}
	l.subjects, l.heads, l.orders, l.stops = map[string]string{}, map[string]string{}, map[string]order{}, map[string]bool{}
	l.wanted, l.doubts, l.clouds = map[string]bool{}, newDoubts(), map[string]tenancy{}
	l.restless = restless{}
	l.reports, l.stirred = newHearings(l.store), newStirred()
	var strays []appcontext.Pair
	for _, p := range pairs {
		if l.keep(p); p.Shard != l.shard {
			strays = append(strays, p)
		}
	}
	return l.write(ctx, entry{put: strays})
}

// intend writes down what a deployment wishes for and returns the targets that are
// due for it. What was stopped goes on.
func (l *ledger) intend(ctx context.Context, w pair.Desired) ([]pair.Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stale(w); err != nil {
		return nil, err
	}
	have := l.concerned(w)
	due := pair.Diff(w, have, l.now())
	delete(l.stops, w.Deployment)
	l.note(w)
	if err := l.admit(ctx, w.Deployment, have, due); err != nil {
		return nil, err
	}
	if err := l.proceed(ctx, due); err != nil {
		return nil, err
	}
	if err := l.write(ctx, entry{put: l.changed(due)}); err != nil {
		return nil, err
	}
	if len(l.targets[w.Deployment]) > 0 && w.Subject != "" {
		l.subjects[w.Deployment] = w.Subject
		l.settleIn(w)
	}
	return pair.TargetsOf(due), nil
}

// concerned returns the pairs that a wish is about, and those that may be there.
func (l *ledger) concerned(w pair.Desired) (have []appcontext.Pair) {
	if w.Scope == nil {
		return append(l.deployment(w.Deployment), l.doubts.of(w.Deployment)...)
	}
	for c := range w.Scope {
		have = slices.AppendSeq(have, maps.Values(l.pairs[pair.Target{Cluster: c, UID: w.Deployment}]))
	}
	return have
}

// changed returns the pairs that are not as they are remembered, or may not be as they are
// stored.
func (l *ledger) changed(pairs []appcontext.Pair) []appcontext.Pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p appcontext.Pair) bool {
		old, known := l.pair(p.Key)
		return known && !l.doubts.known[p.Key] && reflect.DeepEqual(p, old)
	})
}

// hold stops a deployment: its pairs stay as they are, and sinks leave them alone.
func (l *ledger) hold(ctx context.Context, uid string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops[uid] = true
	var put []appcontext.Pair
	for _, p := range l.deployment(uid) {
		if p.Blocked != pair.Stopped && (pair.Deliverable(p) || p.Blocked != "") {
			put = append(put, l.stayed(p))
		}
	}
	return l.write(ctx, entry{put: put})
}

// stayed blocks a pair that is not settled if its deployment was stopped.
func (l *ledger) stayed(p appcontext.Pair) appcontext.Pair {
	if l.stops[p.Key.UID] && p.Phase != appcontext.Applied {
		p.Blocked = pair.Stopped
	}
	return p
}

// settle writes down what sinks said. Outcomes of pairs that are not known any more are dropped.
func (l *ledger) settle(ctx context.Context, outcomes []pair.Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e entry
	for _, o := range outcomes {
		p, known := l.pair(o.Key)
		if !known {
			continue
		}
		if p, stays := l.settled(p, o); stays {
			e.put = append(e.put, p)
		} else {
			e.gone = append(e.gone, o.Key)
		}
	}
	if err := l.proceed(ctx, e.put); err != nil {
		return err
	}
	if err := l.requalify(ctx, &e); err != nil {
		return err
	}
	return l.write(ctx, e)
}

func (l *ledger) settled(p appcontext.Pair, o pair.Result) (appcontext.Pair, bool) {
	stays := true
	if o.Err != nil {
		p = l.failed(p, o.Err)
	} else {
		p, stays = pair.Apply(p, o, l.now())
	}
	return l.stayed(p), stays
}

// failed notes that a step could not be delivered. A pair whose hook failed keeps its
// reason: what failed is to clean up after it.
func (l *ledger) failed(p appcontext.Pair, err error) appcontext.Pair {
	out := l.retry.Fail(p, err, l.now())
	if p.Halted {
		out.Phase, out.Error = p.Phase, p.Error
	}
	return out
}

// entry is what is written together.
type entry struct {
	put     []appcontext.Pair
	gone    []appcontext.PairKey
	reports []appcontext.Report
	heard   map[appcontext.PairKey]hearing
}

// portion is how many pairs are stored and then remembered at a time: what is stored need
// not be stored again when a later portion fails.
const portion = 2000

// write stores and then remembers. Reports of what is gone go with it.
func (l *ledger) write(ctx context.Context, e entry) error {
	for i := range e.put {
		e.put[i].Shard = l.shard
	}
	if len(e.reports)+len(e.gone) > 0 {
		if err := l.store.PutReports(ctx, l.fence, e.reports, e.gone); err != nil {
			return err
		}
	}
	for k, h := range e.heard {
		l.hear(k, h)
	}
	for part := range slices.Chunk(e.put, portion) {
		if err := l.store.PutPairs(ctx, l.fence, part, nil); err != nil {
			l.doubt(part, nil)
			return err
		}
		l.remember(part)
	}
	for part := range slices.Chunk(e.gone, portion) {
		if err := l.store.PutPairs(ctx, l.fence, nil, part); err != nil {
			l.doubt(nil, part)
			return err
		}
		for _, k := range part {
			l.diary.PairRemoved(k)
			l.forget(k)
		}
	}
	return nil
}

// remember takes in pairs that are stored.
func (l *ledger) remember(stored []appcontext.Pair) {
	for _, p := range stored {
		old, known := l.pair(p.Key)
		if !known {
			l.reports.none(p.Key)
		}
		l.diary.PairChanged(old, p)
		l.keep(p)
		l.doubts.settle(p.Key)
	}
}

func (l *ledger) keep(p appcontext.Pair) {
	t := pair.TargetOf(p.Key)
	if l.pairs[t] == nil {
		l.pairs[t] = map[string]appcontext.Pair{}
	}
	note(l.targets, t.UID, t)
	note(l.sites, t.Cluster, t)
	l.stirred.count(l.pairs[t][p.Key.App], p)
	l.pairs[t][p.Key.App] = p
	l.restless.note(p)
	if p.Phase == appcontext.Applied {
		l.reports.trim(p.Key)
	}
	l.stir(t.UID)
}

func (l *ledger) forget(k appcontext.PairKey) {
	t := pair.TargetOf(k)
	l.stirred.count(l.pairs[t][k.App], appcontext.Pair{Key: k})
	l.reports.forget(k)
	l.restless.forget(k)
	l.doubts.settle(k)
	if delete(l.pairs[t], k.App); len(l.pairs[t]) == 0 {
		delete(l.pairs, t)
		delete(l.targets[t.UID], t)
		delete(l.sites[t.Cluster], t)
	}
	if len(l.sites[t.Cluster]) == 0 {
		delete(l.sites, t.Cluster)
	}
	if len(l.targets[t.UID]) == 0 {
		delete(l.targets, t.UID)
		delete(l.subjects, t.UID)
		delete(l.clouds, t.UID)
	}
	l.stir(t.UID)
}

func note(index map[string]map[pair.Target]bool, key string, t pair.Target) {
	if index[key] == nil {
		index[key] = map[pair.Target]bool{}
	}
	index[key][t] = true
}

// pair returns what is remembered of a pair.
func (l *ledger) pair(k appcontext.PairKey) (appcontext.Pair, bool) {
	p, known := l.pairs[pair.TargetOf(k)][k.App]
	return p, known
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
func (l *ledger) of(t pair.Target) []appcontext.Pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.pairs[t]), pair.CompareKeys)
}

// at returns the targets of a deployment, in order.
func (l *ledger) at(uid string) []pair.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.targets[uid]), pair.CompareTargets)
}

// on returns the targets on a cluster, in order.
func (l *ledger) on(cluster string) []pair.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.sites[cluster]), pair.CompareTargets)
}

// clusters returns where a deployment has pairs.
func (l *ledger) clusters(uid string) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]bool, len(l.targets[uid]))
	for t := range l.targets[uid] {
		out[t.Cluster] = true
	}
	for _, p := range l.doubts.of(uid) {
		out[p.Key.Cluster] = true
	}
	return out
}

// all returns every target that has pairs, in order.
func (l *ledger) all() []pair.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.pairs), pair.CompareTargets)
}
