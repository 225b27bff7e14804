package rsync

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/git"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/platform"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/reports"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// storeRetry is how reads and writes of our own stores are tried again.
func storeRetry() pair.Retry { return pair.Retry{First: pair.FirstRetry, Longest: time.Minute} }

// dispatcher is one shard's machinery: it follows heads, keeps the ledger of the targets
// that are the shard's and runs lanes.
type dispatcher struct {
	shard    int
	log      *slog.Logger
	contexts *appcontext.Store // every write is fenced
	heads    heads
	about    func(deployment string) []string // uids of the heads that are about it
	desk     *desk
	gateway  *route.Resolver
	pairs    func(ctx context.Context, shard string) ([]appcontext.Pair, error) // reads those of a shard
	ledger   *pairs.Store
	lanes    *queue.Workers
	late     queue.Unreachable
	alarms   *queue.Timers
	brakes   *queue.Cancellations
	reports  *reports.Batcher

	git       *git.Writer
	kube      *kube.Applier
	platforms *platform.Registrar
	guard     *branchguard.Guard
	mover     *clustermove.Mover

	ready    func()
	guardian *guardian
	owners   *owners
	seen     map[string]obeyed // by head
	visits   visits
}

// heads is where a dispatcher sees what is asked for.
type heads interface {
	WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error]
	Head(ctx context.Context, uid string) (appcontext.Head, error)
}

// wishKey tells whether a head asks for something else than before.
type wishKey struct {
	rev     int64
	gone    bool
	stopped bool
	owns    bool
}

func newDispatcher(ctx context.Context, s *Service, shard int, fence appcontext.Fence) *dispatcher {
	p, w := s.parts, content.NewStepPlans(s.contents)
	config := pairs.Config{AppContext: p.Contexts, Fence: fence, Shard: route.Group.Shard(shard), Retry: p.Retry, Plans: w, Log: p.Log.With("shard", shard)}
	if p.Mirror != nil {
		config.Others = p.Mirror
	}
	l := pairs.New(config)
	log := p.Log.With("shard", shard)
	d := &dispatcher{
		shard: shard, log: log, contexts: p.Contexts.Fenced(fence),
		heads: s.feed, about: s.feed.about, desk: s.desk, gateway: s.gateway, pairs: s.loader.load, ledger: l,
		brakes: queue.NewCancellations(ctx), guardian: newGuardian(s.alone, s.feed.again), owners: newOwners(), seen: map[string]obeyed{},
	}
	d.ready = func() { s.terms.caughtUp(d) }
	d.reports = reports.NewBatcher(ctx, d.heed, p.Log)
	d.lanes = queue.NewWorkers(d.work)
	d.alarms = queue.NewTimers(func(t pair.Target) { d.dispatch(ctx, []pair.Target{t}) })
	d.git = &git.Writer{
		Commits: p.Git, Content: s.contents, Plans: w, Pairs: l, Cancellations: d.brakes, Branches: s.branches, StoreFence: fence,
		Fence: batch.Fence{
			Shard: fence.Shard(), Token: fence.Token(),
			Check: func(ctx context.Context) error { return p.Contexts.Holds(ctx, fence) },
		},
		RecordCommit: d.recordCommit, Log: log,
	}
	d.kube = kube.NewApplier(ctx, kube.Options{Sink: p.Kube, Content: s.contents, Plans: w, Pairs: l.Of, Slots: s.slots, Report: d.reports.Add, Log: p.Log})
	d.platforms = platform.NewRegistrar(ctx, platform.Options{
		Slots: s.callers, Cancellations: d.brakes, Address: l.Address, Record: d.settle,
		Open: func(t pair.Target) bool { return len(pair.AllDeliverable(l.Of(t))) > 0 },
	})
	d.guard = branchguard.New(branchguard.Options{
		Shard: shard, Fence: fence, Routes: s.gateway, Pairs: l, Records: s.branches, Submit: d.git.Submit, Differ: p.Differ, Interval: p.Look,
		Requeue: d.dispatch, RequeueLater: func(t pair.Target) { d.alarms.Set(t, 0) }, WriteEvents: d.tell, Log: log,
	})
	if p.Differ != nil {
		d.git.Inspect = d.guard.Inspect
	}
	d.mover = clustermove.New(clustermove.Options{
		Shard: shard, Fence: fence, Store: d.contexts, Routes: s.gateway, Pairs: l, Progress: s.moves, Git: d.git, Retry: p.Retry,
		HoldRepairs: d.guard.HoldRepairs, HeadsOf: s.feed.about, Recheck: d.revisit, Requeue: d.dispatch, RequeueAfter: d.alarms.Set,
		Release: func(ctx context.Context, t pair.Target) {
			d.alarms.Cancel(t)
			d.vacate(ctx, t)
		},
		Log: log,
	})
	return d
}

