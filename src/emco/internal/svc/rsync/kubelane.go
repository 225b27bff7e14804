package rsync

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

// early is how long before its time a pair may be tried with others of its target.
const early = 100 * time.Millisecond

// kubeSink applies pairs to clusters that are reached directly, and watches what
// becomes of them. Connections are kept while the kubeconfig stays the same.
type kubeSink struct {
	ctx      context.Context // of the watches
	sink     *kube.Sink
	contents *contents
	ledger   *ledger
	reports  *reporter
	log      *slog.Logger
	slots    chan struct{} // bounds the clusters worked on at the same time

	mu    sync.Mutex
	conns map[string]*conn // by cluster
}

func newKubeSink(ctx context.Context, s *Service, l *ledger) *kubeSink {
	return &kubeSink{
		ctx: ctx, sink: s.parts.Kube, contents: s.contents, ledger: l, log: s.parts.Log,
		reports: newReporter(ctx, l, s.parts.Log),
		slots:   make(chan struct{}, s.parts.Workers), conns: map[string]*conn{},
	}
}

// deliver works on the target's pairs that are due, each by itself, and sees to it
// that all that the target holds is watched.
func (s *kubeSink) deliver(ctx context.Context, t target, d destination) []outcome {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil
	}
	pairs := s.ledger.of(t)
	c, err := s.connect(t.cluster, d)
	if err != nil {
		return outcomes(pairs, "", err)
	}
	var out []outcome
	for _, p := range ripe(pairs, time.Now()) {
		out = append(out, s.apply(ctx, c.cluster, p))
	}
	for _, p := range pairs {
		if err := s.track(ctx, c, p); err != nil {
			s.log.Warn("app not watched", "cluster", t.cluster, "app", p.Key.App, "err", err)
		}
	}
	return out
}

// track has the pair's objects watched; those of a pair that is to go no more.
func (s *kubeSink) track(ctx context.Context, c *conn, p appcontext.Pair) error {
	if p.Desired == "" {
		c.forget(p.Key)
		return nil
	}
	ids, err := s.contents.ids(ctx, []appcontext.Digest{p.Desired})
	if err == nil {
		c.track(p.Key, p.Desired, ids)
	}
	return err
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
func (s *kubeSink) connect(name string, d destination) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(d.kubeconfig)
	old := s.conns[name]
	if old != nil && old.config == sum {
		return old, nil
	}
	cluster, err := s.sink.Connect(d.kubeconfig)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.close()
	}
	s.conns[name] = openConn(s.ctx, name, cluster, sum, s.reports)
	return s.conns[name], nil
}

// stop ends all watches and closes all connections; nothing may be delivered any more.
func (s *kubeSink) stop() {
	for _, c := range s.conns {
		c.close()
	}
	s.reports.wait()
}
