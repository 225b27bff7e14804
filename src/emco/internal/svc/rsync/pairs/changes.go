package pairs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// SetDesired writes what a deployment's head wants of this shard and returns the targets
// that must change. A deployment that was stopped goes on.
func (s *Store) SetDesired(ctx context.Context, w pair.Desired) ([]pair.Target, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !w.Removed && w.Handovers != s.handovers {
		// A desired state that was computed before pairs changed hands may create a pair that another
		// shard has, or remove one that this shard has just taken over.
		return nil, errs.E(errs.Unavailable, "compare", "deployment "+string(w.Deployment), errors.New("another shard has taken over pairs, or given some up, meanwhile; rsync tries again"))
	}
	order := orderOf(w)
	have := s.concerned(w, order != nil)
	now := w.At
	if now.IsZero() {
		now = s.cfg.Now()
	}
	due := pair.DiffUnsettled(w, have, func(k appcontext.PairKey) bool {
		p := s.index.at(k)
		return p != nil && w.Holds(k, p.registration, p.state.Common())
	}, now)
	s.updateDeployment(w.Deployment, func(d *deployment) {
		d.head, d.trace, d.wanted, d.stopped, d.order = w.Head, w.Trace, !w.Removed, false, order
	})
	if err := s.gates.block(ctx, w.Deployment, have, due); err != nil {
		return nil, err
	}
	if err := s.steps().advance(ctx, due); err != nil {
		return nil, err
	}
	targets := pair.TargetsOf(due)
	if err := s.write(ctx, change{put: s.changed(due)}); err != nil {
		return nil, err
	}
	if s.index.has(w.Deployment) {
		s.updateDeployment(w.Deployment, func(d *deployment) {
			d.subject = cmp.Or(w.Subject, d.subject)
			if w.Namespace != "" { // a revision that was removed names none
				d.namespace, d.cloud = w.Namespace, w.Cloud
			}
		})
	}
	return targets, nil
}

// concerned returns pairs in the scope of w: all, or only those that do not hold what is desired, which are few.
// Without a scope it adds the pairs whose creation etcd did not confirm. The caller holds writing.
func (s *Store) concerned(w pair.Desired, all bool) []appcontext.Pair {
	which := func(k appcontext.PairKey, p *indexed) bool {
		return all || !w.Holds(k, p.registration, p.state.Common())
	}
	if w.Scope == nil {
		return append(s.index.filter(which, s.index.targetsOf(w.Deployment)...), s.unconfirmed.newPairs(w.Deployment)...)
	}
	targets := make([]pair.Target, 0, len(w.Scope))
	for c := range w.Scope {
		targets = append(targets, pair.Target{Cluster: c, Deployment: w.Deployment})
	}
	return s.index.filter(which, targets...)
}

// Stop stops a deployment: its pairs stay as they are until SetDesired.
func (s *Store) Stop(ctx context.Context, id v2.DeploymentID) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.updateDeployment(id, func(d *deployment) { d.stopped = true })
	var put []appcontext.Pair
	for _, p := range s.index.ofDeployment(id) {
		if p.Blocked != pair.Stopped && (pair.Deliverable(p) || p.Blocked != "") {
			put = append(put, s.blockIfStopped(p))
		}
	}
	return s.write(ctx, change{put: put})
}

// blockIfStopped blocks a pair that is not Applied if its deployment is stopped. The caller
// holds writing.
func (s *Store) blockIfStopped(p appcontext.Pair) appcontext.Pair {
	if s.deployments[p.Key.Deployment].stopped && p.Phase != appcontext.Applied {
		p.Blocked = pair.Stopped
	}
	return p
}

// Record writes what deliveries came to. Results for pairs that are gone are dropped.
func (s *Store) Record(ctx context.Context, results []pair.Result) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	c := change{put: make([]appcontext.Pair, 0, len(results))}
	now, spread := s.cfg.Now(), rand.Float64() // the same for all: pairs that come out alike are stored together
	for _, r := range results {
		p, known := s.index.pair(r.Key)
		if !known {
			continue
		}
		stays := true
		switch {
		case r.Err == nil:
			p, stays = pair.Apply(p, r, now)
		case pair.IsSuperseded(p, r):
			p.Waiting = "" // what is desired now is due at once
		default:
			p = s.fail(p, r.Err, now, spread)
			if p.Outcome = r.Outcome; len(r.Findings) > 0 {
				p.Findings = pair.MergeFindings(p, r)
			}
		}
		if stays {
			c.put = append(c.put, s.blockIfStopped(p))
		} else {
			c.remove = append(c.remove, r.Key)
		}
	}
	if err := s.steps().advance(ctx, c.put); err != nil {
		return err
	}
	if err := s.reassess(ctx, &c); err != nil {
		return err
	}
	return s.write(ctx, c)
}

