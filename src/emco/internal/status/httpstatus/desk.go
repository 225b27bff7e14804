package httpstatus

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

const (
	maxTransactions   = 3               // transactions under way at a time
	maxTries          = 5               // of a claim that others overtake
	registrationTTL   = time.Minute     // what is known of a cluster's registration is looked at again
	tokenRereadGap    = time.Second     // what is known of its tokens likewise, if one does not fit
	maxLookups        = 16              // clusters that are looked up at a time
	lookupWait        = 2 * time.Second // with those that are looked up before
	reportGap         = time.Second / 5 // between two reports of a cluster, in the long run
	reportBurst       = 50              // reports of a cluster that may come at once
	heartbeatInterval = 200 * time.Millisecond
)

// ReportWriter writes down what agents said. It keeps what is known of each agent, and writes what
// waits for it together with what waits for others; of several reports of one agent the
// last. Make it with NewDesk.
type ReportWriter struct {
	agents      AgentStore
	clusters    ClusterSource
	options     Options
	lookupSlots chan struct{} // bounds the lookups
	wake        chan struct{}

	mu         sync.Mutex
	queues     map[string]*clusterQueue
	ready      []*clusterQueue // with something to write and nothing under way
	waiting    int             // claims that somebody waits for
	heartbeats map[string]heartbeat
	open       bool
}

// clusterQueue is where the reports of one cluster wait.
type clusterQueue struct {
	agent       appcontext.Agent // as it was in etcd last
	identity    string           // of the cluster's registration; empty: nobody may report here
	checked     time.Time        // when both were read
	nextAllowed time.Time        // until then reports are paid for, see gap

	waitingBatch, writingBatch *claimBatch
}

// claimBatch is what is written of an agent in one go.
type claimBatch struct {
	update appcontext.Words
	claims []*reportClaim
}

// heartbeat is a sign of life that came another way.
type heartbeat struct {
	seq uint64
	at  time.Time
}

// NewReportWriter returns a desk. It takes nothing before Run.
func NewReportWriter(b AgentStore, f ClusterSource, o Options) *ReportWriter {
	return &ReportWriter{
		agents: b, clusters: f, options: o.withDefaults(), lookupSlots: make(chan struct{}, maxLookups), wake: make(chan struct{}, 1),
		queues: map[string]*clusterQueue{}, heartbeats: map[string]heartbeat{},
	}
}

// Name is "reports".
func (d *ReportWriter) Name() string { return "reports" }

// Ready is always nil: what cannot be written is refused.
func (d *ReportWriter) Ready() error { return nil }

// Run writes until ctx ends. What waits then is refused.
func (d *ReportWriter) Run(ctx context.Context) error {
	d.mu.Lock()
	d.open = true
	d.mu.Unlock()
	var all sync.WaitGroup
	for range maxTransactions {
		all.Go(func() { d.writeLoop(ctx) })
	}
	all.Go(func() { d.heartbeatLoop(ctx) })
	all.Wait()
	d.refuseAll()
	return nil
}

// refuseAll refuses all that waits.
func (d *ReportWriter) refuseAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.ready = false, nil
	for _, p := range d.queues {
		if p.waitingBatch != nil {
			d.answerLocked(p.waitingBatch, errStopping())
			p.waitingBatch = nil
		}
	}
}

func errStopping() error { return retryLater("the program is stopping") }

// retryLater is an answer that asks to come back after some seconds, not all at the same time.
func retryLater(why string) error {
	return &errs.Error{Kind: errs.Unavailable, Op: "take", Subject: "report", Err: errors.New(why), After: time.Second + rand.N(4*time.Second)}
}

// Write returns once a claim is written down. Unavailable, with the time to come back, if it
// cannot be now; it may be written nevertheless if etcd did not answer.
func (d *ReportWriter) Write(ctx context.Context, c *reportClaim) error {
	if err := d.submit(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return errs.E(errs.Unavailable, "take", "report of "+c.cluster, ctx.Err())
	}
}

func (d *ReportWriter) submit(c *reportClaim) error {
	c.done = make(chan error, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.queues[c.cluster]
	switch {
	case !d.open:
		return errStopping()
	case p == nil:
		return errDenied // it was there when the request was admitted
	case d.waiting >= d.options.Queue:
		return retryLater("too many reports wait to be written")
	}
	return d.enqueueLocked(p, c)
}

// enqueueLocked adds a claim to what waits at a place. d.mu is held.
func (d *ReportWriter) enqueueLocked(p *clusterQueue, c *reportClaim) error {
	w, err := c.updateOf(p.base())
	if err != nil {
		return err
	}
	if p.waitingBatch == nil {
		p.waitingBatch = &claimBatch{}
		if p.writingBatch == nil {
			d.ready = append(d.ready, p)
			d.wakeWriter()
		}
	} else if w.Said == nil {
		w.Said = p.waitingBatch.update.Said
	}
	p.waitingBatch.update = w
	p.waitingBatch.claims = append(p.waitingBatch.claims, c)
	if c.key != nil {
		d.waiting++
	}
	return nil
}

// base is what will be known of the agent when all that waits is written.
func (p *clusterQueue) base() appcontext.Agent {
	switch {
	case p.waitingBatch != nil:
		return p.waitingBatch.update.Agent
	case p.writingBatch != nil:
		return p.writingBatch.update.Agent
	}
	return p.agent
}

func (d *ReportWriter) wakeWriter() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what is ready, until ctx ends.
func (d *ReportWriter) writeLoop(ctx context.Context) {
	for ctx.Err() == nil {
		places, words := d.nextTransaction()
		if len(places) == 0 {
			select {
			case <-ctx.Done():
			case <-d.wake:
			}
			continue
		}
		now, ok, err := d.agents.Hear(ctx, words)
		d.finishTransaction(places, now, ok, err)
	}
}

// nextTransaction takes what fits into one transaction.
func (d *ReportWriter) nextTransaction() (places []*clusterQueue, words []appcontext.Words) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ops, bytes := 0, 0
	for len(d.ready) > 0 {
		p := d.ready[0]
		p.waitingBatch.update.Old = p.agent.Parts
		o, b := p.waitingBatch.update.Weight()
		if ops, bytes = ops+o, bytes+b; len(places) > 0 && (ops > appcontext.MaxWords || bytes > appcontext.MaxWordsBytes) {
			d.wakeWriter() // for another writer
			break
		}
		d.ready = d.ready[1:]
		places, words = append(places, p), append(words, p.startWriting())
	}
	return places, words
}

