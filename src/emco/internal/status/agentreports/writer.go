package agentreports

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
)

const (
	maxTransactions = 3               // concurrent transactions
	maxTries        = 5               // of a claim that other processes overtake
	registrationTTL = time.Minute     // how long a cached registration is valid
	tokenRereadGap  = time.Second     // how often a token that does not match is looked up
	maxLookups      = 16              // concurrent look-ups of clusters
	lookupWait      = 2 * time.Second // how long a request waits for a look-up
	reportGap       = time.Second / 5 // sustained interval between two reports of a cluster
	reportBurst     = 50              // reports of a cluster accepted at once
)

// ReportWriter stores reports in etcd. It caches the agent of each cluster and batches the
// reports that wait into one transaction; of several reports of one cluster it stores the last.
// Make it with NewReportWriter.
type ReportWriter struct {
	agents      AgentStore
	clusters    ClusterSource
	options     Options
	lookupSlots chan struct{} // one value per running look-up
	wake        chan struct{}

	mu      sync.Mutex // guards all below
	queues  map[v2.ClusterKey]*clusterQueue
	ready   []*clusterQueue // queues with a waiting batch and none being written
	waiting int             // claims whose request waits
	open    bool
}

// clusterQueue holds the cached agent and the waiting reports of one cluster. ReportWriter.mu guards it.
type clusterQueue struct {
	agent        agents.Agent // as last read from or written to etcd
	registration string       // of the cluster's registration; empty: no agent may report
	checked      time.Time    // when agent and registration were read
	nextAllowed  time.Time    // end of the time that the rate limit has used up; see reportGap

	waitingBatch, writingBatch *claimBatch
}

// claimBatch is one update of an agent and the claims that it answers.
type claimBatch struct {
	update agents.Update
	claims []*reportClaim
}

// NewReportWriter returns a writer that refuses reports until Run.
func NewReportWriter(b AgentStore, f ClusterSource, o Options) *ReportWriter {
	return &ReportWriter{
		agents: b, clusters: f, options: o.withDefaults(), lookupSlots: make(chan struct{}, maxLookups), wake: make(chan struct{}, 1),
		queues: map[v2.ClusterKey]*clusterQueue{},
	}
}

// Name returns "reports".
func (d *ReportWriter) Name() string { return "reports" }

// Ready returns nil: the writer refuses what it cannot store.
func (d *ReportWriter) Ready() error { return nil }

// Run stores reports until ctx ends, and then refuses those that wait.
func (d *ReportWriter) Run(ctx context.Context) error {
	d.mu.Lock()
	d.open = true
	d.mu.Unlock()
	var all sync.WaitGroup
	for range maxTransactions {
		all.Go(func() { d.writeLoop(ctx) })
	}
	all.Wait()
	d.refuseAll()
	return nil
}

// refuseAll refuses every waiting claim.
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

// retryLater asks the agent to come back after a random 1 to 5 seconds.
func retryLater(why string) error {
	return &errs.Error{Kind: errs.Unavailable, Op: "take", Subject: "report", Err: errors.New(why), After: time.Second + rand.N(4*time.Second)}
}

// Write returns after a claim is stored. It returns Unavailable, with a time to come back, if etcd
// cannot be written or does not answer; the report may then be stored nevertheless.
func (d *ReportWriter) Write(ctx context.Context, c *reportClaim) error {
	if err := d.submit(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return errs.E(errs.Unavailable, "take", "report of "+string(c.cluster), ctx.Err())
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
		return errDenied // it was cached when the request was admitted
	case d.waiting >= d.options.Queue:
		return retryLater("too many reports wait")
	}
	return d.enqueueLocked(p, c)
}

// enqueueLocked adds a claim to the waiting batch of a cluster.
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
	} else if w.Document == nil {
		w.Document = p.waitingBatch.update.Document
	}
	p.waitingBatch.update = w
	p.waitingBatch.claims = append(p.waitingBatch.claims, c)
	if c.key != nil {
		d.waiting++
	}
	return nil
}

// base is the agent as it will be after all waiting batches are stored.
func (p *clusterQueue) base() agents.Agent {
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

// writeLoop writes transactions until ctx ends.
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
		now, ok, err := d.agents.UpdateAgents(ctx, words)
		d.finishTransaction(places, now, ok, err)
	}
}

// nextTransaction takes as many batches as one transaction holds.
func (d *ReportWriter) nextTransaction() (places []*clusterQueue, words []agents.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ops, bytes := 0, 0
	for len(d.ready) > 0 {
		p := d.ready[0]
		p.waitingBatch.update.OldParts = p.agent.Parts
		o, b := p.waitingBatch.update.Weight()
		if ops, bytes = ops+o, bytes+b; len(places) > 0 && (ops > agents.MaxUpdateOps || bytes > agents.MaxUpdateBytes) {
			d.wakeWriter() // another writer takes the rest
			break
		}
		d.ready = d.ready[1:]
		places, words = append(places, p), append(words, p.startWriting())
	}
	return places, words
}

// startWriting turns the waiting batch into the one being written, based on the stored agent.
func (p *clusterQueue) startWriting() agents.Update {
	w := &p.waitingBatch.update
	w.Agent.Mod, w.Agent.Parts, w.OldParts = p.agent.Mod, p.agent.Parts, p.agent.Parts
	p.writingBatch, p.waitingBatch = p.waitingBatch, nil
	return *w
}

// finishTransaction answers the claims of a transaction, or retries them.
func (d *ReportWriter) finishTransaction(places []*clusterQueue, now []agents.Agent, ok bool, err error) {
	if err != nil {
		d.options.Log.Warn("reports not stored", "reports", len(places), "err", err)
		err = retryLater("the store cannot be written now")
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

// failLocked refuses all claims of a cluster whose stored agent is unknown after an error.
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

// retryLocked computes the claims of a cluster again after another process has changed its agent.
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
		err := retryLater("another process changes this agent all the time")
		if c.tries < maxTries {
			err = d.enqueueLocked(p, c)
		}
		if err != nil {
			c.done <- err
		}
	}
}

// answerLocked answers every claim of a batch.
func (d *ReportWriter) answerLocked(l *claimBatch, err error) {
	for _, c := range l.claims {
		if c.key != nil {
			d.waiting--
		}
		c.done <- err
	}
}