// fail notes that a step could not be delivered. A pair whose hook failed keeps that
// reason: what failed is its cleanup.
func (s *Store) fail(p appcontext.Pair, err error, now time.Time, spread float64) appcontext.Pair {
	out := s.cfg.Retry.Fail(p, err, now, spread)
	if p.Halted {
		out.Phase, out.Error = p.Phase, p.Error
	}
	return out
}

// NoteWaiting stores in pairs which server their delivery waits for, unless they have another
// reason already.
func (s *Store) NoteWaiting(ctx context.Context, targets []pair.Target, why string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	put := s.index.those(func(p *appcontext.Pair) bool { return pair.Deliverable(*p) && p.Error == "" && p.Waiting == "" }, targets...)
	for i := range put {
		put[i].Waiting = why
	}
	slices.SortFunc(put, pair.CompareKeys)
	return s.write(ctx, change{put: put})
}

// SetOverlaps stores what pairs have in common with other deployments on their clusters. Pairs that are gone are left out.
func (s *Store) SetOverlaps(ctx context.Context, overlaps map[appcontext.PairKey][]string) error {
	if len(overlaps) == 0 {
		return nil // without a wait for other changes
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	put := make([]appcontext.Pair, 0, len(overlaps))
	for k, texts := range overlaps {
		if p, known := s.index.pair(k); known {
			p.Overlaps = texts
			put = append(put, p)
		}
	}
	slices.SortFunc(put, pair.CompareKeys)
	return s.write(ctx, change{put: put})
}

// MakeDue makes failed pairs of targets due now, as if they had not failed.
func (s *Store) MakeDue(ctx context.Context, targets []pair.Target) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	put := s.index.those(func(p *appcontext.Pair) bool { return p.Attempt > 0 && pair.Deliverable(*p) }, targets...)
	for i, p := range put {
		put[i] = pair.Due(p)
	}
	slices.SortFunc(put, pair.CompareKeys)
	return s.write(ctx, change{put: put})
}

// MarkUndelivered has targets delivered again: pairs that are Applied as if they were not,
// others as if their step had not been delivered. Pairs that wait for anything but a
// report go on waiting.
func (s *Store) MarkUndelivered(ctx context.Context, targets []pair.Target) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var put []appcontext.Pair
	now := s.cfg.Now()
	for _, p := range s.index.of(targets...) {
		switch {
		case p.Phase == appcontext.Applied:
			p.From, p.At = p.Desired, now
		case p.Halted, pair.AtGate(p), p.Blocked == pair.Stopped:
			continue
		}
		p.Sent = false
		put = append(put, pair.Reset(p))
	}
	return s.write(ctx, change{put: put})
}

// NoteEdits notes what others changed in files of pairs. It returns the targets that will
// be written again; a held one fails instead. An edit that is noted already changes
// nothing.
func (s *Store) NoteEdits(ctx context.Context, edits map[appcontext.PairKey]appcontext.ExternalEdit, held map[pair.Target]bool) ([]pair.Target, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	var put []appcontext.Pair
	for k, e := range edits {
		p, known := s.index.pair(k)
		if !known || p.Edit != nil && p.Edit.Commit == e.Commit {
			continue
		}
		e.At, e.Held = s.cfg.Now(), held[pair.TargetOf(k)]
		p.Edit = &e
		if p.Phase == appcontext.Applied {
			p.From, p.At, p.Sent = p.Desired, s.cfg.Now(), false
			p = pair.Reset(p)
		}
		if e.Held {
			p = s.fail(p, pair.HeldError(e), s.cfg.Now(), rand.Float64())
		}
		s.recorder.Add(k, v2.EventReasonExternalEdit, pair.DescribeEdit(e), p.Rev)
		put = append(put, s.blockIfStopped(p))
	}
	slices.SortFunc(put, pair.CompareKeys)
	return pair.TargetsOf(put), s.write(ctx, change{put: put})
}

// ResolveEdits ends the hold on edits: with keep they stay until the next delivery, else
// they are written over.
func (s *Store) ResolveEdits(ctx context.Context, targets []pair.Target, keep bool) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	put := s.index.those(func(p *appcontext.Pair) bool { return p.Edit != nil && p.Edit.Held || p.Reason == pair.ExternalEdit }, targets...)
	for i, p := range put {
		put[i] = pair.ResolveEdit(p, keep)
	}
	return s.write(ctx, change{put: put})
}

// Handover describes the handover of pairs to another shard.
type Handover struct {
	To        string    // name of the shard
	Commit    string    // holds what older pairs have proved; "" leaves their commits as they are
	Before    time.Time // older means written before this time
	Redeliver bool      // Applied pairs must be delivered again: a platform must learn of them
}

func (h Handover) apply(p appcontext.Pair, now time.Time) appcontext.Pair {
	p.Shard = h.To
	if p.Commit != "" && h.Commit != "" && p.At.Before(h.Before) {
		p.Commit = h.Commit
	}
	if h.Redeliver && p.Phase == appcontext.Applied {
		p.From, p.At, p.Sent = p.Desired, now, false
		p = pair.Reset(p)
	}
	return p
}