// stop waits for all work to end; the context given to run must have ended.
func (d *dispatcher) stop() {
	d.guardian.clock.Stop()
	d.alarms.Stop()
	d.lanes.Wait()
	d.platforms.Stop()
	d.kube.Stop()
	d.reports.Wait()
}

// run takes in the shard's pairs, follows the heads and listens to reports. It ends with
// ctx, or when it can no longer write.
func (d *dispatcher) run(ctx context.Context) error {
	pairs, err := d.pairs(ctx, d.ledger.Shard())
	if err != nil {
		return err
	}
	if err := d.ledger.Load(ctx, pairs); err != nil {
		return err
	}
	d.reports.Open()
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beside.Go(func() {
		d.ledger.RunGates(ctx, func(ctx context.Context, opened []pair.Target) {
			d.dispatch(ctx, opened)
			d.tell(ctx)
		})
	})
	beside.Go(func() { d.guard.Run(ctx) })
	beside.Go(func() { d.mover.Run(ctx) })
	return d.watch(ctx)
}

func (d *dispatcher) watch(ctx context.Context) error {
	for e, err := range d.heads.WatchHeads(ctx) {
		switch {
		case err != nil:
			d.log.Error("head cannot be read", "deployment", e.Head.UID, "err", err)
		case e.Synced:
			if err := d.resume(ctx); err != nil {
				return err
			}
			d.ready()
			d.guardian.live = true
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
	if err := d.ledger.RecheckReports(ctx); err != nil {
		return err
	}
	d.dispatch(ctx, d.ledger.All())
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
		case errors.Is(err, appcontext.ErrFenced), attempt > pair.MaxAttempts:
			return err
		}
		d.log.Warn("head not taken in", "deployment", e.Head.UID, "err", err)
		queue.Pause(ctx, storeRetry().Backoff(attempt, err))
	}
}

// take writes the pairs that a head asks for and returns the targets that are due. It
// looks at the head anew, so that an event that was overtaken while it waited starts
// nothing that a later one has called off.
func (d *dispatcher) take(ctx context.Context, e appcontext.HeadEvent) ([]pair.Target, error) {
	head, err := d.heads.Head(ctx, e.Head.UID)
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
	claim := d.guardian.due(head.UID)
	again := d.visits.take(head.UID)
	last, known := d.seen[head.UID]
	same := known && last.key == key
	if same && !claim && !again {
		return nil, nil
	}
	if again {
		last = obeyed{} // pairs have come from elsewhere: all is compared
	}
	due, now, err := d.obey(ctx, demand{head: head, deployment: deployment, key: key, claim: claim, last: last})
	if err != nil {
		delete(d.seen, head.UID) // part of it may have been done
		d.remind(head.UID, claim, again)
		return nil, err
	}
	d.seen[head.UID] = now
	if !same {
		d.guardian.watch(d.shard, head, key)
	}
	return due, nil
}

// demand is what a head asks for that was not asked for before. With claim, the shard also
// begins where nobody has, whose home that ever is.
type demand struct {
	head       appcontext.Head
	deployment string // the id that pairs have
	key        wishKey
	claim      bool
	last       obeyed // what was carried out before
}

