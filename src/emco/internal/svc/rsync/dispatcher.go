package rsync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	alarms   *alarms
	git      *gitSink
	kube     *kubeSink
	ready    func()
	seen     map[string]wishKey // what each deployment's head asked for last
}

// wishKey tells whether a head asks for something else than before.
type wishKey struct {
	rev  int64
	gone bool
}

func newDispatcher(ctx context.Context, s *Service, fence appcontext.Fence) *dispatcher {
	p := s.parts
	l := &ledger{store: p.Contexts, fence: fence, retry: p.Retry, now: time.Now}
	d := &dispatcher{
		log: p.Log, contexts: p.Contexts, gateway: s.gateway, ledger: l,
		git:   &gitSink{commits: p.Git, contents: s.contents, ledger: l},
		kube:  newKubeSink(ctx, s, l),
		ready: func() { s.caughtUp.Store(true) },
		seen:  map[string]wishKey{},
	}
	d.lanes = newLanes(d.work)
	d.alarms = newAlarms(func(t target) { d.dispatch(ctx, []target{t}) })
	return d
}

// stop waits for all work to end; the context given to run must have ended.
func (d *dispatcher) stop() {
	d.alarms.stop()
	d.lanes.wait()
	d.kube.stop()
}

// run takes in all pairs and follows the heads. It ends with ctx, or when it can no
// longer write.
func (d *dispatcher) run(ctx context.Context) error {
	if err := d.ledger.load(ctx); err != nil {
		return err
	}
	for e, err := range d.contexts.WatchHeads(ctx) {
		switch {
		case err != nil:
			d.log.Error("head cannot be read", "deployment", e.Head.UID, "err", err)
		case e.Synced:
			d.resume(ctx)
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
func (d *dispatcher) resume(ctx context.Context) {
	d.dispatch(ctx, d.ledger.all())
}

// follow writes down what a head asks for, and sees to it. A store that cannot be
// reached is tried again; a head is never passed over.
func (d *dispatcher) follow(ctx context.Context, e appcontext.HeadEvent) error {
	for attempt := 1; ; attempt++ {
		due, err := d.take(ctx, e)
		switch {
		case err == nil:
			d.dispatch(ctx, due)
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
	if err != nil && !errs.Is(err, errs.NotFound) {
		return nil, err
	}
	w := wish{uid: e.Head.UID, subject: head.Subject, rev: head.Rev}
	key := wishKey{rev: head.Rev, gone: err != nil || head.Gone || head.Rev == 0}
	if last, known := d.seen[w.uid]; known && last == key {
		return nil, nil
	}
	if !key.gone {
		if w.places, err = d.places(ctx, w); err != nil {
			return nil, err
		}
	}
	due, err := d.ledger.intend(ctx, w)
	if err != nil {
		return nil, err
	}
	if d.seen[w.uid] = key; head.UID == "" {
		delete(d.seen, w.uid)
	}
	return due, nil
}

// places reads which bundles the clusters of a revision hold.
func (d *dispatcher) places(ctx context.Context, w wish) (map[string]map[string]appcontext.Digest, error) {
	out := map[string]map[string]appcontext.Digest{}
	for p, err := range d.contexts.Placements(ctx, w.uid, w.rev) {
		if err != nil {
			return nil, err
		}
		out[p.Cluster] = p.Apps
	}
	return out, nil
}

// dispatch finds out how each target is reached and queues it, unless it is settled
// and needs no watching. A cluster that is not known any more fails its pairs.
func (d *dispatcher) dispatch(ctx context.Context, due []target) {
	trip := d.gateway.trip()
	byLane, lost := map[string][]target{}, []outcome{}
	for _, t := range due {
		dest, err := trip.find(ctx, t.cluster)
		if err != nil {
			lost = append(lost, unfound(d.ledger.of(t), err)...)
			continue
		}
		if dest.backend != nil && len(unsettled(d.ledger.of(t))) == 0 {
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
	d.settle(ctx, d.git.deliver(ctx, viaGit, found))
	for _, t := range direct {
		d.settle(ctx, d.kube.deliver(ctx, t, found[t]))
	}
}

// unfound says what becomes of pairs whose cluster cannot be found. If the cluster is
// not registered any more, what was to be removed from it is out of reach and forgotten;
// all else fails.
func unfound(pairs []appcontext.Pair, err error) []outcome {
	out := outcomes(pairs, "", err)
	for i := range out {
		if out[i].bundle == "" && errs.Is(err, errs.NotFound) {
			out[i].err = nil
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

// schedule sets the target's alarm for the first of its pairs that is not settled.
func (d *dispatcher) schedule(t target, unrecorded error) {
	if unrecorded != nil {
		d.alarms.set(t, again().backoff(1, unrecorded))
		return
	}
	open := unsettled(d.ledger.of(t))
	if len(open) == 0 {
		return
	}
	first := slices.MinFunc(open, func(a, b appcontext.Pair) int { return a.NextRetry.Compare(b.NextRetry) })
	d.alarms.set(t, time.Until(first.NextRetry))
}

// unsettled returns the pairs for which something is to be done.
func unsettled(pairs []appcontext.Pair) (out []appcontext.Pair) {
	for _, p := range pairs {
		if p.Phase != appcontext.Applied {
			out = append(out, p)
		}
	}
	return out
}

func touched(outcomes []outcome) []target {
	pairs := make([]appcontext.Pair, len(outcomes))
	for i, o := range outcomes {
		pairs[i].Key = o.key
	}
	return targetsOf(pairs)
}
