package app

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/documenttally"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// metrics are the program's own counters. Names that users choose are never labels, so the
// number of time series is bounded.
type metrics struct {
	registry *prometheus.Registry
	renders  prometheus.Counter
	etcd     etcdCounts // but those of the audit log
	commits  prometheus.Counter
	lost     prometheus.Counter
	renewals prometheus.Counter // of certificates, that failed
	full     prometheus.Gauge
	disk     prometheus.Gauge
	reserve  prometheus.Gauge
	panics   *prometheus.CounterVec
	fenced   *prometheus.CounterVec
	requests *prometheus.HistogramVec
	render   *prometheus.HistogramVec
	push     *prometheus.HistogramVec
	queue    prometheus.Histogram
}

// Buckets of durations, in seconds.
var (
	short = []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30}
	long  = []float64{0.05, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300}
)

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		renders:  counter("emco_renders_total", "Charts rendered: one for each class of equal inputs."),
		etcd:     newEtcdCounts("emco_etcd", "but those of the audit log"),
		commits:  counter("emco_git_commits_total", "Commits that reached a branch."),
		full: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "emco_etcd_full", Help: "1 while etcd's quota is used up and only reads are served, as of the last look.",
		}),
		disk:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "emco_disk_free_bytes", Help: "Free bytes of the data folder's disk, as of the last look."}),
		reserve:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "emco_disk_reserve_bytes", Help: "Free bytes below which nothing is written (diskReserve)."}),
		panics:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "emco_panics_total", Help: "Faults of EMCO that stopped the work on one item, by part of the program."}, []string{"part"}),
		renewals: counter("emco_ca_certs_renewals_failed_total", "Renewals of certificates that were refused, or that did not bring new certificates."),
		lost:     counter("emco_git_conflicts_total", "Pushes refused because someone else was faster."),
		fenced:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "emco_fenced_total", Help: "Writes refused because another process has taken over the work."}, []string{"store"}),
		requests: histogram("emco_http_request_duration_seconds", "Requests below /v2, by template of the path; streams last until they end.", short, "route", "method", "status"),
		render:   histogram("emco_render_duration_seconds", "Renderings of charts, by result: ok or failed.", long, "result"),
		push:     histogram("emco_git_push_duration_seconds", "Commits to branches, from taking the jobs to the server's answer, by result: committed, unchanged or failed.", long, "result"),
		queue:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "emco_git_queue_duration_seconds", Help: "Waiting of changes for the commit that takes them, the longest of each commit.", Buckets: long}),
	}
	build := version.Read()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "emco_build_info", Help: "1; the labels say what the program was built from.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	})
	info.Set(1)
	m.registry.MustRegister(info, m.requests, m.render, m.push, m.queue, m.renders, m.etcd.operations, m.etcd.bytes, m.commits, m.lost, m.renewals, m.full, m.disk, m.reserve, m.panics, m.fenced,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, store := range []string{"etcd", "git"} {
		m.fenced.WithLabelValues(store) // shows 0
	}
	for _, part := range contain.Parts() {
		m.panics.WithLabelValues(part)
	}
	for _, result := range []string{"ok", "failed"} {
		m.render.WithLabelValues(result)
	}
	for _, result := range []string{"committed", "unchanged", "failed"} {
		m.push.WithLabelValues(result)
	}
	return m
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// etcdCounts counts requests to etcd, and the bytes of their keys and values.
type etcdCounts struct{ operations, bytes *prometheus.CounterVec }

func newEtcdCounts(prefix, which string) etcdCounts {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help + ", " + which + "."}, []string{"kind"})
	}
	return etcdCounts{vec("_operations_total", "Requests to etcd"), vec("_bytes_total", "Bytes of keys and values in requests to etcd")}
}

func (c etcdCounts) request(kind string, bytes int) {
	c.operations.WithLabelValues(kind).Inc()
	c.bytes.WithLabelValues(kind).Add(float64(bytes))
}

// etcdFull records whether etcd's quota is used up.
func (m *metrics) etcdFull(full bool) {
	m.full.Set(0)
	if full {
		m.full.Set(1)
	}
}

// ready shows whether this process is ready.
func (m *metrics) ready(was func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_ready", Help: "1 if /readyz answers 200, as of the last look, about every five seconds.",
	}, func() float64 {
		if was() {
			return 1
		}
		return 0
	}))
}

