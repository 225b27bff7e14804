package rsync

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// reportStore is what is needed of the AppContext to know what clusters have said.
type reportStore interface {
	ReportsAt(ctx context.Context, keys []appcontext.PairKey) ([]appcontext.Report, error)
	Reported(ctx context.Context, cluster string) (bool, error)
}

// hearing is what is remembered of the last report on a pair.
type hearing struct {
	none  bool // there is none
	ready bool
	since time.Time          // since when ready is as it is
	why   string             // it is not ready
	fell  bool               // it was, in the same content
	said  uint64             // identifies what the report says, whenever it said so
	full  *appcontext.Report // all of it, while the pair is on its way
}

// hearings remember what clusters said, as far as it was needed since the term began:
// a start with tens of thousands of pairs reads no reports.
type hearings struct {
	store    reportStore
	of       map[appcontext.PairKey]hearing
	reported map[string]bool // clusters that are known to have said something
}

func newHearings(store reportStore) hearings {
	return hearings{store: store, of: map[appcontext.PairKey]hearing{}, reported: map[string]bool{}}
}

// none notes that a pair is new, and that nothing was said of it.
func (h *hearings) none(k appcontext.PairKey) { h.of[k] = hearing{none: true} }

func (h *hearings) forget(k appcontext.PairKey) { delete(h.of, k) }

// trim forgets the details of a report that nobody needs any more.
func (h *hearings) trim(k appcontext.PairKey) {
	if heard := h.of[k]; heard.full != nil {
		heard.full = nil
		h.of[k] = heard
	}
}

