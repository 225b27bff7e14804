package rsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// recorder notes what is written to the real store, and can be out of order.
type recorder struct {
	*appcontext.Store
	calls []string
	out   error // what writes of pairs answer, if it is set
}

func (r *recorder) PutPairs(ctx context.Context, own appcontext.Fence, put []appcontext.Pair, remove []appcontext.PairKey) error {
	if r.out != nil {
		return r.out
	}
	r.note("pairs", len(put), len(remove))
	return r.Store.PutPairs(ctx, own, put, remove)
}

func (r *recorder) PutReports(ctx context.Context, own appcontext.Fence, put []appcontext.Report, remove []appcontext.PairKey) error {
	r.note("reports", len(put), len(remove))
	return r.Store.PutReports(ctx, own, put, remove)
}

func (r *recorder) note(what string, put, remove int) {
	r.calls = append(r.calls, fmt.Sprintf("%s +%d -%d", what, put, remove))
}

// wrote returns what was written since it was last asked.
func (r *recorder) wrote() string {
	out := strings.Join(r.calls, ", ")
	r.calls = nil
	return out
}

// newLedger is a loaded ledger at noon over a real store.
func newLedger(t *testing.T) (*ledger, *recorder) {
	t.Helper()
	contexts := contexttest.New(t)
	r := &recorder{Store: contexts}
	l := &ledger{store: r, fence: own(t, contexts, "a"), shard: route.Group.Shard(0), retry: retry, now: func() time.Time { return noon }, ways: content.NewStepPlans(content.NewReader(contexts))}
	if err := l.load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return l, r
}

// on is a wish for one app, "web", on clusters.
func on(bundle appcontext.Digest, clusters ...string) pair.Desired {
	w := pair.Desired{Deployment: "7", Subject: "the group", Rev: 2, Places: map[string]map[string]appcontext.Digest{}}
	for _, c := range clusters {
		w.Places[c] = map[string]appcontext.Digest{"web": bundle}
	}
	return w
}