// diskFree records the free bytes of the data folder's disk.
func (m *metrics) diskFree(bytes int64) { m.disk.Set(float64(bytes)) }

// panicked counts a panic that was contained.
func (m *metrics) panicked(part string) { m.panics.WithLabelValues(part).Inc() }

// lastKnown shows whether deliveries use settings that were read before the documents went away.
func (m *metrics) lastKnown(used func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_deliveries_by_last_known", Help: "1 while the documents are away, and deliveries use the settings and credentials that were read last.",
	}, func() float64 {
		if used() {
			return 1
		}
		return 0
	}))
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

// audit has the counts of an audit log counted, and returns what counts requests that it did not record.
func (m *metrics) audit(o *auditlog.Options) (missed func(int)) {
	written := counter("emco_audit_lines_total", "Lines written to the audit log.")
	failures := counter("emco_audit_failed_total", "Writes of the audit log that failed; requests that change something are refused then.")
	few := counter("emco_audit_missed_total", "Refused requests and sign-ins that the audit log counts and does not describe, because they were too many.")
	early := counter("emco_audit_trimmed_early_total", "Lines of the audit log that were removed before audit.keep, because of audit.bytes.")
	m.registry.MustRegister(written, failures, few, early)
	o.OnLines, o.OnFailed = func(n int) { written.Add(float64(n)) }, failures.Inc
	o.OnTrim = func(soon bool, n int) {
		if soon {
			early.Add(float64(n))
		}
	}
	return func(n int) { few.Add(float64(n)) }
}

// auditWebhook returns what counts the lines that the audit log's webhook has taken, and its failures.
func (m *metrics) auditWebhook() (sent func(lines int), failed func()) {
	lines := counter("emco_audit_webhook_lines_total", "Lines of the audit log that the server of audit.webhook.url has taken.")
	failures := counter("emco_audit_webhook_failed_total", "Requests to audit.webhook.url that failed; they are tried again.")
	m.registry.MustRegister(lines, failures)
	return func(n int) { lines.Add(float64(n)) }, failures.Inc
}

// auditEtcd returns what counts the requests of the audit log to etcd.
func (m *metrics) auditEtcd() (request func(kind string, bytes int)) {
	c := newEtcdCounts("emco_audit_etcd", "of the audit log")
	m.registry.MustRegister(c.operations, c.bytes)
	return c.request
}

// etcdFenced counts a write that etcd refused because another process owns the work.
func (m *metrics) etcdFenced() { m.fenced.WithLabelValues("etcd").Inc() }

// batch counts the result of one batch of Git edits.
func (m *metrics) batch(e batch.Event) {
	if e.Panicked {
		m.panicked(contain.Git)
		return
	}
	result := "unchanged"
	switch {
	case e.Failed:
		result = "failed"
	case e.Committed:
		result = "committed"
	}
	m.push.WithLabelValues(result).Observe(e.Took.Seconds())
	m.queue.Observe(e.Waited.Seconds())
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
		Name: "emco_git_resting", Help: "Repositories that are left alone for a while: the server is down, refuses the credential or throttles, or EMCO's own limits for it are used up.",
	}, func() float64 { return float64(count()) }))
}

// renewalFailed counts a renewal of certificates that failed.
func (m *metrics) renewalFailed() { m.renewals.Inc() }

// certificates shows when the first certificate on clusters ends; first returns zero if this process knows of none.
func (m *metrics) certificates(first func() time.Time) {
	m.end("emco_ca_certs_first_end_timestamp_seconds", "When the first certificate on clusters ends, in seconds since 1970; +Inf in processes that do not renew certificates, and if there is none.", first, nil)
}

// apiCertificate shows when the certificate of the API ends.
func (m *metrics) apiCertificate(end func() time.Time) {
	m.end("emco_api_certificate_end_timestamp_seconds", "When the certificate of http.cert ends that new connections use, in seconds since 1970; +Inf without it.", end, nil)
}

// clientCertificates shows when the certificates end with which the program authenticates to servers: those in the files that each
// setting names.
func (m *metrics) clientCertificates(files map[string][]string) {
	for setting, certs := range files {
		m.end("emco_client_certificate_end_timestamp_seconds", "When the first client certificate of a setting ends, in seconds since 1970; 0 while its file cannot be read, +Inf without one.", func() time.Time {
			end, err := tlsfiles.FirstEnd(certs)
			if err != nil {
				return time.Unix(0, 0)
			}
			return end
		}, prometheus.Labels{"setting": setting})
	}
}

