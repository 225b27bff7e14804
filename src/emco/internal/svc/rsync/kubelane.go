package rsync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// early is how long before its time a pair may be tried with others of its target.
const early = 100 * time.Millisecond

// kubeSink applies pairs to clusters that are reached directly, and watches what
// becomes of them. Connections are kept while the kubeconfig stays the same.
type kubeSink struct {
	ctx      context.Context // of the watches
	sink     *kube.Sink
	contents *content.Reader
	ledger   *pairs.Store
	ways     *content.StepPlans
	reports  *reporter
	log      *slog.Logger
	slots    chan struct{} // bounds the clusters worked on at the same time

	mu    sync.Mutex
	conns map[string]*conn // by cluster
}

func newKubeSink(ctx context.Context, s *Service, l *pairs.Store, w *content.StepPlans, r *reporter) *kubeSink {
	return &kubeSink{
		ctx: ctx, sink: s.parts.Kube, contents: s.contents, ledger: l, ways: w, log: s.parts.Log,
		reports: r,
		slots:   s.slots, conns: map[string]*conn{},
	}
}

// deliver works on the target's pairs that are due, each by itself, and sees to it
// that all that the target holds is watched.
func (s *kubeSink) deliver(ctx context.Context, t pair.Target, d route.Route) []pair.Result {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil
	}
	pairs := s.ledger.Of(t)
	c, err := s.connect(t.Cluster, d)
	if err != nil {
		return pair.Failures(pairs, err)
	}
	var out []pair.Result
	for _, p := range ripe(pairs, time.Now()) {
		out = append(out, s.apply(ctx, c.cluster, p))
	}
	for _, p := range pairs {
		if err := s.track(ctx, c, p); err != nil {
			s.log.Warn("app not watched", "cluster", t.Cluster, "app", p.Key.App, "err", err)
		}
	}
	return out
}

// track has the pair's objects watched, and what its steps wait for; those of a pair of
// which nothing is waited for and that is to go no more.
func (s *kubeSink) track(ctx context.Context, c *conn, p appcontext.Pair) error {
	ids, err := s.watched(ctx, p)
	switch {
	case err != nil:
		return err
	case len(ids) == 0:
		c.forget(p.Key)
	default:
		c.track(p.Key, fmt.Sprint(p.Change, " ", p.From, " ", p.Desired), ids)
	}
	return nil
}

func (s *kubeSink) watched(ctx context.Context, p appcontext.Pair) ([]manifest.ID, error) {
	b, err := s.ways.Bundle(ctx, p.Desired)
	if err != nil {
		return nil, err
	}
	seen := map[manifest.ID]bool{}
	out := content.AppendNew(content.AppendNew(nil, b.CRDs, seen), b.Objects, seen)
	if p.Phase == appcontext.Applied {
		return out, nil
	}
	way, err := s.ways.Of(ctx, p, false)
	for _, step := range way {
		if step.Kind != steps.Define { // the sink awaits them by itself
			out = content.AppendNew(out, step.About, seen)
		}
	}
	return out, err
}

// ripe returns the pairs that are to be tried now.
func ripe(pairs []appcontext.Pair, now time.Time) (out []appcontext.Pair) {
	for _, p := range pair.AllDeliverable(pairs) {
		if p.NextRetry.Before(now.Add(early)) {
			out = append(out, p)
		}
	}
	return out
}

// apply carries out a pair's step.
func (s *kubeSink) apply(ctx context.Context, c *kube.Cluster, p appcontext.Pair) pair.Result {
	step, last, err := s.ways.At(ctx, p, false)
	o := pair.ResultOf(p, step, last)
	if o.Err = err; err != nil {
		return o
	}
	st, err := s.state(ctx, p, step)
	if o.Err = err; err != nil {
		return o
	}
	result, err := c.Apply(ctx, st)
	o.Findings, o.Err = result.Findings, err
	return o
}

// state is what a step makes of the cluster. Before the main step nothing goes but hooks;
// with it goes all that may be there and is not to stay.
func (s *kubeSink) state(ctx context.Context, p appcontext.Pair, step steps.Step) (kube.AppState, error) {
	st := kube.AppState{Deployment: p.Key.UID, App: p.Key.App}
	app, err := s.contents.AppOf(ctx, step.Add)
	if err != nil {
		return st, err
	}
	st.Desired, st.CRDs = app.Objects, app.CRDs
	if step.Kind != steps.Main && !(step.Kind == steps.Tidy && p.Desired == "") {
		st.Previous = content.AppendNew(nil, step.Drop, map[manifest.ID]bool{})
		return st, nil
	}
	st.Previous, err = s.contents.IDs(ctx, p.Held)
	stays := map[manifest.ID]bool{}
	for _, r := range step.Keep {
		stays[steps.Key(r.ID)] = true
	}
	st.Previous = slices.DeleteFunc(st.Previous, func(id manifest.ID) bool { return stays[steps.Key(id)] })
	return st, err
}

// connect returns the connection to a cluster, a new one if the kubeconfig has changed.
func (s *kubeSink) connect(name string, d route.Route) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(d.Kubeconfig)
	old := s.conns[name]
	if old != nil && old.config == sum {
		return old, nil
	}
	cluster, err := s.sink.Connect(d.Kubeconfig)
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
}
