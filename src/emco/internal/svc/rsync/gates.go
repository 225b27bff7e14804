package rsync

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// retell is how long the words of a pair that waits stay as they are, although what it
// waits for has changed: thousands of pairs may wait for a thousand clusters.
const retell = 5 * time.Second

// order is what of a revision decides which pair may begin when.
type order struct {
	apps map[string]appcontext.App
	wish pair.Desired // what other shards shall have of it
	told time.Time    // when the pairs that wait were last told what for
}

// note remembers the order that a wish demands, if it demands any.
func (l *ledger) note(w pair.Desired) {
	if l.heads[w.Deployment] = w.Head; w.Head == "" {
		delete(l.heads, w.Deployment)
	}
	if l.wanted[w.Deployment] = true; w.Removed {
		delete(l.wanted, w.Deployment)
	}
	o := order{apps: map[string]appcontext.App{}, wish: pair.Desired{Deployment: w.Deployment, Rev: w.Rev, Removed: w.Removed, Places: w.Elsewhere}}
	for _, a := range w.Apps {
		o.apps[a.Name] = appcontext.App{Name: a.Name, Failure: a.Failure, DependsOn: a.DependsOn, LeaveLast: a.LeaveLast, Rollout: a.Rollout}
	}
	delete(l.orders, w.Deployment)
	if gate.Ordered(w.Apps) {
		l.orders[w.Deployment] = o
	}
}

// admit blocks those of the due pairs of a deployment that have to wait for others
// before they begin. have is what the deployment has. A pair that was let in once is
// not called back for the same wish.
func (l *ledger) admit(ctx context.Context, uid string, have, due []appcontext.Pair) error {
	o, ordered := l.orders[uid]
	if !ordered {
		return l.free(due)
	}
	if !slices.ContainsFunc(due, l.outside) {
		return nil
	}
	all := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range slices.Concat(have, due) {
		all[p.Key] = p
	}
	s, err := l.look(ctx, o, slices.Collect(maps.Values(all)))
	if err != nil {
		return err
	}
	for i, p := range due {
		if l.outside(p) {
			due[i].Blocked = l.barred(uid, s.For(p))
		}
	}
	return s.failure()
}

// outside reports whether a pair that is due has still to be let in.
func (l *ledger) outside(p appcontext.Pair) bool {
	old, _ := l.pair(p.Key)
	same := old.Change != "" && old.Rev == p.Rev && old.Desired == p.Desired
	return !pair.Started(p) && !p.Halted && !(same && old.Blocked == "")
}

// free lets in pairs that waited for an order that does not hold any more.
func (l *ledger) free(due []appcontext.Pair) error {
	for i, p := range due {
		if pair.AtGate(p) {
			due[i].Blocked = ""
		}
	}
	return nil
}

// view is a scene with the errors that came up while it was looked at.
type view struct {
	*gate.Gates
	sightings *sightings
}

func (v view) failure() error { return v.sightings.err }

// look makes a scene of a deployment's pairs, those in other shards included.
func (l *ledger) look(ctx context.Context, o order, pairs []appcontext.Pair) (view, error) {
	judging := gate.NeedReadiness(o.apps)
	var keys []appcontext.PairKey
	for _, p := range pairs {
		if judging[p.Key.App] && p.Phase == appcontext.Applied {
			keys = append(keys, p.Key)
		}
	}
	if err := l.reports.read(ctx, keys, false); err != nil {
		return view{}, err
	}
	far, err := l.abroad(ctx, o.wish)
	s := &sightings{ctx: ctx, l: l, far: far.reports}
	return view{gate.New(gate.Input{Apps: o.apps, Removed: o.wish.Removed, Pairs: slices.Concat(pairs, far.pairs), Reports: s, Now: l.now()}), s}, err
}

// barred is why a gate is closed. When time opens it, the deployment is looked at again.
func (l *ledger) barred(uid string, g gate.Gate) string {
	if !g.At.IsZero() {
		l.stirred.at(uid, g.At)
	}
	return g.Why
}