// startWriting puts what waits under way, on top of what is there now.
func (p *clusterQueue) startWriting() appcontext.Words {
	w := &p.waitingBatch.update
	w.Agent.Mod, w.Agent.Parts, w.Old = p.agent.Mod, p.agent.Parts, p.agent.Parts
	p.writingBatch, p.waitingBatch = p.waitingBatch, nil
	return *w
}

// finishTransaction notes what became of a transaction.
func (d *ReportWriter) finishTransaction(places []*clusterQueue, now []appcontext.Agent, ok bool, err error) {
	if err != nil {
		d.options.Log.Warn("reports cannot be written", "reports", len(places), "err", err)
		err = retryLater("they cannot be written now")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range places {
		switch {
		case err != nil:
			d.failLocked(p, err)
		case ok:
			p.agent = now[i]
			d.answerLocked(p.writingBatch, nil)
			p.writingBatch = nil
			d.requeueLocked(p)
		default:
			p.agent = now[i]
			d.retryLocked(p)
		}
	}
	if len(d.ready) > 0 {
		d.wakeWriter()
	}
}

// failLocked refuses all that waits at a place of which nobody knows what is written.
func (d *ReportWriter) failLocked(p *clusterQueue, err error) {
	d.answerLocked(p.writingBatch, err)
	if p.waitingBatch != nil {
		d.answerLocked(p.waitingBatch, err)
	}
	p.writingBatch, p.waitingBatch, p.checked = nil, nil, time.Time{}
}

func (d *ReportWriter) requeueLocked(p *clusterQueue) {
	if p.waitingBatch != nil {
		d.ready = append(d.ready, p)
	}
}

// retryLocked asks the claims of a place again, of which somebody else has written something.
func (d *ReportWriter) retryLocked(p *clusterQueue) {
	claims := p.writingBatch.claims
	if p.waitingBatch != nil {
		claims = append(claims, p.waitingBatch.claims...)
	}
	p.writingBatch, p.waitingBatch = nil, nil
	for _, c := range claims {
		if c.key != nil {
			d.waiting--
		}
		c.tries++
		err := retryLater("others report for the same cluster all the time")
		if c.tries < maxTries {
			err = d.enqueueLocked(p, c)
		}
		if err != nil {
			c.done <- err
		}
	}
}

// answerLocked tells those who wait for a load.
func (d *ReportWriter) answerLocked(l *claimBatch, err error) {
	for _, c := range l.claims {
		if c.key != nil {
			d.waiting--
		}
		c.done <- err
	}
}

// Confirm writes down, soon, that the agent of a cluster lives: it said so another way. It
// does not wait; what cannot be written is left.
func (d *ReportWriter) Confirm(cluster string, seq uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.After(d.heartbeats[cluster].at) {
		d.heartbeats[cluster] = heartbeat{seq, at}
	}
}

// heartbeatLoop writes down signs of life, those together that came together, until ctx ends.
func (d *ReportWriter) heartbeatLoop(ctx context.Context) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		signs := d.heartbeats
		d.heartbeats = map[string]heartbeat{}
		d.mu.Unlock()
		if err := d.loadAgents(ctx, signs); err != nil {
			d.options.Log.Warn("signs of life cannot be written", "clusters", len(signs), "err", err)
			continue
		}
		d.mu.Lock()
		for cluster, s := range signs {
			c := &reportClaim{cluster: cluster, report: status.Report{Cluster: cluster, Seq: s.seq}, received: s.at, done: make(chan error, 1)}
			_ = d.enqueueLocked(d.queues[cluster], c) // one that is older than what is known is no news
		}
		d.mu.Unlock()
	}
}

// loadAgents reads what is known of agents that have no place yet.
func (d *ReportWriter) loadAgents(ctx context.Context, signs map[string]heartbeat) error {
	var missing []string
	d.mu.Lock()
	for cluster := range signs {
		if p := d.queues[cluster]; p == nil {
			missing = append(missing, cluster)
		}
	}
	d.mu.Unlock()
	agents, err := d.agents.AgentsOf(ctx, missing)
	if err != nil {
		return err
	}
	known := map[string]appcontext.Agent{}
	for _, a := range agents {
		known[a.Cluster] = a
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cluster := range missing {
		if d.queues[cluster] == nil {
			a := known[cluster]
			a.Cluster = cluster
			d.queues[cluster] = &clusterQueue{agent: a}
		}
	}
	return nil
}