func (l *ledger) mustIntend(t *testing.T, w pair.Desired) []pair.Target {
	t.Helper()
	due, err := l.intend(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return due
}

// stored reads what the store holds.
func stored(t *testing.T, pairs iter.Seq2[appcontext.Pair, error]) (out []appcontext.Pair) {
	t.Helper()
	for p, err := range pairs {
		if err != nil {
			t.Fatal(err)
		}
		p.At, p.NextRetry = p.At.UTC(), p.NextRetry.UTC()
		out = append(out, p)
	}
	return out
}

// wantAgreement checks that memory and store hold the same pairs.
func wantAgreement(t *testing.T, l *ledger, r *recorder) {
	t.Helper()
	var remembered []appcontext.Pair
	for _, target := range l.all() {
		remembered = append(remembered, l.of(target)...)
	}
	if kept := stored(t, r.Pairs(t.Context())); !reflect.DeepEqual(remembered, kept) {
		t.Errorf("remembered\n%+v\nstored\n%+v", remembered, kept)
	}
}

func TestTheLedgerIsWrittenFirst(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	if due := l.mustIntend(t, on("a", "edge+c1", "edge+c2")); fmt.Sprint(due) != "[{edge+c1 7} {edge+c2 7}]" {
		t.Errorf("due %v", due)
	}
	if got := r.wrote(); got != "pairs +2 -0" {
		t.Errorf("wrote %s", got)
	}
	wantAgreement(t, l, r)
	if due := l.mustIntend(t, on("a", "edge+c1", "edge+c2")); len(due) != 2 {
		t.Errorf("what is not there yet is due again; got %v", due)
	}

	before := l.of(pair.Target{Cluster: "edge+c1", UID: "7"})
	r.out = errs.New(errs.Unavailable, "etcd is away")
	if _, err := l.intend(t.Context(), on("b", "edge+c1")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := l.settle(t.Context(), []pair.Result{{Key: key, Bundle: "a", Commit: "c"}}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v", err)
	}
	if now := l.of(pair.Target{Cluster: "edge+c1", UID: "7"}); !reflect.DeepEqual(now, before) {
		t.Errorf("a write that failed is remembered: %+v", now)
	}
}

func TestTheLedgerSettles(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1", "edge+c2"))
	if got := l.subject("7"); got != "the group" {
		t.Errorf("subject %q", got)
	}
	second := key
	second.Cluster = "edge+c2"
	unknown := key
	unknown.UID = "8"
	r.wrote()
	err := l.settle(t.Context(), []pair.Result{
		{Key: key, Bundle: "a", Commit: "c0ffee"}, {Key: second, Bundle: "a", Err: errs.New(errs.Unavailable, "away")}, {Key: unknown, Bundle: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.wrote(); got != "pairs +2 -0" {
		t.Errorf("wrote %s", got)
	}
	wantAgreement(t, l, r)
	if p := l.of(pair.Target{Cluster: "edge+c1", UID: "7"})[0]; p.Phase != appcontext.Applied || p.Commit != "c0ffee" {
		t.Errorf("with proof: %+v", p)
	}
	if p := l.of(pair.Target{Cluster: "edge+c2", UID: "7"})[0]; p.Phase != appcontext.Retrying || p.Error != "away" || p.Attempt != 1 || !p.NextRetry.After(noon) {
		t.Errorf("with an error: %+v", p)
	}
	if got := l.of(pair.Target{Cluster: "edge+c1", UID: "8"}); len(got) > 0 {
		t.Errorf("an outcome made a pair: %+v", got)
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	l, _ := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1"))
	var phases []appcontext.Phase
	for range pair.MaxAttempts {
		if err := l.settle(t.Context(), []pair.Result{{Key: key, Bundle: "a", Err: errs.New(errs.Unavailable, "away")}}); err != nil {
			t.Fatal(err)
		}
		phases = append(phases, l.of(pair.Target{Cluster: "edge+c1", UID: "7"})[0].Phase)
	}
	if got := fmt.Sprint(phases); got != "[Retrying Retrying Retrying Retrying Failed]" {
		t.Errorf("phases %s", got)
	}
}

func TestRemovalsTakeReportsAlong(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1"))
	elsewhere := key
	elsewhere.App = "unknown"
	reports := []appcontext.Report{{Key: key, Resources: []appcontext.ResourceStatus{{ID: manifest.ID{Kind: "Pod", Name: "p"}, Status: "Current"}}}, {Key: elsewhere}}
	if _, err := l.report(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReportsAt(t.Context(), []appcontext.PairKey{key, elsewhere}); err != nil || len(got) != 1 || got[0].Key != key {
		t.Errorf("reports %+v, %v; want that of the known pair", got, err)
	}
	if due := l.mustIntend(t, pair.Desired{Deployment: "7", Rev: 3}); len(due) != 1 {
		t.Errorf("due %v", due)
	}
	r.wrote()
	if err := l.settle(t.Context(), []pair.Result{{Key: key}}); err != nil {
		t.Fatal(err)
	}
	if got := r.wrote(); got != "reports +0 -1, pairs +0 -1" {
		t.Errorf("wrote %s: a pair must not go before its report", got)
	}
	if got, err := r.ReportsAt(t.Context(), []appcontext.PairKey{key}); err != nil || len(got) > 0 {
		t.Errorf("reports %+v, %v are left", got, err)
	}
	wantAgreement(t, l, r)
	if len(l.all()) > 0 || l.subject("7") != "7" {
		t.Errorf("targets %v, subject %s are remembered", l.all(), l.subject("7"))
	}
}

// What an agent says again is not written again, not even by a process that did not hear it
// before; what a cluster that is watched says is.
func TestReportsWithoutNewsAreNotWritten(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1"))
	say := func(l *ledger, seq uint64, status, want string) {
		t.Helper()
		r.wrote()
		report := appcontext.Report{Key: key, Seq: seq, At: noon, Resources: []appcontext.ResourceStatus{{ID: manifest.ID{Kind: "Pod", Name: "p"}, Status: status}}}
		if _, err := l.report(t.Context(), []appcontext.Report{report}); err != nil {
			t.Fatal(err)
		}
		if got := r.wrote(); got != want {
			t.Errorf("report %d, %s: wrote %q, want %q", seq, status, got, want)
		}
	}
	const once = "reports +1 -0"
	say(l, 1, "Current", once)
	say(l, 2, "Current", "")
	say(l, 3, "Failed", once)
	say(l, 4, "Failed", "")
	say(l, 0, "Failed", once)
	next := &ledger{store: r, fence: own(t, r.Store, "a"), shard: l.shard, retry: retry, now: l.now, ways: l.ways}
	if err := next.load(t.Context(), stored(t, r.Pairs(t.Context()))); err != nil {
		t.Fatal(err)
	}
	say(next, 5, "Failed", "")
	say(next, 6, "Current", once)
}

func TestANewTermReadsWhatTheLastOneWrote(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1", "edge+c2"))
	if err := l.settle(t.Context(), []pair.Result{{Key: key, Bundle: "a", Commit: "c0ffee", Findings: []string{"look"}}}); err != nil {
		t.Fatal(err)
	}
	next := &ledger{store: r, fence: own(t, r.Store, "a"), shard: l.shard, retry: retry, now: l.now, ways: l.ways} // the same holder takes over
	if err := next.load(t.Context(), stored(t, r.Pairs(t.Context()))); err != nil {
		t.Fatal(err)
	}
	wantAgreement(t, next, r)

	_, err := l.intend(t.Context(), on("b", "edge+c1"))
	if !errors.Is(err, appcontext.ErrFenced) {
		t.Errorf("the former term wrote: %v", err)
	}
	if due := next.mustIntend(t, on("a", "edge+c1", "edge+c2")); fmt.Sprint(due) != "[{edge+c2 7}]" {
		t.Errorf("due %v, want what was not settled", due)
	}
}
