package agentreports

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// Source delivers the reports of pairs from stored documents, whichever process stored them. It skips
// a document that is replaced before its turn. Make it with NewSource.
type Source struct {
	watch     AgentWatch
	documents DocumentStore
	commits   git.HistoryReader
	clusters  ClusterSource
	options   Options
}

// NewSource returns a source.
func NewSource(n AgentWatch, l DocumentStore, commits git.HistoryReader, f ClusterSource, o Options) *Source {
	return &Source{watch: n, documents: l, commits: commits, clusters: f, options: o.withDefaults()}
}

// Run reads at most maxDocuments at a time, and a large one alone. If more wait, it then pauses as long as the
// read took, so that reading takes half a processor at most. If they arrive faster than it reads them, read and
// pause take documentGap at least: in such a flood most documents are replaced meanwhile, and cost nothing.
const (
	maxDocuments = 32
	documentGap  = 30 * time.Millisecond
)

// Run calls deliver from one goroutine with each changed report, until ctx ends. It begins with the
// last report of every pair. Reads of Git histories, which prove what agents may not read, have goroutines
// of their own, which end before Run returns; the newest report of the cluster is processed after a read.
func (s *Source) Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error {
	queue := newDocumentQueue(s.options.Refresh)
	history := intake.NewHistory(s.commits, queue.again, s.options.Panics, s.options.Log)
	defer history.Wait()
	notifier := &intake.Notifier{
		Refresh: s.options.Refresh, Pairs: s.clusters.Pairs, History: history, Deliver: deliver, Log: s.options.Log,
		Desired: func(ctx context.Context, cluster v2.ClusterKey) (git.Repo, error) {
			c, err := s.clusters.Cluster(ctx, cluster)
			return c.Desired, err
		},
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.watchAgents(ctx, queue) })
	for ctx.Err() == nil {
		some := queue.take(maxDocuments)
		if len(some) == 0 {
			select {
			case <-ctx.Done():
			case <-queue.wake:
			}
			continue
		}
		began := time.Now()
		if err := s.process(ctx, notifier, queue, some); err != nil && ctx.Err() == nil {
			s.options.Log.Warn("agent reports not readable; trying again", "err", err)
			_ = pause.For(ctx, time.Second)
		}
		if rest := queue.rest(len(some), time.Since(began)); rest > 0 {
			_ = pause.For(ctx, rest)
		}
	}
	return nil
}

// watchAgents queues the documents of changed agents.
func (s *Source) watchAgents(ctx context.Context, queue *documentQueue) {
	for a := range s.watch.Agents(ctx) {
		queue.add(a)
	}
}

// process reads documents and delivers their reports. It queues again what failed.
func (s *Source) process(ctx context.Context, notifier *intake.Notifier, queue *documentQueue, changed []agents.Agent) error {
	names, newest := make([]v2.ClusterKey, len(changed)), map[v2.ClusterKey]agents.Agent{}
	for i, a := range changed {
		names[i], newest[a.Cluster] = a.Cluster, a
	}
	docs, err := s.documents.AgentDocuments(ctx, names)
	if err != nil {
		queue.putBack(changed)
		return err
	}
	var failed error
	for _, d := range docs {
		err := s.options.Panics.Do(contain.Reports, "the report of "+string(d.Cluster), func() error {
			return s.processOne(ctx, notifier, d, newest[d.Cluster])
		})
		if contain.Is(err) { // the next report of the cluster is tried again
			s.options.Count(intake.Fault)
			continue
		}
		if err != nil {
			queue.putBack([]agents.Agent{newest[d.Cluster]})
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func (s *Source) processOne(ctx context.Context, notifier *intake.Notifier, d agents.Document, a agents.Agent) error {
	r, err := decode(d)
	if err != nil {
		s.options.Log.Error("stored agent report not readable", "cluster", d.Cluster, "err", err)
		return nil // it was decoded once when it was accepted; another try does not help
	}
	at := d.At
	if a.Seq > r.Seq { // a heartbeat confirmed it since
		r.Seq, at = a.Seq, a.At
	}
	if err := notifier.Notify(ctx, r, at); err != nil || reflect.DeepEqual(r.Capacity, d.Capacity) {
		return err
	}
	return s.documents.SetCapacity(ctx, d.Cluster, at, r.Capacity)
}

func decode(d agents.Document) (status.Report, error) {
	text := d.Text
	if d.Gzip {
		var err error
		if text, err = unpack(text, status.MaxSize); err != nil {
			return status.Report{}, err
		}
	}
	r, err := status.Decode(text)
	if err == nil && r.Cluster != string(d.Cluster) {
		err = errs.New(errs.Malformed, "the report names another cluster")
	}
	return r, err
}

// documentQueue holds the clusters whose documents wait to be processed, first in first out.
type documentQueue struct {
	refresh time.Duration
	wake    chan struct{}

	mu    sync.Mutex
	known map[v2.ClusterKey]queuedDocument // guarded by mu
	queue []v2.ClusterKey                  // guarded by mu
	came  int                              // guarded by mu: new documents since the last take, also those that replaced one in the queue
}

// queuedDocument is the state of one cluster's document.
type queuedDocument struct {
	agent     agents.Agent // the newest, without its tokens
	processed string       // digest of the document processed last
	at        time.Time    // agent.At at that time
	queued    bool
}

func newDocumentQueue(refresh time.Duration) *documentQueue {
	return &documentQueue{refresh: refresh, wake: make(chan struct{}, 1), known: map[v2.ClusterKey]queuedDocument{}}
}

// add records an agent. It queues the document if the content changed, or if refresh has
// passed: the pairs that it is compared with may have changed.
func (t *documentQueue) add(a agents.Agent) {
	if a.DocumentID == "" {
		return
	}
	a.Tokens = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[a.Cluster]
	if a.DocumentID != k.agent.DocumentID {
		t.came++
	}
	k.agent = a
	if !k.queued && (a.DocumentID != k.processed || a.At.Sub(k.at) >= t.refresh) {
		k.queued = true
		t.queue = append(t.queue, a.Cluster)
	}
	t.known[a.Cluster] = k
	t.poke()
}

func (t *documentQueue) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take removes at most n clusters from the queue.
func (t *documentQueue) take(n int) (out []agents.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.came = 0
	for len(t.queue) > 0 && len(out) < n {
		k, there := t.known[t.queue[0]]
		if large := k.agent.Parts > 1; large && len(out) > 0 {
			break
		} else if large {
			n = 1
		}
		t.queue = t.queue[1:]
		if !there {
			continue
		}
		k.queued, k.processed, k.at = false, k.agent.DocumentID, k.agent.At
		t.known[k.agent.Cluster] = k
		out = append(out, k.agent)
	}
	return out
}

// rest returns the pause after a read of n documents; 0 if none wait. See documentGap.
func (t *documentQueue) rest(n int, took time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.queue) == 0:
		return 0
	case t.came >= n:
		return max(took, documentGap-took)
	}
	return took
}

// putBack queues documents again that could not be processed.
func (t *documentQueue) putBack(changed []agents.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range changed {
		t.queueLocked(a.Cluster)
	}
	t.poke()
}

// again queues the newest document of a cluster.
func (t *documentQueue) again(cluster v2.ClusterKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queueLocked(cluster)
	t.poke()
}

func (t *documentQueue) queueLocked(cluster v2.ClusterKey) {
	if k, there := t.known[cluster]; there && !k.queued {
		k.queued = true
		t.queue, t.known[cluster] = append(t.queue, cluster), k
	}
}
