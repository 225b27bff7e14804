package rsync

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

// early is how long before its time a pair may be tried with others of its target.
const early = 100 * time.Millisecond

// kubeSink applies pairs to clusters that are reached directly. Connections are kept
// while the kubeconfig stays the same.
type kubeSink struct {
	sink     *kube.Sink
	contents *contents
	ledger   *ledger
	slots    chan struct{} // bounds the clusters worked on at the same time

	mu    sync.Mutex
	conns map[string]conn // by cluster
}

// conn is a connection and the kubeconfig that it was made of.
type conn struct {
	cluster *kube.Cluster
	config  [sha256.Size]byte
}

func newKubeSink(s *Service, l *ledger) *kubeSink {
	return &kubeSink{
		sink: s.parts.Kube, contents: s.contents, ledger: l,
		slots: make(chan struct{}, s.parts.Workers), conns: map[string]conn{},
	}
}

// deliver works on the target's pairs that are due, each by itself.
func (s *kubeSink) deliver(ctx context.Context, t target, d destination) []outcome {
	due := ripe(s.ledger.of(t), time.Now())
	if len(due) == 0 {
		return nil
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil
	}
	cluster, err := s.connect(t.cluster, d)
	if err != nil {
		return outcomes(due, "", err)
	}
	var out []outcome
	for _, p := range due {
		out = append(out, s.apply(ctx, cluster, p))
	}
	return out
}

// ripe returns the pairs that are to be tried now.
func ripe(pairs []appcontext.Pair, now time.Time) (out []appcontext.Pair) {
	for _, p := range unsettled(pairs) {
		if p.NextRetry.Before(now.Add(early)) {
			out = append(out, p)
		}
	}
	return out
}

// apply makes the cluster hold the pair's bundle, and nothing else of what it may hold.
func (s *kubeSink) apply(ctx context.Context, c *kube.Cluster, p appcontext.Pair) outcome {
	o := outcome{key: p.Key, bundle: p.Desired}
	st := kube.AppState{Deployment: p.Key.UID, App: p.Key.App}
	if st.Previous, o.err = s.contents.ids(ctx, p.Held); o.err != nil {
		return o
	}
	if p.Desired != "" {
		app, err := s.contents.app(ctx, p.Desired)
		if o.err = err; err != nil {
			return o
		}
		st.Want, st.CRDs = app.Objects, app.CRDs
	}
	result, err := c.Apply(ctx, st)
	o.findings, o.err = result.Findings, err
	return o
}

// connect returns the connection to a cluster, a new one if the kubeconfig has changed.
func (s *kubeSink) connect(name string, d destination) (*kube.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(d.kubeconfig)
	if c, ok := s.conns[name]; ok && c.config == sum {
		return c.cluster, nil
	}
	cluster, err := s.sink.Connect(d.kubeconfig)
	if err != nil {
		return nil, err
	}
	if old, ok := s.conns[name]; ok {
		old.cluster.Close()
	}
	s.conns[name] = conn{cluster, sum}
	return cluster, nil
}

// stop closes all connections; nothing may be delivered any more.
func (s *kubeSink) stop() {
	for _, c := range s.conns {
		c.cluster.Close()
	}
}