// obey does what a head asks for and says what was carried out.
func (d *dispatcher) obey(ctx context.Context, a demand) ([]pair.Target, obeyed, error) {
	now := obeyed{key: a.key}
	switch {
	case !a.key.owns: // somebody else has a say in what there is
		return nil, now, nil
	case a.key.stopped:
		return nil, now, d.halt(ctx, a.deployment)
	case a.head.TookOver(): // what was handed over stays as it is
		return nil, now, nil
	}
	news, err := d.gateway.DB.Changes(ctx, a.last.mark)
	if err != nil {
		return nil, now, err
	}
	w := pair.Desired{Deployment: a.deployment, Head: a.head.UID, Subject: a.head.Subject, Rev: a.head.Rev, Removed: a.key.gone, Claim: a.claim, Handovers: d.ledger.Handovers()}
	if err := d.read(ctx, &w, a.last, news); err != nil {
		return nil, now, err
	}
	if w.Registrations, err = d.registered(ctx, w); err != nil {
		return nil, now, err
	}
	due, err := d.ledger.SetDesired(ctx, w)
	if !w.Removed {
		now.whole, now.mark = w.Rev, news.Mark
	}
	return due, now, err
}

// bury removes what a head that was deleted has on clusters, unless another one has
// taken it over.
func (d *dispatcher) bury(ctx context.Context, uid string) ([]pair.Target, error) {
	h := d.owners.heads[uid]
	deployment, owns := d.owners.lose(uid)
	if !owns {
		delete(d.seen, uid)
		return nil, nil
	}
	due, err := d.ledger.SetDesired(ctx, pair.Desired{Deployment: deployment, Removed: true})
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
	d.brakes.Cancel(deployment)
	if err := d.ledger.Stop(ctx, deployment); err != nil {
		return err
	}
	d.brakes.Cancel(deployment) // for what began in between
	for _, t := range d.ledger.TargetsOf(deployment) {
		d.alarms.Cancel(t)
		d.platforms.Forget(t)
	}
	return nil
}

// read fills in what a revision wishes for, and the order that it demands; the order
// holds also when nothing is wished for any more. news are what was written to the store since
// the last time.
func (d *dispatcher) read(ctx context.Context, w *pair.Desired, last obeyed, news store.Changes) error {
	if w.Rev == 0 {
		return nil
	}
	if w.Removed && len(d.ledger.TargetsOf(w.Deployment)) == 0 {
		return nil // nothing to put into an order
	}
	rev, err := d.desk.revision(ctx, w.Head, w.Rev)
	if err != nil && !(w.Removed && errs.Is(err, errs.NotFound)) {
		return err
	}
	w.Apps, w.Rollback = rev.Apps, rev.Kind == "rollback"
	w.Namespace, w.Cloud = rev.Namespace, rev.Cloud
	switch {
	case w.Removed:
		return nil
	case d.follows(*w, last) && !news.All:
		return d.narrow(ctx, w, last, news)
	}
	return d.locate(ctx, w)
}

// locate fills in which bundles the clusters of a revision hold. This shard's are those on
// which it has begun with the deployment, and those whose home it is and on which nobody
// has begun.
func (d *dispatcher) locate(ctx context.Context, w *pair.Desired) error {
	all, err := d.desk.layout(ctx, w.Head, w.Rev)
	if err != nil {
		return err
	}
	mine := d.ledger.Clusters(w.Deployment)
	var fresh []string
	for c := range all.bundles {
		if !mine[c] && (w.Claim || all.shards[c] == d.shard) {
			fresh = append(fresh, c)
		}
	}
	if err := d.begin(ctx, w.Deployment, fresh, mine); err != nil {
		return err
	}
	w.Places, w.Elsewhere = map[string]map[string]appcontext.Digest{}, map[string]map[string]appcontext.Digest{}
	for c, apps := range all.bundles {
		if mine[c] {
			w.Places[c] = apps
		} else {
			w.Elsewhere[c] = apps
		}
	}
	return nil
}

// begin adds those clusters to mine on which nobody has begun with a deployment.
func (d *dispatcher) begin(ctx context.Context, uid string, fresh []string, mine map[string]bool) error {
	taken, err := d.contexts.ShardsOf(ctx, uid, fresh)
	for _, c := range fresh {
		_, begun := taken[c]
		mine[c] = !begun
	}
	return err
}

