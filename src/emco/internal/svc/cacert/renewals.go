package cacert

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	renewer      = "emco"           // the actor of renewals
	leastPause   = 30 * time.Second // between renewals that help
	firstPause   = 10 * time.Minute // after one that does not
	longestPause = 6 * time.Hour
	unread       = time.Minute // after which an authority is looked at again that could not be read
)

// One process renews all certificates: they are few, and each renewal is two operations, which all processes share.
var renewalGroup = shards.Group{Kind: "renewals", Shards: 1}

// Renewals updates the stages of certificate authorities when their certificates have lived two thirds of their
// time: first the enrollment, and when the issuer has signed, the distribution. It follows the mirror, which hands over
// all heads at the start, and looks at an authority when one of its heads changes and when it is due.
type Renewals struct {
	a      *Authorities
	log    *slog.Logger
	failed func() // counts a renewal that was refused, or that changed nothing
	group  *shards.Runner

	mu      sync.Mutex
	queue   dueQueue                        // guarded by mu
	of      map[appcontext.HeadID]store.Key // certificate authorities by the heads of their stages; guarded by mu
	waiting map[v2.DeploymentID]store.Key   // those that wait for an issuer, by the enrollment's deployment; guarded by mu
	ends    map[store.Key]time.Time         // when the first certificate on clusters ends, by authority; guarded by mu
	changed chan struct{}                   // signals that an authority was added to queue

	asked map[store.Key]lastRenewal // by stage's document; only the run goroutine
}

// lastRenewal is the last renewal of a stage.
type lastRenewal struct {
	at      time.Time
	pause   time.Duration // until the next one
	counted bool          // it was refused, and counted
}

// NewRenewals returns the renewals of the authorities. They join the other processes as a member, and must observe the
// mirror. failed counts renewals that fail.
func NewRenewals(a *Authorities, me shards.Member, log *slog.Logger, failed func()) *Renewals {
	r := &Renewals{a: a, log: log, failed: failed, changed: make(chan struct{}, 1), ends: map[store.Key]time.Time{}, asked: map[store.Key]lastRenewal{}}
	r.Restarted()
	r.group = a.contexts.ShardRunner(renewalGroup, me, r.runShard)
	return r
}

// Name is "renewals".
func (r *Renewals) Name() string { return renewalGroup.Kind }

// Ready returns why nothing is renewed yet. A process is also ready if another one renews.
func (r *Renewals) Ready() error { return r.group.Ready() }

// State describes whether this process renews.
func (r *Renewals) State() string { return r.group.String() }

// Run works until ctx ends.
func (r *Renewals) Run(ctx context.Context) error { return r.group.Run(ctx) }

// FirstEnd returns when the first certificate on clusters ends; zero if this process does not renew, or if there is none.
func (r *Renewals) FirstEnd() (first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range r.ends {
		first = earlier(first, end)
	}
	return first
}

// noteEnd notes when the first certificate of an authority on clusters ends. While an update of the distribution is under way, and
// after one that failed, the clusters have the certificates of before.
func (r *Renewals) noteEnd(ca store.Key, distributed stageState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case distributed.head.State != appcontext.Instantiated:
		delete(r.ends, ca)
	case !distributed.renews() || distributed.Rev != distributed.head.Rev:
	case distributed.NotAfter.IsZero():
		delete(r.ends, ca)
	default:
		r.ends[ca] = distributed.NotAfter
	}
}

// Restarted forgets which heads there are: all follow again.
func (r *Renewals) Restarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of, r.waiting = map[appcontext.HeadID]store.Key{}, map[v2.DeploymentID]store.Key{}
}

// HeadChanged has the certificate authority of a stage looked at.
func (r *Renewals) HeadChanged(id appcontext.HeadID, h *appcontext.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h == nil {
		delete(r.of, id)
		delete(r.waiting, id.Deployment())
		return
	}
	key := store.Key(h.Document)
	if c := key.Collection(); c != enrollment.collection && c != distribution.collection {
		return
	}
	r.of[id] = owner(key)
	r.addLocked(owner(key), time.Time{})
}

