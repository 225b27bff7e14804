package app

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// metrics are the program's own counters. Names that users choose are never labels, so the
// number of time series is bounded.
type metrics struct {
	registry *prometheus.Registry
	renders  prometheus.Counter
	etcdOps  *prometheus.CounterVec
	etcdSize *prometheus.CounterVec
	commits  prometheus.Counter
	lost     prometheus.Counter
	full     prometheus.Gauge
	fenced   *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		renders:  counter("emco_renders_total", "Charts rendered: one for each class of equal inputs."),
		etcdOps:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "emco_etcd_operations_total", Help: "Requests to etcd."}, []string{"kind"}),
		etcdSize: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "emco_etcd_bytes_total", Help: "Bytes of keys and values in requests to etcd."}, []string{"kind"}),
		commits:  counter("emco_git_commits_total", "Commits that reached a branch."),
		full: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "emco_etcd_full", Help: "1 while etcd's quota is used up and only reads are served, as of the last look.",
		}),
		lost:   counter("emco_git_conflicts_total", "Pushes refused because someone else was faster."),
		fenced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "emco_fenced_total", Help: "Writes refused because another process has taken over the work."}, []string{"store"}),
	}
	m.registry.MustRegister(m.renders, m.etcdOps, m.etcdSize, m.commits, m.lost, m.full, m.fenced,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, store := range []string{"etcd", "git"} {
		m.fenced.WithLabelValues(store) // shows 0
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) etcdOperation(kind string, bytes int) {
	m.etcdOps.WithLabelValues(kind).Inc()
	m.etcdSize.WithLabelValues(kind).Add(float64(bytes))
}

// etcdFull records whether etcd's quota is used up.
func (m *metrics) etcdFull(full bool) {
	m.full.Set(0)
	if full {
		m.full.Set(1)
	}
}

// documents returns a function that counts agents' documents by result.
func (m *metrics) documents() func(result string) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "emco_status_documents_total", Help: "Documents of agents on clusters: taken in, or why they were refused.",
	}, []string{"result"})
	m.registry.MustRegister(all)
	for _, result := range intake.Results() {
		all.WithLabelValues(result) // shows 0
	}
	return func(result string) { all.WithLabelValues(result).Inc() }
}

// etcdFenced counts a write that etcd refused because another process owns the work.
func (m *metrics) etcdFenced() { m.fenced.WithLabelValues("etcd").Inc() }

// batch counts the result of one batch of Git edits.
func (m *metrics) batch(e batch.Event) {
	m.lost.Add(float64(e.Conflicts))
	if e.Committed {
		m.commits.Inc()
	}
	if e.Fenced {
		m.fenced.WithLabelValues("git").Inc()
	}
}

// transfers counts the bytes that a Git host sends and receives.
func (m *metrics) transfers(stats func() plain.Stats) {
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "emco_git_pushed_bytes_total", Help: "Bytes of packs sent to Git servers."},
			func() float64 { return float64(stats().Sent) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "emco_git_fetched_bytes_total", Help: "Bytes of packs received from Git servers."},
			func() float64 { return float64(stats().Received) }),
	)
}

// resting counts the repositories that are cooling down.
func (m *metrics) resting(count func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_git_resting", Help: "Repositories that are left alone for a while: the server is down, refuses the credential or throttles.",
	}, func() float64 { return float64(count()) }))
}

// countingRenderer counts renderings.
type countingRenderer struct {
	render.Renderer
	count prometheus.Counter
}

// Render counts, then renders.
func (c countingRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	c.count.Inc()
	return c.Renderer.Render(ctx, req)
}