// dispatch finds out how each target is reached and queues it, unless nothing is to be
// done and it needs no watching. A cluster that is not known any more fails its pairs.
func (d *dispatcher) dispatch(ctx context.Context, due []pair.Target) {
	trip := d.gateway.Lookup()
	trip.Prefetch(ctx, pair.Clusters(due))
	byLane, lost := map[string][]pair.Target{}, []pair.Result{}
	for _, t := range due {
		dest, err := d.find(ctx, trip, t)
		if err != nil {
			lost = append(lost, unfound(d.ledger.Of(t), err)...)
			continue
		}
		d.guard.Track(t, dest)
		does := dest.Role(d.shard)
		if does == route.Wait || does == route.Deliver && dest.Backend != nil && len(pair.AllDeliverable(d.ledger.Of(t))) == 0 {
			continue
		}
		lane := dest.QueueFor(does)
		byLane[lane] = append(byLane[lane], t)
	}
	for lane, targets := range byLane {
		d.lanes.Add(ctx, lane, targets...)
	}
	d.settle(ctx, lost)
}

// find returns where a target is, unless what it shall hold was meant for another cluster
// of that name.
func (d *dispatcher) find(ctx context.Context, trip *route.Lookup, t pair.Target) (route.Route, error) {
	dest, err := trip.Route(ctx, t.Cluster)
	if err == nil {
		err = pair.CheckRegistration(d.ledger.Of(t), dest.Registration)
	}
	return dest, err
}

// work carries out what is due in a lane and writes down what came of it.
func (d *dispatcher) work(ctx context.Context, lane string, due []pair.Target) {
	trip, found := d.gateway.Lookup(), map[pair.Target]route.Route{}
	trip.Prefetch(ctx, pair.Clusters(due))
	var direct, viaGit []pair.Target
	var lost []pair.Result
	moving := map[string]route.Route{}
	for _, t := range due {
		dest, err := d.find(ctx, trip, t)
		found[t] = dest
		d.guard.Track(t, dest)
		does := dest.Role(d.shard)
		switch {
		case err != nil:
			lost = append(lost, unfound(d.ledger.Of(t), err)...)
		case does == route.Wait:
		case dest.QueueFor(does) != lane:
			d.lanes.Add(ctx, dest.QueueFor(does), t)
		case does != route.Deliver:
			moving[t.Cluster] = dest
		case dest.Backend != nil:
			viaGit = append(viaGit, t)
		default:
			direct = append(direct, t)
		}
	}
	d.settle(ctx, lost)
	d.mover.Work(ctx, moving)
	for done := range d.git.Deliver(ctx, d.arrive(ctx, viaGit, false), found) {
		d.settle(ctx, d.platforms.Register(ctx, done, found))
		d.lanes.Add(ctx, lane, d.late.Report(lane, done)...)
	}
	for _, t := range d.arrive(ctx, direct, true) {
		own := d.brakes.For(t.UID)
		d.settle(own, d.kube.Deliver(own, t, found[t]))
	}
}

// arrive moves targets past steps that need not be delivered. It returns them, or none
// if that cannot be written down; they are tried again then.
func (d *dispatcher) arrive(ctx context.Context, at []pair.Target, direct bool) []pair.Target {
	err := d.ledger.SkipSteps(ctx, at, direct)
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

// heed writes down what clusters report, and sees to what may go on because of it.
func (d *dispatcher) heed(ctx context.Context, reports []appcontext.Report) error {
	due, err := d.ledger.Report(ctx, reports)
	d.dispatch(ctx, due)
	d.tell(ctx)
	return err
}

// tell writes events. One that cannot be written is lost.
func (d *dispatcher) tell(ctx context.Context) {
	events := d.ledger.Events(ctx)
	if len(events) == 0 {
		return
	}
	if err := d.contexts.AddEvents(ctx, events...); err != nil && ctx.Err() == nil {
		d.log.Warn("events not written", "err", err, "events", len(events))
	}
}
