package httpstatus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// Source hands on what documents of agents say of pairs, whichever process took them. A
// document that is replaced before it was looked at is skipped. Make it with NewSource.
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

// How many documents are read at a time, those that are large alone, and how long it takes
// at least until the next ones are if more wait: enough for a fleet of 10,000 clusters of which
// each has news twice a minute, three times over. In a flood most documents are replaced by
// then, and need no work of those who keep pairs.
const (
	maxDocuments = 32
	documentGap  = 30 * time.Millisecond
)

// Run works until ctx ends. It calls deliver with what is new, from one goroutine; what was
// said last is delivered anew at first.
func (s *Source) Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error {
	todo := newDocumentQueue(s.options.Refresh)
	teller := &intake.Notifier{
		Refresh: s.options.Refresh, Pairs: s.clusters.Pairs, Commits: s.commits, Deliver: deliver, Log: s.options.Log,
		Desired: func(ctx context.Context, cluster string) (git.Repo, error) {
			c, err := s.clusters.Cluster(ctx, cluster)
			return c.Desired, err
		},
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.watchAgents(ctx, todo) })
	for ctx.Err() == nil {
		some := todo.take(maxDocuments)
		if len(some) == 0 {
			select {
			case <-ctx.Done():
			case <-todo.wake:
			}
			continue
		}
		began := time.Now()
		if err := s.process(ctx, teller, todo, some); err != nil && ctx.Err() == nil {
			s.options.Log.Warn("what agents reported cannot be read", "err", err)
			pause(ctx, time.Second)
		}
		if todo.more() { // reports are to be taken meanwhile; what is replaced by then need not be looked at
			took := time.Since(began)
			pause(ctx, max(took, documentGap-took))
		}
	}
	return nil
}

// watchAgents keeps in todo what there is to look at.
func (s *Source) watchAgents(ctx context.Context, todo *documentQueue) {
	for a := range s.watch.Agents(ctx) {
		todo.add(a)
	}
}

// process reads documents and hands on what they say. What could not be is looked at again.
func (s *Source) process(ctx context.Context, teller *intake.Notifier, todo *documentQueue, agents []appcontext.Agent) error {
	names, newest := make([]string, len(agents)), map[string]appcontext.Agent{}
	for i, a := range agents {
		names[i], newest[a.Cluster] = a.Cluster, a
	}
	docs, err := s.documents.Sayings(ctx, names)
	if err != nil {
		todo.putBack(agents)
		return err
	}
	var failed error
	for _, d := range docs {
		err := s.processOne(ctx, teller, d, newest[d.Cluster])
		if err != nil {
			todo.putBack([]appcontext.Agent{newest[d.Cluster]})
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func (s *Source) processOne(ctx context.Context, teller *intake.Notifier, d appcontext.Saying, a appcontext.Agent) error {
	r, err := decode(d)
	if err != nil {
		s.options.Log.Error("a report that was taken cannot be read", "cluster", d.Cluster, "err", err)
		return nil // it was read once; trying again does not help
	}
	at := d.At
	if a.Seq > r.Seq { // it was confirmed since
		r.Seq, at = a.Seq, a.At
	}
	return teller.Notify(ctx, r, at)
}

func decode(d appcontext.Saying) (status.Report, error) {
	text := d.Text
	if d.Gzip {
		var err error
		if text, err = unpack(text, status.MaxSize); err != nil {
			return status.Report{}, err
		}
	}
	r, err := status.Decode(text)
	if err == nil && r.Cluster != d.Cluster {
		err = errs.New(errs.Malformed, "it speaks for another cluster")
	}
	return r, err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// documentQueue is which documents are to be looked at, in the order in which that became known.
type documentQueue struct {
	refresh time.Duration
	wake    chan struct{}

	mu    sync.Mutex
	known map[string]queuedDocument
	queue []string
}

// queuedDocument is what is known of one document.
type queuedDocument struct {
	agent     appcontext.Agent // without tokens
	processed string           // what was looked at last
	at        time.Time        // At of the agent then
	queued    bool
}

func newDocumentQueue(refresh time.Duration) *documentQueue {
	return &documentQueue{refresh: refresh, wake: make(chan struct{}, 1), known: map[string]queuedDocument{}}
}

// add notes an agent. There is something to look at if it says something else, or has
// said the same for long enough: what it is compared with may have changed.
func (t *documentQueue) add(a appcontext.Agent) {
	if a.Said == "" {
		return
	}
	a.Tokens = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[a.Cluster]
	k.agent = a
	if !k.queued && (a.Said != k.processed || a.At.Sub(k.at) >= t.refresh) {
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

// take returns at most n agents whose documents are to be looked at.
func (t *documentQueue) take(n int) (out []appcontext.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
		k.queued, k.processed, k.at = false, k.agent.Said, k.agent.At
		t.known[k.agent.Cluster] = k
		out = append(out, k.agent)
	}
	return out
}

// more reports whether there is more to look at than was taken.
func (t *documentQueue) more() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) > 0
}

// putBack puts back what could not be looked at.
func (t *documentQueue) putBack(agents []appcontext.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range agents {
		if k, there := t.known[a.Cluster]; there && !k.queued {
			k.queued = true
			t.queue, t.known[a.Cluster] = append(t.queue, a.Cluster), k
		}
	}
	t.poke()
}