// reopen looks again at what a deployment's pairs wait for, and returns the targets
// that may begin now.
func (l *ledger) reopen(ctx context.Context, uid string) ([]pair.Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ordered := l.orders[uid]
	if !ordered || l.stops[uid] || l.stirred.waiting[uid] == 0 {
		return nil, nil
	}
	pairs := l.deployment(uid)
	s, err := l.look(ctx, o, pairs)
	if err != nil {
		return nil, err
	}
	now := l.now()
	silent := now.Sub(o.told) < retell
	put := l.relieved(uid, s, pairs, silent)
	if err := s.failure(); err != nil {
		return nil, err
	}
	if err := l.write(ctx, entry{put: put}); err != nil {
		return nil, err
	}
	if !silent && len(put) > 0 {
		o.told = now
		l.orders[uid] = o
	}
	return pair.TargetsOf(pair.AllDeliverable(put)), nil
}

// relieved returns the pairs for which the gate has changed. While it is silent, those
// that go on waiting keep their words.
func (l *ledger) relieved(uid string, s view, pairs []appcontext.Pair, silent bool) (put []appcontext.Pair) {
	for _, p := range pairs {
		if !pair.AtGate(p) {
			continue
		}
		why := l.barred(uid, s.For(p))
		if why == p.Blocked {
			continue
		}
		if why != "" && silent {
			l.stirred.at(uid, l.now().Add(retell))
			continue
		}
		p.Blocked = why
		put = append(put, p)
	}
	return put
}

// stirred says for which deployments something has happened for which their pairs may
// have waited, and when time alone opens a gate.
type stirred struct {
	waiting map[string]int       // by deployment: pairs that wait at a gate
	due     map[string]bool      // deployments
	alarms  map[string]time.Time // by deployment: when to look again
	wake    chan struct{}
}

func newStirred() stirred {
	return stirred{waiting: map[string]int{}, due: map[string]bool{}, alarms: map[string]time.Time{}, wake: make(chan struct{}, 1)}
}

// count keeps count of the pairs that wait.
func (s *stirred) count(old, p appcontext.Pair) {
	if was, is := pair.AtGate(old), pair.AtGate(p); was && !is {
		s.waiting[p.Key.UID]--
	} else if is && !was {
		s.waiting[p.Key.UID]++
	}
	if n, there := s.waiting[p.Key.UID]; there && n == 0 {
		delete(s.waiting, p.Key.UID)
	}
}

// at has a deployment looked at again at some time.
func (s *stirred) at(uid string, t time.Time) {
	if first, set := s.alarms[uid]; !set || t.Before(first) {
		s.alarms[uid] = t
		s.poke()
	}
}

func (s *stirred) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stir has a deployment looked at soon, if pairs of it wait.
func (l *ledger) stir(uid string) {
	if l.stirred.waiting[uid] > 0 && !l.stirred.due[uid] {
		l.stirred.due[uid] = true
		l.stirred.poke()
	}
}

// waiting returns the deployments of which pairs wait at a gate.
func (l *ledger) waiting() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for uid := range l.stirred.waiting {
		out[uid] = true
	}
	return out
}

// happened has a deployment looked at soon, if pairs of it wait.
func (l *ledger) happened(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stir(uid)
}

// restir returns the deployments to look at now, and when to look at the next one if
// nothing happens.
func (l *ledger) restir() (due []string, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := &l.stirred, l.now()
	for uid, at := range s.alarms {
		switch {
		case !now.Before(at):
			s.due[uid] = true
			delete(s.alarms, uid)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	due = slices.Sorted(maps.Keys(s.due))
	clear(s.due)
	return due, next
}

// lookAgain has a deployment looked at again after a failure.
func (l *ledger) lookAgain(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stirred.at(uid, l.now().Add(pair.FirstRetry))
}

// await waits until something has happened, or until a time if there is one.
func (s *stirred) await(ctx context.Context, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-alarm:
	}
}