// read makes sure that the last reports on pairs are known; whole ones if details are needed.
func (h *hearings) read(ctx context.Context, keys []appcontext.PairKey, whole bool) error {
	var missing []appcontext.PairKey
	for _, k := range keys {
		if heard, known := h.of[k]; !known || whole && !heard.none && heard.full == nil {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	reports, err := h.store.ReportsAt(ctx, missing)
	if err != nil {
		return err
	}
	for _, k := range missing {
		h.none(k)
	}
	for _, r := range reports {
		h.of[r.Key] = hearing{ready: r.Ready, since: r.Since, said: sumOf(r), full: &r}
	}
	return nil
}

// never reports whether a cluster has not said anything of any pair.
func (h *hearings) never(ctx context.Context, cluster string) (bool, error) {
	if h.reported[cluster] {
		return false, nil
	}
	reported, err := h.store.Reported(ctx, cluster)
	if reported {
		h.reported[cluster] = true
	}
	return err == nil && !reported, err
}

// hear remembers a report.
func (l *ledger) hear(k appcontext.PairKey, h hearing) {
	old := l.reports.of[k]
	l.reports.of[k], l.reports.reported[k.Cluster] = h, true
	if h.ready != old.ready || !h.since.Equal(old.since) {
		l.diary.ReadinessChanged(k, h.ready, h.fell, h.why)
		l.stir(k.UID)
	}
}

// report writes down what clusters say of pairs that are known, and returns the targets
// that go on because of it. A report that names no app says that its cluster is there.
func (l *ledger) report(ctx context.Context, reports []appcontext.Report) ([]pair.Target, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := make([]appcontext.Report, 0, len(reports))
	keys := make([]appcontext.PairKey, 0, len(reports))
	for _, r := range reports {
		l.reports.reported[r.Key.Cluster] = true
		if _, ok := l.pair(r.Key); ok {
			known, keys = append(known, r), append(keys, r.Key)
		}
	}
	if err := l.reports.read(ctx, keys, false); err != nil {
		return nil, err
	}
	e := entry{heard: map[appcontext.PairKey]hearing{}}
	for _, r := range known {
		if err := l.take(ctx, &e, r); err != nil {
			return nil, err
		}
	}
	if err := l.write(ctx, e); err != nil {
		return nil, err
	}
	return l.goOn(ctx, keys)
}

// take works out of a report whether the pair is ready, and since when.
func (l *ledger) take(ctx context.Context, e *entry, r appcontext.Report) error {
	p, _ := l.pair(r.Key)
	last := l.reports.of[r.Key]
	h := hearing{why: "not applied yet"}
	if p.Phase == appcontext.Applied {
		b, err := l.ways.Bundle(ctx, p.Desired)
		if err != nil {
			return err
		}
		h.ready, h.why = pair.ReadyIn(b, &r)
	}
	h.fell = last.ready && !h.ready && p.Phase == appcontext.Applied
	h.since = last.since
	if last.none || h.ready != last.ready || h.since.IsZero() {
		h.since = l.now().UTC()
	}
	r.Ready, r.Since = h.ready, h.since
	if p.Phase != appcontext.Applied {
		h.full = &r
	}
	h.said = sumOf(r)
	e.heard[r.Key] = h
	if !h.repeats(last, r) {
		e.reports = append(e.reports, r)
	}
	return nil
}

// repeats reports whether an agent says what is written down already. That it still says
// so is known without writing it again: see appcontext.Agent.
func (h hearing) repeats(last hearing, r appcontext.Report) bool {
	return r.Seq > 0 && !last.none && last.said == h.said && last.ready == h.ready && last.since.Equal(h.since)
}

var sumSeed = maphash.MakeSeed()

// sumOf identifies what a report says, within this process.
func sumOf(r appcontext.Report) uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	maphash.WriteComparable(&h, r.Commit)
	maphash.WriteComparable(&h, r.Truncated)
	for _, s := range r.Resources {
		maphash.WriteComparable(&h, s)
	}
	return h.Sum64()
}

// requalify works out anew whether the pairs of an entry that have just been settled are
// ready: what was said of them was judged by what they held before.
func (l *ledger) requalify(ctx context.Context, e *entry) error {
	var keys []appcontext.PairKey
	for _, p := range e.put {
		if h, known := l.reports.of[p.Key]; p.Phase == appcontext.Applied && !(known && h.none) {
			keys = append(keys, p.Key)
		}
	}
	if err := l.reports.read(ctx, keys, true); err != nil {
		return err
	}
	e.heard = map[appcontext.PairKey]hearing{}
	for _, p := range e.put {
		h := l.reports.of[p.Key]
		if p.Phase != appcontext.Applied || h.none || h.full == nil {
			continue
		}
		b, err := l.ways.Bundle(ctx, p.Desired)
		if err != nil {
			return err
		}
		r := *h.full
		next := hearing{since: h.since, said: h.said}
		next.ready, next.why = pair.ReadyIn(b, &r)
		if next.ready != h.ready {
			next.since = l.now().UTC()
			r.Ready, r.Since = next.ready, next.since
			e.reports = append(e.reports, r)
		}
		e.heard[p.Key] = next
	}
	return nil
}

// sightings are what a deployment's gates may ask of what clusters said. The first error
// is kept.
type sightings struct {
	ctx context.Context
	l   *ledger
	far map[appcontext.PairKey]*mirror.Report // of pairs in other shards; nil where there is none
	err error
}

func (s *sightings) Ready(p appcontext.Pair) gate.Readiness {
	if r, far := s.far[p.Key]; far {
		return seenFar(r)
	}
	h, known := s.l.reports.of[p.Key]
	if !known || h.none {
		return gate.Readiness{Unreported: true}
	}
	if h.why == "" && !h.ready && h.full != nil {
		h.why = s.why(p, h)
		s.l.reports.of[p.Key] = h
	}
	s.l.reports.trim(p.Key)
	if h.ready {
		return gate.Readiness{Ready: true, Since: h.since}
	}
	return gate.Readiness{Why: "not ready: " + h.why}
}

// why finds out what a report that was read from the store complains about.
func (s *sightings) why(p appcontext.Pair, h hearing) string {
	b, err := s.l.ways.Bundle(s.ctx, p.Desired)
	if err != nil {
		s.err = err
		return "its content cannot be read"
	}
	_, why := pair.ReadyIn(b, h.full)
	return why
}

func (s *sightings) NeverReported(cluster string) bool {
	never, err := s.l.reports.never(s.ctx, cluster)
	if err != nil {
		s.err = err
	}
	return never
}
