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
func (w *ReportWriter) Name() string { return "reports" }

// Ready returns nil: the writer refuses what it cannot store.
func (w *ReportWriter) Ready() error { return nil }

// Run stores reports until ctx ends, and then refuses those that wait.
func (w *ReportWriter) Run(ctx context.Context) error {
	w.mu.Lock()
	w.open = true
	w.mu.Unlock()
	var all sync.WaitGroup
	for range maxTransactions {
		all.Go(func() { w.writeLoop(ctx) })
	}
	all.Wait()
	w.refuseAll()
	return nil
}

// refuseAll refuses every waiting claim.
func (w *ReportWriter) refuseAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open, w.ready = false, nil
	for _, q := range w.queues {
		if q.waitingBatch != nil {
			w.answerLocked(q.waitingBatch, errStopping())
			q.waitingBatch = nil
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
func (w *ReportWriter) Write(ctx context.Context, c *reportClaim) error {
	if err := w.submit(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return errs.E(errs.Unavailable, "take", "report of "+string(c.cluster), ctx.Err())
	}
}

func (w *ReportWriter) submit(c *reportClaim) error {
	c.done = make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[c.cluster]
	switch {
	case !w.open:
		return errStopping()
	case q == nil:
		return errDenied // it was cached when the request was admitted
	case w.waiting >= w.options.Queue:
		return retryLater("too many reports wait")
	}
	return w.enqueueLocked(q, c)
}

// enqueueLocked adds a claim to the waiting batch of a cluster.
func (w *ReportWriter) enqueueLocked(q *clusterQueue, c *reportClaim) error {
	update, err := c.updateOf(q.base())
	if err != nil {
		return err
	}
	if q.waitingBatch == nil {
		q.waitingBatch = &claimBatch{}
		if q.writingBatch == nil {
			w.ready = append(w.ready, q)
			w.wakeWriter()
		}
	} else if update.Document == nil {
		update.Document = q.waitingBatch.update.Document
	}
	q.waitingBatch.update = update
	q.waitingBatch.claims = append(q.waitingBatch.claims, c)
	if c.key != nil {
		w.waiting++
	}
	return nil
}

// base is the agent as it will be after all waiting batches are stored.
func (q *clusterQueue) base() agents.Agent {
	switch {
	case q.waitingBatch != nil:
		return q.waitingBatch.update.Agent
	case q.writingBatch != nil:
		return q.writingBatch.update.Agent
	}
	return q.agent
}

func (w *ReportWriter) wakeWriter() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes transactions until ctx ends.
func (w *ReportWriter) writeLoop(ctx context.Context) {
	for ctx.Err() == nil {
		queues, updates := w.nextTransaction()
		if len(queues) == 0 {
			select {
			case <-ctx.Done():
			case <-w.wake:
			}
			continue
		}
		now, ok, err := w.agents.UpdateAgents(ctx, updates)
		w.finishTransaction(queues, now, ok, err)
	}
}

// nextTransaction takes as many batches as one transaction holds.
func (w *ReportWriter) nextTransaction() (queues []*clusterQueue, updates []agents.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops, bytes := 0, 0
	for len(w.ready) > 0 {
		q := w.ready[0]
		q.waitingBatch.update.OldParts = q.agent.Parts
		o, b := q.waitingBatch.update.Weight()
		if ops, bytes = ops+o, bytes+b; len(queues) > 0 && (ops > agents.MaxUpdateOps || bytes > agents.MaxUpdateBytes) {
			w.wakeWriter() // another writer takes the rest
			break
		}
		w.ready = w.ready[1:]
		queues, updates = append(queues, q), append(updates, q.startWriting())
	}
	return queues, updates
}

// startWriting turns the waiting batch into the one being written, based on the stored agent.
func (q *clusterQueue) startWriting() agents.Update {
	u := &q.waitingBatch.update
	u.Agent.Mod, u.Agent.Parts, u.OldParts = q.agent.Mod, q.agent.Parts, q.agent.Parts
	q.writingBatch, q.waitingBatch = q.waitingBatch, nil
	return *u
}

// finishTransaction answers the claims of a transaction, or retries them.
func (w *ReportWriter) finishTransaction(queues []*clusterQueue, now []agents.Agent, ok bool, err error) {
	if err != nil {
		w.options.Log.Warn("reports not stored", "reports", len(queues), "err", err)
		err = retryLater("the store cannot be written now")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, q := range queues {
		switch {
		case err != nil:
			w.failLocked(q, err)
		case ok:
			q.agent = now[i]
			w.answerLocked(q.writingBatch, nil)
			q.writingBatch = nil
			w.requeueLocked(q)
		default:
			q.agent = now[i]
			w.retryLocked(q)
		}
	}
	if len(w.ready) > 0 {
		w.wakeWriter()
	}
}

// failLocked refuses all claims of a cluster whose stored agent is unknown after an error.
func (w *ReportWriter) failLocked(q *clusterQueue, err error) {
	w.answerLocked(q.writingBatch, err)
	if q.waitingBatch != nil {
		w.answerLocked(q.waitingBatch, err)
	}
	q.writingBatch, q.waitingBatch, q.checked = nil, nil, time.Time{}
}

func (w *ReportWriter) requeueLocked(q *clusterQueue) {
	if q.waitingBatch != nil {
		w.ready = append(w.ready, q)
	}
}

// retryLocked computes the claims of a cluster again after another process has changed its agent.
func (w *ReportWriter) retryLocked(q *clusterQueue) {
	claims := q.writingBatch.claims
	if q.waitingBatch != nil {
		claims = append(claims, q.waitingBatch.claims...)
	}
	q.writingBatch, q.waitingBatch = nil, nil
	for _, c := range claims {
		if c.key != nil {
			w.waiting--
		}
		c.tries++
		err := retryLater("another process changes this agent all the time")
		if c.tries < maxTries {
			err = w.enqueueLocked(q, c)
		}
		if err != nil {
			c.done <- err
		}
	}
}

// answerLocked answers every claim of a batch.
func (w *ReportWriter) answerLocked(b *claimBatch, err error) {
	for _, c := range b.claims {
		if c.key != nil {
			w.waiting--
		}
		c.done <- err
	}
}