// HandOver writes the pairs of targets as another shard's and forgets them, unless the
// other shard is this one.
func (s *Store) HandOver(ctx context.Context, targets []pair.Target, h Handover) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var put []appcontext.Pair
	now := s.cfg.Now()
	for _, p := range s.index.of(targets...) {
		put = append(put, h.apply(p, now))
	}
	slices.SortFunc(put, pair.CompareKeys)
	s.addHandover()
	if h.To == s.cfg.Shard {
		return s.write(ctx, change{put: put})
	}
	put, err := s.forgetHandedOver(ctx, put)
	if err != nil {
		return err
	}
	keys := make([]appcontext.PairKey, len(put))
	for i, p := range put {
		keys[i] = p.Key
	}
	if err := s.writer.ReleaseReports(ctx, keys); err != nil {
		return err
	}
	for part := range slices.Chunk(put, chunk) {
		if err := s.putPairs(ctx, part, nil); err != nil {
			return err
		}
		for _, p := range part {
			s.forget(p.Key)
		}
	}
	return nil
}

// forgetHandedOver returns the pairs that this shard still has. It forgets those whose
// earlier handover succeeded although its answer was lost: their new shard may have
// changed them since. The caller holds writing.
func (s *Store) forgetHandedOver(ctx context.Context, put []appcontext.Pair) ([]appcontext.Pair, error) {
	var unsure []appcontext.PairKey
	for _, p := range put {
		if s.unconfirmed.known[p.Key] {
			unsure = append(unsure, p.Key)
		}
	}
	if len(unsure) == 0 {
		return put, nil
	}
	if err := s.cfg.AppContext.Barrier(ctx, s.cfg.Fence); err != nil {
		return nil, err
	}
	stored, err := s.cfg.AppContext.PairsAt(ctx, unsure)
	if err != nil {
		return nil, err
	}
	handedOver := map[appcontext.PairKey]bool{}
	for _, p := range stored {
		if p.Shard != s.cfg.Shard {
			handedOver[p.Key] = true
			s.forget(p.Key)
		}
	}
	return slices.DeleteFunc(put, func(p appcontext.Pair) bool { return handedOver[p.Key] }), nil
}

// TakeOver remembers pairs that another shard has handed over. Known pairs stay as they
// are: this shard has changed them since.
func (s *Store) TakeOver(handedOver []appcontext.Pair) {
	s.writing.Lock()
	defer s.writing.Unlock()
	shared := newSharedValues()
	for _, p := range handedOver {
		if _, known := s.index.pair(p.Key); known {
			continue
		}
		s.writer.AddRecords(p)
		s.keep(p, shared)
		s.addHandover()
	}
}

// TakeEvents returns and clears what happened to pairs.
func (s *Store) TakeEvents(ctx context.Context) []appcontext.Event {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.recorder.Drain(
		func(uid v2.DeploymentID) appcontext.HeadID { return s.deployments[uid].head },
		func(uid v2.DeploymentID, app string) bool { return s.readyEverywhere(ctx, uid, app) },
	)
}

// readyEverywhere reports whether an app is ready on all its clusters, also those of other
// shards. The caller holds writing.
func (s *Store) readyEverywhere(ctx context.Context, uid v2.DeploymentID, app string) bool {
	var keys []appcontext.PairKey
	for _, p := range s.index.ofDeployment(uid) {
		if p.Key.App == app && p.Desired != "" {
			keys = append(keys, p.Key)
		}
	}
	if err := s.reports.load(ctx, keys, false); err != nil {
		return false
	}
	reports := equalReports{}
	for _, k := range keys {
		if r, _ := s.reports.last(k); !r.ready {
			return false
		}
		s.reports.dropDetails(k, reports)
	}
	others, err := s.gates.otherPairs(ctx, uid, nil)
	for _, p := range others.pairs {
		if p.Key.App == app && p.Desired != "" && !others.ready(p).Ready {
			return false
		}
	}
	return err == nil
}

// orderOf returns how a revision's pairs wait for each other; nil if they do not. It keeps only
// what gates read of an app: copy new settings of gates here.
func orderOf(w pair.Desired) *order {
	if !gate.Ordered(w.Apps) {
		return nil
	}
	o := &order{rev: w.Rev, removed: w.Removed, elsewhere: w.Elsewhere, labelled: w.Labelled, promoted: w.Promoted, apps: map[string]appcontext.App{}}
	if w.Rollback { // it brings back what ran, so it does not pause
		o.promoted.Wave = math.MaxInt
	}
	for _, a := range w.Apps {
		o.apps[a.Name] = appcontext.App{Name: a.Name, Failure: a.Failure, DependsOn: a.DependsOn, LeaveLast: a.LeaveLast, Rollout: a.Rollout}
	}
	return o
}

// sortedKeys returns the keys of a map, in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
