package rsync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// bookkeeping bounds the write of an outcome after the work was done: it goes on when
// the process is told to stop, so that what happened is known.
const bookkeeping = 10 * time.Second

// again is how reads and writes of our own stores are tried again.
func again() Retry { return Retry{First: firstRetry, Longest: time.Minute} }

// dispatcher is one term's machinery: it follows heads, keeps the ledger and runs lanes.
type dispatcher struct {
	log      *slog.Logger
	contexts *appcontext.Store
	gateway  *gateway
	ledger   *ledger
	lanes    *lanes
	late     late
	alarms   *alarms
	brakes   *brakes
	reports  *reporter
	sources  []Source
	git      *gitSink
	kube     *kubeSink
	ready    func()
	owners   *owners
	seen     map[string]wishKey // what each head asked for last
}

// wishKey tells whether a head asks for something else than before.
type wishKey struct {
	rev     int64
	gone    bool
	stopped bool
	owns    bool
}

func newDispatcher(ctx context.Context, s *Service, fence appcontext.Fence) *dispatcher {
	p, w := s.parts, &ways{contents: s.contents}
	l := &ledger{store: p.Contexts, fence: fence, retry: p.Retry, now: time.Now, ways: w}
	d := &dispatcher{
		log: p.Log, contexts: p.Contexts, gateway: s.gateway, ledger: l,
		brakes: newBrakes(ctx), sources: p.Sources,
		ready:  func() { s.caughtUp.Store(true) },
		owners: newOwners(), seen: map[string]wishKey{},
	}
	d.reports = newReporter(ctx, d.heed, p.Log)
	d.git = &gitSink{commits: p.Git, contents: s.contents, ledger: l, ways: w, brakes: d.brakes, record: d.recordCommit}
	d.kube = newKubeSink(ctx, s, l, d.reports)
	d.lanes = newLanes(d.work)
	d.alarms = newAlarms(func(t target) { d.dispatch(ctx, []target{t}) })
	return d
}

// stop waits for all work to end; the context given to run must have ended.
func (d *dispatcher) stop() {
	d.alarms.stop()
	d.lanes.wait()
	d.kube.stop()
	d.reports.wait()
}

// run takes in all pairs, follows the heads and listens to reports. It ends with ctx, or
// when it can no longer write.
func (d *dispatcher) run(ctx context.Context) error {
	if err := d.ledger.load(ctx); err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beside.Go(func() { d.attend(ctx) })
	for _, s := range d.sources {
		beside.Go(func() { d.listen(ctx, s) })
	}
	return d.watch(ctx)
}