// PairChanged queues the certificate authority that waits for this report.
func (r *Renewals) PairChanged(key appcontext.PairKey, _ *mirror.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ca, waits := r.waiting[key.Deployment]; waits {
		r.addLocked(ca, time.Time{})
	}
}

// AgentHeard does nothing.
func (r *Renewals) AgentHeard(v2.ClusterKey, time.Time) {}

// Advanced does nothing.
func (r *Renewals) Advanced(int64) {}

// addLocked queues an authority for a time. If it is queued already, the earlier time counts. The caller holds mu.
func (r *Renewals) addLocked(ca store.Key, at time.Time) {
	r.queue.add(ca, at)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// runShard renews until ctx ends. What another process looked at before is looked at again.
func (r *Renewals) runShard(ctx context.Context, _ int, _ *shards.Ownership) error {
	r.mu.Lock()
	for _, ca := range r.of {
		r.addLocked(ca, time.Time{})
	}
	r.mu.Unlock()
	defer func() { // another process renews now
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(r.ends)
	}()
	for ctx.Err() == nil {
		r.mu.Lock()
		ca, due, next := r.queue.take(r.a.now())
		r.mu.Unlock()
		if !due {
			r.wait(ctx, next)
			continue
		}
		next, err := r.look(ctx, ca)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("cannot look at a certificate authority; its certificates may not be renewed", "caCert", ca, "err", err)
			next = r.a.now().Add(unread)
		}
		if !next.IsZero() {
			r.mu.Lock()
			r.addLocked(ca, next)
			r.mu.Unlock()
		}
	}
	return ctx.Err()
}