// noEnd is when what does not exist ends.
func noEnd() time.Time { return time.Time{} }

// end shows a time; +Inf while it is zero.
func (m *metrics) end(name, help string, when func() time.Time, label prometheus.Labels) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: label}, func() float64 {
		if end := when(); !end.IsZero() {
			return float64(end.Unix())
		}
		return math.Inf(1)
	}))
}

// level shows the level of stored data.
func (m *metrics) level(inForce func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_level", Help: "Level of stored data in force: the lowest that the processes know, and never less than before.",
	}, func() float64 { return float64(inForce()) }))
}

// clocks shows how far the clocks of processes are apart.
func (m *metrics) clocks(skew func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_clock_skew_seconds", Help: "How far the clock of another process is ahead of this one's, of the process whose clock differs most.",
	}, func() float64 { return skew().Seconds() }))
}

// settings shows how many settings differ among processes.
func (m *metrics) settings(differing func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "emco_settings_differing", Help: "Settings that all processes need alike, and that differ from those of another process.",
	}, func() float64 { return float64(differing()) }))
}

// request counts an answered request.
func (m *metrics) request(s web.Served) {
	m.requests.WithLabelValues(s.Route, s.Method, strconv.Itoa(s.Status)).Observe(s.Took.Seconds())
}

// fleet shows the numbers of deployments, pairs and silent clusters.
func (m *metrics) fleet(totals func() tally.Totals) { m.registry.MustRegister(fleetCollector{totals}) }

// fleetCollector reads the numbers of the fleet once for each scrape.
type fleetCollector struct{ totals func() tally.Totals }

var (
	deploymentsDesc = prometheus.NewDesc("emco_deployments", "Deployment intent groups that were approved or more, by state of their life.", []string{"state"}, nil)
	pairsDesc       = prometheus.NewDesc("emco_pairs", "Apps on clusters, by state: ready, progressing, notReady and so on.", []string{"state"}, nil)
	silentDesc      = prometheus.NewDesc("emco_clusters_silent", "Clusters whose agent has not reported for longer than status.stale.", nil, nil)
)

// Describe implements prometheus.Collector.
func (f fleetCollector) Describe(out chan<- *prometheus.Desc) {
	out <- deploymentsDesc
	out <- pairsDesc
	out <- silentDesc
}

// Collect implements prometheus.Collector.
func (f fleetCollector) Collect(out chan<- prometheus.Metric) {
	t := f.totals()
	for state, n := range t.Deployments {
		out <- prometheus.MustNewConstMetric(deploymentsDesc, prometheus.GaugeValue, float64(n), state)
	}
	for state, n := range t.Pairs {
		out <- prometheus.MustNewConstMetric(pairsDesc, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(silentDesc, prometheus.GaugeValue, float64(t.Silent))
}

// documentCounts shows the numbers of documents.
func (m *metrics) documentCounts(counts func() map[string]int) {
	c := documentCollector{counts, map[string]*prometheus.Desc{}}
	for _, k := range documenttally.Kinds() {
		c.descs[k.Name] = prometheus.NewDesc("emco_"+k.Name, "Documents of this kind, as of the last five seconds.", nil, nil)
	}
	m.registry.MustRegister(c)
}

// documentCollector reads the numbers of documents once for each scrape.
type documentCollector struct {
	counts func() map[string]int
	descs  map[string]*prometheus.Desc // by kind
}

// Describe implements prometheus.Collector.
func (c documentCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c documentCollector) Collect(out chan<- prometheus.Metric) {
	for kind, n := range c.counts() {
		out <- prometheus.MustNewConstMetric(c.descs[kind], prometheus.GaugeValue, float64(n))
	}
}

// measuredRenderer counts, times and traces renderings.
type measuredRenderer struct {
	render.Renderer
	metrics *metrics
	tracer  *tracing.Tracer
}

// Render counts, then renders.
func (r measuredRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	r.metrics.renders.Inc()
	start := time.Now()
	ctx, span := r.tracer.Child(ctx, "render", slog.String("emco.app", req.App), slog.String("emco.package", string(req.Package.Digest)))
	out, err := r.Renderer.Render(ctx, req)
	span.End(err)
	result := "ok"
	if err != nil {
		result = "failed"
	}
	r.metrics.render.WithLabelValues(result).Observe(time.Since(start).Seconds())
	return out, err
}