func (d *dispatcher) watch(ctx context.Context) error {
	for e, err := range d.contexts.WatchHeads(ctx) {
		switch {
		case err != nil:
			d.log.Error("head cannot be read", "deployment", e.Head.UID, "err", err)
		case e.Synced:
			if err := d.resume(ctx); err != nil {
				return err
			}
			d.ready()
		default:
			if err := d.follow(ctx, e); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// resume takes up what was under way when the last term ended, and watches the
// clusters that hold something.
func (d *dispatcher) resume(ctx context.Context) error {
	if err := d.ledger.recheck(ctx); err != nil {
		return err
	}
	d.dispatch(ctx, d.ledger.all())
	return nil
}

// follow writes down what a head asks for, and sees to it. A store that cannot be
// reached is tried again; a head is never passed over.
func (d *dispatcher) follow(ctx context.Context, e appcontext.HeadEvent) error {
	for attempt := 1; ; attempt++ {
		due, err := d.take(ctx, e)
		switch {
		case err == nil:
			d.dispatch(ctx, due)
			d.tell(ctx)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errs.Is(err, errs.NotFound): // the revision is gone again; a later event says what is wanted
			d.log.Warn("revision not found", "deployment", e.Head.UID, "rev", e.Head.Rev)
			return nil
		case errors.Is(err, appcontext.ErrFenced), attempt > patience:
			return err
		}
		d.log.Warn("head not taken in", "deployment", e.Head.UID, "err", err)
		pause(ctx, again().backoff(attempt, err))
	}
}

// take writes the pairs that a head asks for and returns the targets that are due. It
// reads the head anew, so that an event that was overtaken while it waited starts
// nothing that a later one has called off.
func (d *dispatcher) take(ctx context.Context, e appcontext.HeadEvent) ([]target, error) {
	head, err := d.contexts.Head(ctx, e.Head.UID)
	deleted := errs.Is(err, errs.NotFound)
	if err != nil && !deleted {
		return nil, err
	}
	if deleted {
		if !e.Deleted { // what the event says is known to have been so
			d.owners.learn(e.Head)
		}
		return d.bury(ctx, e.Head.UID)
	}
	deployment, owns := d.owners.learn(head)
	key := wishKey{rev: head.Rev, gone: head.Gone || head.Rev == 0 && !head.TookOver(), stopped: head.Stopped, owns: owns}
	if last, known := d.seen[head.UID]; known && last == key {
		return nil, nil
	}
	due, err := d.obey(ctx, head, deployment, key)
	if err == nil {
		d.seen[head.UID] = key
	}
	return due, err
}

// obey does what a head asks for that was not asked for before.
func (d *dispatcher) obey(ctx context.Context, head appcontext.Head, deployment string, key wishKey) ([]target, error) {
	switch {
	case !key.owns: // somebody else has a say in what there is
		return nil, nil
	case key.stopped:
		return nil, d.halt(ctx, deployment)
	case head.TookOver(): // what was handed over stays as it is
		return nil, nil
	}
	w := wish{uid: deployment, head: head.UID, subject: head.Subject, rev: head.Rev, gone: key.gone}
	if err := d.read(ctx, &w); err != nil {
		return nil, err
	}
	return d.ledger.intend(ctx, w)
}

// bury removes what a head that was deleted has on clusters, unless another one has
// taken it over.
func (d *dispatcher) bury(ctx context.Context, uid string) ([]target, error) {
	h := d.owners.heads[uid]
	deployment, owns := d.owners.lose(uid)
	if !owns {
		delete(d.seen, uid)
		return nil, nil
	}
	due, err := d.ledger.intend(ctx, wish{uid: deployment, gone: true})
	if err != nil {
		if h.UID != "" {
			d.owners.learn(h) // it is tried again
		}
		return nil, err
	}
	delete(d.seen, uid)
	return due, nil
}

// halt ends all work for a deployment: what is under way at once, and what is queued
// when it comes up.
func (d *dispatcher) halt(ctx context.Context, deployment string) error {
	d.brakes.pull(deployment)
	if err := d.ledger.hold(ctx, deployment); err != nil {
		return err
	}
	d.brakes.pull(deployment) // for what began in between
	for _, t := range d.ledger.at(deployment) {
		d.alarms.silence(t)
	}
	return nil
}

// read fills in what a revision wishes for, and the order that it demands; the order
// holds also when nothing is wished for any more.
func (d *dispatcher) read(ctx context.Context, w *wish) error {
	if w.rev == 0 {
		return nil
	}
	rev, err := d.contexts.Revision(ctx, w.head, w.rev)
	if err != nil && !(w.gone && errs.Is(err, errs.NotFound)) {
		return err
	}
	w.apps, w.rollback = rev.Apps, rev.Kind == "rollback"
	if !w.gone {
		w.places, err = d.places(ctx, *w)
		return err
	}
	return nil
}

// places reads which bundles the clusters of a revision hold.
func (d *dispatcher) places(ctx context.Context, w wish) (map[string]map[string]appcontext.Digest, error) {
	out := map[string]map[string]appcontext.Digest{}
	for p, err := range d.contexts.Placements(ctx, w.head, w.rev) {
		if err != nil {
			return nil, err
		}
		out[p.Cluster] = p.Apps
	}
	return out, nil
}

// dispatch finds out how each target is reached and queues it, unless nothing is to be
// done and it needs no watching. A cluster that is not known any more fails its pairs.
func (d *dispatcher) dispatch(ctx context.Context, due []target) {
	trip := d.gateway.trip()
	byLane, lost := map[string][]target{}, []outcome{}
	for _, t := range due {
		dest, err := trip.find(ctx, t.cluster)
		if err != nil {
			lost = append(lost, unfound(d.ledger.of(t), err)...)
			continue
		}
		if dest.backend != nil && len(opened(d.ledger.of(t))) == 0 {
			continue
		}
		byLane[dest.lane] = append(byLane[dest.lane], t)
	}
	for lane, targets := range byLane {
		d.lanes.add(ctx, lane, targets...)
	}
	d.settle(ctx, lost)
}

// work carries out what is due in a lane and writes down what came of it.
func (d *dispatcher) work(ctx context.Context, lane string, due []target) {
	trip, found := d.gateway.trip(), map[target]destination{}
	var direct, viaGit []target
	var lost []outcome
	for _, t := range due {
		dest, err := trip.find(ctx, t.cluster)
		found[t] = dest
		switch {
		case err != nil:
			lost = append(lost, unfound(d.ledger.of(t), err)...)
		case dest.lane != lane:
			d.lanes.add(ctx, dest.lane, t)
		case dest.backend != nil:
			viaGit = append(viaGit, t)
		default:
			direct = append(direct, t)
		}
	}
	d.settle(ctx, lost)
	if viaGit = d.arrive(ctx, viaGit, false); len(viaGit) > 0 {
		done := d.git.deliver(ctx, viaGit, found)
		d.settle(ctx, done)
		d.lanes.add(ctx, lane, d.late.note(lane, done)...)
	}
	for _, t := range d.arrive(ctx, direct, true) {
		own := d.brakes.context(t.uid)
		d.settle(own, d.kube.deliver(own, t, found[t]))
	}
}

// arrive moves targets past steps that need not be delivered. It returns them, or none
// if that cannot be written down; they are tried again then.
func (d *dispatcher) arrive(ctx context.Context, at []target, direct bool) []target {
	err := d.ledger.arrive(ctx, at, direct)
	if err == nil {
		return at
	}
	if ctx.Err() == nil {
		d.log.Warn("steps not worked out; they are worked out again", "err", err, "targets", len(at))
	}
	for _, t := range at {
		d.schedule(t, err)
	}
	return nil
}

// unfound says what becomes of pairs whose cluster cannot be found. If the cluster is
// not registered any more, what was to be removed from it is out of reach and forgotten,
// however far the removal was; all else fails.
func unfound(pairs []appcontext.Pair, err error) []outcome {
	var out []outcome
	for _, p := range pairs {
		switch {
		case p.Desired == "" && errs.Is(err, errs.NotFound):
			out = append(out, outcome{key: p.Key})
		case open(p):
			out = append(out, outcome{key: p.Key, bundle: p.Desired, err: err})
		}
	}
	return out
}

// settle records outcomes, and sets the time for another try where one is needed.
func (d *dispatcher) settle(ctx context.Context, outcomes []outcome) {
	outcomes = d.withoutStop(ctx, outcomes)
	if len(outcomes) == 0 {
		return
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
	defer cancel()
	err := d.ledger.settle(own, outcomes)
	if err != nil {
		d.log.Warn("outcomes not recorded; they are worked out again", "err", err, "pairs", len(outcomes))
	}
	for _, t := range touched(outcomes) {
		d.schedule(t, err)
	}
	d.tell(own)
}

// withoutStop drops failures that are only due to our own stopping.
func (d *dispatcher) withoutStop(ctx context.Context, in []outcome) (out []outcome) {
	for _, o := range in {
		if o.err != nil && ctx.Err() != nil {
			continue
		}
		if o.err != nil {
			d.log.Warn("pair not settled", "cluster", o.key.Cluster, "deployment", o.key.UID, "app", o.key.App, "err", o.err)
		}
		out = append(out, o)
	}
	return out
}

// schedule sets the target's alarm for the first of its pairs that has to be worked on.
func (d *dispatcher) schedule(t target, unrecorded error) {
	if unrecorded != nil {
		d.alarms.set(t, again().backoff(1, unrecorded))
		return
	}
	due := opened(d.ledger.of(t))
	if len(due) == 0 {
		return
	}
	first := slices.MinFunc(due, func(a, b appcontext.Pair) int { return a.NextRetry.Compare(b.NextRetry) })
	d.alarms.set(t, time.Until(first.NextRetry))
}

// heed writes down what clusters report, and sees to what may go on because of it.
func (d *dispatcher) heed(ctx context.Context, reports []appcontext.Report) error {
	due, err := d.ledger.report(ctx, reports)
	d.dispatch(ctx, due)
	d.tell(ctx)
	return err
}

// attend looks at deployments of which pairs wait for others, whenever something has
// happened in them, until ctx ends.
func (d *dispatcher) attend(ctx context.Context) {
	for ctx.Err() == nil {
		due, next := d.ledger.restir()
		for _, uid := range due {
			targets, err := d.ledger.reopen(ctx, uid)
			if err != nil && ctx.Err() == nil {
				d.log.Warn("what pairs wait for cannot be looked at; it is tried again", "deployment", uid, "err", err)
				d.ledger.lookAgain(uid)
			}
			d.dispatch(ctx, targets)
			d.tell(ctx)
		}
		d.ledger.stirred.await(ctx, next)
		pause(ctx, gather)
	}
}

// tell writes events. One that cannot be written is lost.
func (d *dispatcher) tell(ctx context.Context) {
	events := d.ledger.news(ctx)
	if len(events) == 0 {
		return
	}
	if err := d.contexts.AddEvents(ctx, events...); err != nil && ctx.Err() == nil {
		d.log.Warn("events not written", "err", err, "events", len(events))
	}
}

func touched(outcomes []outcome) []target {
	pairs := make([]appcontext.Pair, len(outcomes))
	for i, o := range outcomes {
		pairs[i].Key = o.key
	}
	return targetsOf(pairs)
}
