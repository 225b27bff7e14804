package pairs

import (
	"context"
	"hash/maphash"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Report writes reports on known pairs, and returns the targets that go on because of
// them. A report that names no app only means that its cluster reports.
func (s *Store) Report(ctx context.Context, reports []appcontext.Report) ([]pair.Target, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	known := make([]appcontext.Report, 0, len(reports))
	keys := make([]appcontext.PairKey, 0, len(reports))
	for _, r := range reports {
		s.reports.reporting[r.Key.Cluster] = true
		if _, ok := s.index.pair(r.Key); ok {
			known, keys = append(known, r), append(keys, r.Key)
		}
	}
	if err := s.reports.load(ctx, keys, false); err != nil {
		return nil, err
	}
	c := change{readiness: map[appcontext.PairKey]lastReport{}}
	for _, r := range known {
		if err := s.assess(ctx, &c, r); err != nil {
			return nil, err
		}
	}
	if err := s.write(ctx, c); err != nil {
		return nil, err
	}
	return s.advanceReported(ctx, keys)
}

// assess adds a report to a change. It decides whether the report's pair is ready, and since
// when: gates and the stored Report.Ready follow it. The caller holds writing.
func (s *Store) assess(ctx context.Context, c *change, r appcontext.Report) error {
	p, _ := s.index.pair(r.Key)
	last, _ := s.reports.last(r.Key)
	now := lastReport{why: "not applied yet", digest: digestOf(r)}
	if p.Phase == appcontext.Applied {
		b, err := s.cfg.Plans.Bundle(ctx, p.Desired)
		if err != nil {
			return err
		}
		now.ready, now.why = pair.ReadyIn(b, &r)
		now.fell = last.ready && !now.ready
	}
	now.since = last.since
	if last.none || now.ready != last.ready || now.since.IsZero() {
		now.since = s.cfg.Now().UTC()
	}
	r.Ready, r.Since = now.ready, now.since
	if p.Phase != appcontext.Applied {
		now.report = &r
	}
	c.readiness[r.Key] = now
	// An agent repeats itself. That it still reports is known without a write, see
	// agents.Agent.
	same := !last.none && last.digest == now.digest && last.ready == now.ready && last.since.Equal(now.since)
	if r.Seq == 0 || !same {
		c.reports = append(c.reports, r)
	} else {
		c.repeated = append(c.repeated, r)
	}
	return nil
}

// storedWithAgent reports whether the record of a cluster's agent has the sequence and the time of a
// report, or later ones, so that the report may be stored without them.
func (s *Store) storedWithAgent(r appcontext.Report) bool {
	return r.Seq > 0 && s.cfg.Others != nil && s.cfg.Others.LastSequence(r.Key.Cluster) >= r.Seq
}

// reassess adds to a change whether the pairs that it makes Applied are ready: their last
// reports were compared with what they held before. The caller holds writing.
func (s *Store) reassess(ctx context.Context, c *change) error {
	var reported []*appcontext.Pair
	var keys []appcontext.PairKey
	for i := range c.put {
		p := &c.put[i]
		if p.Phase != appcontext.Applied {
			continue
		}
		if r, _ := s.reports.last(p.Key); !r.none {
			reported, keys = append(reported, p), append(keys, p.Key)
		}
	}
	if err := s.reports.load(ctx, keys, true); err != nil {
		return err
	}
	c.readiness = map[appcontext.PairKey]lastReport{}
	for _, p := range reported {
		last, _ := s.reports.last(p.Key)
		if last.none || last.report == nil {
			continue
		}
		b, err := s.cfg.Plans.Bundle(ctx, p.Desired)
		if err != nil {
			return err
		}
		r := *last.report
		now := lastReport{since: last.since, digest: last.digest}
		now.ready, now.why = pair.ReadyIn(b, &r)
		if now.ready != last.ready {
			now.since = s.cfg.Now().UTC()
			r.Ready, r.Since = now.ready, now.since
			c.reports = append(c.reports, r)
		}
		c.readiness[p.Key] = now
	}
	return nil
}

// setReadiness remembers a report. The caller holds writing.
func (s *Store) setReadiness(k appcontext.PairKey, r lastReport, reports equalReports) {
	old, _ := s.reports.last(k)
	s.setReport(k, reports.of(r))
	s.reports.reporting[k.Cluster] = true
	if r.ready != old.ready || !r.since.Equal(old.since) {
		s.recorder.ReadinessChanged(k, r.ready, r.fell, r.why)
		s.gates.queue.check(k.Deployment)
	}
}

// lastReport is what is remembered of the last report on a pair. It does not change, so pairs
// share equal ones.
type lastReport struct {
	none   bool // there is none
	ready  bool
	since  time.Time          // since when ready has its value
	why    string             // why it is not ready; empty if it is, or if the report was read from etcd
	fell   bool               // the pair was ready, with the same content
	digest uint64             // of what was reported, without the time
	report *appcontext.Report // all of it, while the pair is on its way
}

// noReport is remembered of a pair on which nothing was reported.
var noReport = &lastReport{none: true}

// equalReports gives pairs on which the same was reported one lastReport.
type equalReports map[lastReport]*lastReport

func (e equalReports) of(r lastReport) *lastReport {
	if r.none {
		return noReport
	}
	if e[r] == nil {
		e[r] = &r
	}
	return e[r]
}

// reportCache remembers reports from the first time that they are needed: a start with
// tens of thousands of pairs reads none. They are kept with the pairs, in memory.index.
// Store.writing guards all of it.
type reportCache struct {
	store     ReportWriter // set by Load
	reported  func(context.Context, v2.ClusterKey) (bool, error)
	memory    *memory
	reporting map[v2.ClusterKey]bool // clusters that have reported anything
}

func newReportCache(m *memory, reported func(context.Context, v2.ClusterKey) (bool, error)) reportCache {
	return reportCache{reported: reported, memory: m, reporting: map[v2.ClusterKey]bool{}}
}

// last returns the last report on a pair, and whether it is remembered.
func (c *reportCache) last(k appcontext.PairKey) (r lastReport, known bool) {
	if p := c.memory.index.at(k); p != nil && p.report != nil {
		return *p.report, true
	}
	return lastReport{}, false
}

// setNone notes that nothing was reported on a pair.
func (c *reportCache) setNone(k appcontext.PairKey) { c.memory.setReport(k, noReport) }

// dropDetails forgets all of a report but the readiness.
func (c *reportCache) dropDetails(k appcontext.PairKey, reports equalReports) {
	if r, _ := c.last(k); r.report != nil {
		r.report = nil
		c.memory.setReport(k, reports.of(r))
	}
}

// load reads the last reports on known pairs that are not remembered; with details, also those
// whose details were dropped.
func (c *reportCache) load(ctx context.Context, keys []appcontext.PairKey, details bool) error {
	var missing []appcontext.PairKey
	for _, k := range keys {
		if p := c.memory.index.at(k); p != nil && (p.report == nil || details && !p.report.none && p.report.report == nil) {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	reports, err := c.store.ReportsAt(ctx, missing)
	if err != nil {
		return err
	}
	for _, k := range missing {
		c.setNone(k)
	}
	for _, r := range reports {
		c.memory.setReport(r.Key, &lastReport{ready: r.Ready, since: r.Since, digest: digestOf(r), report: &r})
	}
	return nil
}

// neverReported reports whether nothing on a cluster has ever reported anything.
func (c *reportCache) neverReported(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	if c.reporting[cluster] {
		return false, nil
	}
	reported, err := c.reported(ctx, cluster)
	if reported {
		c.reporting[cluster] = true
	}
	return err == nil && !reported, err
}

var digestSeed = maphash.MakeSeed()

// digestOf identifies the content of a report, within this process.
func digestOf(r appcontext.Report) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, r.Commit)
	maphash.WriteComparable(&h, r.Proof)
	maphash.WriteComparable(&h, r.Truncated)
	for _, s := range r.Resources {
		maphash.WriteComparable(&h, s)
	}
	return h.Sum64()
}

// gateReports answers what gates ask about reports. It keeps the first error.
type gateReports struct {
	ctx    context.Context
	cache  *reportCache
	plans  *content.StepPlans
	others otherPairs
	equal  equalReports
	never  map[v2.ClusterKey]bool // the answers of NeverReported
	err    error
}

// Ready reports whether an applied pair is ready.
func (g *gateReports) Ready(p appcontext.Pair) gate.Readiness {
	if _, other := g.others.reports[p.Key]; other {
		return g.others.ready(p)
	}
	r, known := g.cache.last(p.Key)
	if !known || r.none {
		return gate.Readiness{Unreported: true}
	}
	if r.why == "" && !r.ready && r.report != nil { // it was read from etcd, which does not store why
		r.why = g.whyNotReady(p, r.report)
	}
	if r.report != nil {
		r.report = nil
		g.cache.memory.setReport(p.Key, g.equal.of(r))
	}
	if r.ready {
		return gate.Readiness{Ready: true, Since: r.since}
	}
	return gate.Readiness{Why: "not ready: " + r.why}
}

func (g *gateReports) whyNotReady(p appcontext.Pair, r *appcontext.Report) string {
	b, err := g.plans.Bundle(g.ctx, p.Desired)
	if err != nil {
		g.keepError(err)
		return "its content cannot be read"
	}
	_, why := pair.ReadyIn(b, r)
	return why
}

// NeverReported reports whether nothing on a cluster has ever reported anything.
func (g *gateReports) NeverReported(cluster v2.ClusterKey) bool {
	if never, asked := g.never[cluster]; asked { // thousands of pairs may wait for one cluster
		return never
	}
	never, err := g.cache.neverReported(g.ctx, cluster)
	g.keepError(err)
	g.never[cluster] = never
	return never
}

func (g *gateReports) keepError(err error) {
	if g.err == nil {
		g.err = err
	}
}