// wait waits for a time, which is zero for none, or for a change of the queue.
func (r *Renewals) wait(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(until.Sub(r.a.now()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-r.changed:
	}
}

// stageState is a stage of a certificate authority with its head and schedule.
type stageState struct {
	doc  store.Doc
	head appcontext.Head
	renewalSchedule
}

// renews reports whether the certificates of a stage are renewed now: it is instantiated, and no operation is under way. When
// that changes, the head does.
func (s stageState) renews() bool {
	return s.head.State == appcontext.Instantiated && s.head.Op == nil
}

// readStage reads a stage.
func (r *Renewals) readStage(ctx context.Context, s addonStage, ca store.Doc) (out stageState, err error) {
	if out.doc, err = r.a.stageOf(ctx, s, ca); err != nil || out.doc.UID == noDocument {
		return out, err
	}
	if out.head, _, err = lifecycle.Head(ctx, r.a.contexts, out.doc); err != nil {
		return out, err
	}
	scheduled, err := store.Decode[renewalSchedule](out.doc)
	out.renewalSchedule = scheduled.of(out.head)
	return out, err
}

// look does the next step of the renewal of a certificate authority if one is due, and returns when to look again; zero if an
// event will.
//
// A renewal takes two updates. The update of the enrollment comes first: it gives the issuer new requests. When clusters have
// reported that the issuer signed them, the update of the distribution brings the certificates to the clusters. A look asks for
// one update at most. Its end changes the head of the stage, which leads to the next look.
func (r *Renewals) look(ctx context.Context, key store.Key) (next time.Time, err error) {
	ca, doc, err := r.a.authorityAt(ctx, key)
	if errs.Is(err, errs.NotFound) {
		r.forget(key)
		return next, nil
	}
	if err != nil {
		return next, err
	}
	enrolled, err := r.readStage(ctx, enrollment, doc)
	if err != nil {
		return next, err
	}
	r.follow(enrolled.head.Deployment(), "")
	if enrolled.head.State != appcontext.Instantiated { // also before the authority is deleted
		r.forget(key)
		return next, nil
	}
	distributed, err := r.readStage(ctx, distribution, doc)
	if err != nil {
		return next, err
	}
	r.noteEnd(key, distributed)
	if !enrolled.renews() {
		return next, nil
	}
	if enrolled.RenewAt.IsZero() { // it is not known, for example of a revision of an older version
		if enrolled.RenewAt, err = r.a.keysOf(enrolled.doc.Key).renewAt(ctx, lifeOf(ca, enrolled.Life)); err != nil {
			return next, err
		}
	}
	now := r.a.now()
	switch {
	case !enrolled.RenewAt.After(now):
		return r.renew(ctx, enrollment, enrolled)
	case !distributed.renews():
		return enrolled.RenewAt, nil
	case distributed.RenewAt.After(now):
		return earlier(enrolled.RenewAt, distributed.RenewAt), nil
	}
	signed, err := r.signed(ctx, enrolled, doc)
	switch {
	case err != nil:
		return next, err
	case !signed:
		return earlier(enrolled.RenewAt, now.Add(firstPause)), nil
	}
	return r.renew(ctx, distribution, distributed)
}

// signed reports whether the issuer has signed the requests of an enrollment. If it has not, each report of a cluster about
// them leads to another look.
func (r *Renewals) signed(ctx context.Context, enrolled stageState, ca store.Doc) (bool, error) {
	r.follow(enrolled.head.Deployment(), ca.Key) // before the question: a report that comes between the two is not missed
	err := r.a.checkEnrolled(ctx, ca)
	if errs.Is(err, errs.Conflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.follow(enrolled.head.Deployment(), "")
	return true, nil
}

// follow has a certificate authority looked at when a cluster reports about its enrollment; an empty one ends that.
func (r *Renewals) follow(enrollment v2.DeploymentID, ca store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ca == "" {
		delete(r.waiting, enrollment)
		return
	}
	r.waiting[enrollment] = ca
}

// forget removes what is known of a certificate authority that has nothing to renew.
func (r *Renewals) forget(ca store.Key) {
	for _, s := range stages {
		delete(r.asked, s.key(ca))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ends, ca)
	maps.DeleteFunc(r.waiting, func(_ v2.DeploymentID, waits store.Key) bool { return waits == ca })
}

// renew asks for the update of a stage, as a user would, and returns when to ask again if it does not help; zero if
// another request was faster. Pauses between updates that do not help grow. An error means that it is not known whether
// the update is possible.
func (r *Renewals) renew(ctx context.Context, s addonStage, due stageState) (next time.Time, err error) {
	last, at := r.asked[due.doc.Key], r.a.now()
	helped := due.RenewAt.After(last.at)
	if helped {
		last.pause = leastPause
	}
	if again := last.at.Add(last.pause); at.Before(again) {
		return again, nil
	}
	ask := lifecycle.Request{Action: lifecycle.Update, Actor: renewer, Reason: "certificates have lived two thirds of their time", At: at}
	underWay := false
	_, err = r.a.addons.Executor.Execute(ctx, due.doc, ask, func(ctx context.Context, now lifecycle.Snapshot) ([]appcontext.HeadChange, error) {
		if underWay = now.Head.Op != nil; underWay {
			return nil, nil
		}
		return r.a.decide(ctx, s, now, ask)
	})
	switch {
	case ctx.Err() != nil || errs.Is(err, errs.Unavailable):
		return next, err
	case err == nil && underWay: // its end changes the head
		return next, nil
	}
	pause := firstPause
	if !helped && at.Sub(last.at) < 2*last.pause {
		pause = min(2*last.pause, longestPause)
	}
	if !helped && !last.counted { // the one before was accepted, and nothing came of it
		r.failed()
	}
	r.asked[due.doc.Key] = lastRenewal{at: at, pause: pause, counted: err != nil}
	problem := ""
	if err != nil {
		r.failed()
		problem = err.Error()
		r.log.Warn("the renewal of certificates is refused", "stage", due.doc.Key, "err", err)
	}
	err = r.a.reschedule(ctx, due.doc.Key, func(known renewalSchedule) renewalSchedule {
		known.Problem = problem
		return known
	})
	return at.Add(pause), err
}
