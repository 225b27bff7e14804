package pairs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// recorder records the writes to a real AppContext, and can fail.
type recorder struct {
	*appcontext.Store
	calls []string
	out   error // what writes of pairs answer, if it is set

	unanswered int // writes of pairs that are made although they return an error
}

// termWriter is the writer of one term.
type termWriter struct {
	*pairstore.Writer
	r *recorder
}

func (w termWriter) Write(ctx context.Context, put []appcontext.Pair, remove []appcontext.PairKey) error {
	r := w.r
	if r.out != nil {
		return r.out
	}
	r.note("pairs", len(put), len(remove))
	err := w.Writer.Write(ctx, put, remove)
	if err == nil && r.unanswered > 0 {
		r.unanswered--
		err = errs.New(errs.Unavailable, "the answer is lost")
	}
	return err
}

func (w termWriter) WriteReports(ctx context.Context, c pairstore.ReportChange) error {
	if len(c.Put)+len(c.Remove) > 0 {
		w.r.note("reports", len(c.Put), len(c.Remove))
	}
	return w.Writer.WriteReports(ctx, c)
}

func (r *recorder) note(what string, put, remove int) {
	r.calls = append(r.calls, fmt.Sprintf("%s +%d -%d", what, put, remove))
}

// wrote returns the writes since the last call.
func (r *recorder) wrote() string {
	out := strings.Join(r.calls, ", ")
	r.calls = nil
	return out
}

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	retry = pair.Retry{First: time.Second, Longest: 5 * time.Minute}
	key   = appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "web"}
)

// job is a hook's object, in the content "1".
var job = appcontext.Ref{ID: manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "migrate"}, Digest: "d", Stamp: "1"}

// config is that of shard 0 over a real store; the test owns the shard.
func config(t *testing.T, r *recorder, now func() time.Time) pairs.Config {
	t.Helper()
	own := contexttest.Own(t, r.Store, route.Group.Shard(0), "a")
	return pairs.Config{
		AppContext: r, Fence: own, Shard: route.Group.Shard(0), Retry: retry,
		NewWriter: func(stored *pairstore.Contents) pairs.PairWriter { return termWriter{r.NewWriter(own, stored), r} },
		Now:       now, Plans: content.NewStepPlans(content.NewReader(r.Store)),
	}
}

// newStore is a loaded Store at noon.
func newStore(t *testing.T) (*pairs.Store, *recorder) {
	t.Helper()
	contexts := contexttest.New(t)
	r := &recorder{Store: contexts}
	l := pairs.New(config(t, r, func() time.Time { return noon }))
	if err := l.Load(t.Context(), pairstore.NewContents(l.Shard())); err != nil {
		t.Fatal(err)
	}
	return l, r
}

// on is what is desired of one app, "web", on clusters.
func on(bundle appcontext.Digest, clusters ...v2.ClusterKey) pair.Desired {
	w := pair.Desired{Deployment: "7", Subject: "the group", Rev: 2, Places: map[v2.ClusterKey]map[string]appcontext.Digest{}}
	for _, c := range clusters {
		w.Places[c] = map[string]appcontext.Digest{"web": bundle}
	}
	return w
}

func setDesired(t *testing.T, l *pairs.Store, w pair.Desired) []pair.Target {
	t.Helper()
	due, err := l.SetDesired(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return due
}

// contents reads what the store holds of a shard.
func contents(t *testing.T, s *appcontext.Store, shard string) *pairstore.Contents {
	t.Helper()
	all, err := s.Contents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all[shard] == nil {
		return pairstore.NewContents(shard)
	}
	return all[shard]
}

// stored reads what the store holds, in order.
func stored(t *testing.T, all iter.Seq2[appcontext.Pair, error]) (out []appcontext.Pair) {
	t.Helper()
	for p, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		p.At, p.NextRetry = p.At.UTC(), p.NextRetry.UTC()
		out = append(out, p)
	}
	slices.SortFunc(out, pairstore.ComparePairs)
	return out
}

// wantAgreement checks that memory and store hold the same pairs.
func wantAgreement(t *testing.T, l *pairs.Store, r *recorder) {
	t.Helper()
	var remembered []appcontext.Pair
	for _, target := range l.All() {
		remembered = append(remembered, l.Of(target)...)
	}
	if kept := stored(t, r.Pairs(t.Context())); !reflect.DeepEqual(remembered, kept) {
		t.Errorf("remembered\n%+v\nstored\n%+v", remembered, kept)
	}
}

func TestEtcdIsWrittenFirst(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	if due := setDesired(t, l, on("a", "edge+c1", "edge+c2")); fmt.Sprint(due) != "[{edge+c1 7} {edge+c2 7}]" {
		t.Errorf("due %v", due)
	}
	if got := r.wrote(); got != "pairs +2 -0" {
		t.Errorf("wrote %s", got)
	}
	wantAgreement(t, l, r)
	if due := setDesired(t, l, on("a", "edge+c1", "edge+c2")); len(due) != 2 {
		t.Errorf("what is not there yet is due again; got %v", due)
	}

	before := l.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"})
	r.out = errs.New(errs.Unavailable, "etcd is away")
	if _, err := l.SetDesired(t.Context(), on("b", "edge+c1")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := l.Record(t.Context(), []pair.Result{{Key: key, Bundle: "a", Commit: "c"}}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v", err)
	}
	if now := l.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"}); !reflect.DeepEqual(now, before) {
		t.Errorf("a write that failed is remembered: %+v", now)
	}
}

func TestResultsAreRecorded(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	if got := l.Document("7"); got != "the group" {
		t.Errorf("subject %q", got)
	}
	second := key
	second.Cluster = "edge+c2"
	unknown := key
	unknown.Deployment = "8"
	r.wrote()
	err := l.Record(t.Context(), []pair.Result{
		{Key: key, Bundle: "a", Commit: "c0ffee"}, {Key: second, Bundle: "a", Err: errs.New(errs.Unavailable, "away")}, {Key: unknown, Bundle: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.wrote(); got != "pairs +2 -0" {
		t.Errorf("wrote %s", got)
	}
	wantAgreement(t, l, r)
	if p := l.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"})[0]; p.Phase != appcontext.Applied || p.Commit != "c0ffee" {
		t.Errorf("with proof: %+v", p)
	}
	if p := l.Of(pair.Target{Cluster: "edge+c2", Deployment: "7"})[0]; p.Phase != appcontext.Retrying || p.Error != "away" || p.Attempt != 1 || !p.NextRetry.After(noon) {
		t.Errorf("with an error: %+v", p)
	}
	if got := l.Of(pair.Target{Cluster: "edge+c1", Deployment: "8"}); len(got) > 0 {
		t.Errorf("a result created a pair: %+v", got)
	}
}

// The failure of a delivery that ends after the deployment was changed, or terminated, does not concern what is desired now:
// that is due at once, and not failed until the longest retry interval has passed.
func TestFailuresOfWhatIsNoLongerDesiredAreForgotten(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	at := pair.Target{Cluster: "edge+c1", Deployment: "7"}
	refused := pair.Result{Key: key, Bundle: "a", Err: errs.New(errs.Invalid, "port 99999"), Findings: []string{"of a"}}
	setDesired(t, l, on("a", "edge+c1"))
	for _, next := range []struct {
		name  string
		want  pair.Desired
		phase appcontext.Phase
	}{
		{"another bundle", on("b", "edge+c1"), appcontext.Pending},
		{"nothing", on("", []v2.ClusterKey{}...), appcontext.Deleting},
	} {
		next.want.Rev++
		setDesired(t, l, next.want)
		if err := l.NoteWaiting(t.Context(), []pair.Target{at}, "the API server"); err != nil {
			t.Fatal(err)
		}
		if err := l.Record(t.Context(), []pair.Result{refused}); err != nil {
			t.Fatal(err)
		}
		p := l.Of(at)[0]
		if p.Phase != next.phase || p.Error != "" || p.Waiting != "" || p.Attempt != 0 || !p.NextRetry.IsZero() || p.Findings != nil || !pair.Deliverable(p) {
			t.Errorf("%s is desired, and what was desired before fails: %+v", next.name, p)
		}
		wantAgreement(t, l, r)
	}
}

func TestPairsFailAfterManyAttempts(t *testing.T) {
	t.Parallel()
	l, _ := newStore(t)
	setDesired(t, l, on("a", "edge+c1"))
	var phases []appcontext.Phase
	for range pair.MaxAttempts {
		if err := l.Record(t.Context(), []pair.Result{{Key: key, Bundle: "a", Err: errs.New(errs.Unavailable, "away")}}); err != nil {
			t.Fatal(err)
		}
		phases = append(phases, l.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"})[0].Phase)
	}
	if got := fmt.Sprint(phases); got != "[Retrying Retrying Retrying Retrying Failed]" {
		t.Errorf("phases %s", got)
	}
}

func TestRemovalsRemoveReports(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1"))
	elsewhere := key
	elsewhere.App = "unknown"
	reports := []appcontext.Report{{Key: key, Resources: []appcontext.ResourceStatus{{ID: manifest.ID{Kind: "Pod", Name: "p"}, Status: "Current"}}}, {Key: elsewhere}}
	if _, err := l.Report(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReportsAt(t.Context(), []appcontext.PairKey{key, elsewhere}); err != nil || len(got) != 1 || got[0].Key != key {
		t.Errorf("reports %+v, %v; want that of the known pair", got, err)
	}
	if due := setDesired(t, l, pair.Desired{Deployment: "7", Rev: 3}); len(due) != 1 {
		t.Errorf("due %v", due)
	}
	r.wrote()
	if err := l.Record(t.Context(), []pair.Result{{Key: key}}); err != nil {
		t.Fatal(err)
	}
	if got := r.wrote(); got != "reports +0 -1, pairs +0 -1" {
		t.Errorf("wrote %s: a pair must not go before its report", got)
	}
	if got, err := r.ReportsAt(t.Context(), []appcontext.PairKey{key}); err != nil || len(got) > 0 {
		t.Errorf("reports %+v, %v are left", got, err)
	}
	wantAgreement(t, l, r)
	if len(l.All()) > 0 || l.Document("7") != "7" {
		t.Errorf("targets %v, document %s are remembered", l.All(), l.Document("7"))
	}
}

// A report that an agent repeats is not written again, not even by a process that did not
// read it before. Reports on clusters that are watched from here are.
func TestRepeatedReportsAreNotWritten(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1"))
	var proof appcontext.Proof
	say := func(l *pairs.Store, seq uint64, status, want string) {
		t.Helper()
		r.wrote()
		report := appcontext.Report{Key: key, Seq: seq, At: noon, Proof: proof, Resources: []appcontext.ResourceStatus{{ID: manifest.ID{Kind: "Pod", Name: "p"}, Status: status}}}
		if _, err := l.Report(t.Context(), []appcontext.Report{report}); err != nil {
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
	next := pairs.New(config(t, r, func() time.Time { return noon }))
	if err := next.Load(t.Context(), contents(t, r.Store, next.Shard())); err != nil {
		t.Fatal(err)
	}
	say(next, 5, "Failed", "")
	say(next, 6, "Current", once)
	proof = appcontext.Proof{By: "c2", Holds: "c1"}
	say(next, 7, "Current", once)
	say(next, 8, "Current", "")
}

func TestANewTermReadsWhatTheLastOneWrote(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	if err := l.Record(t.Context(), []pair.Result{{Key: key, Bundle: "a", Commit: "c0ffee", Findings: []string{"look"}}}); err != nil {
		t.Fatal(err)
	}
	next := pairs.New(config(t, r, func() time.Time { return noon })) // the same holder takes over
	if err := next.Load(t.Context(), contents(t, r.Store, next.Shard())); err != nil {
		t.Fatal(err)
	}
	wantAgreement(t, next, r)

	_, err := l.SetDesired(t.Context(), on("b", "edge+c1"))
	if !errors.Is(err, appcontext.ErrFenced) {
		t.Errorf("the former term wrote: %v", err)
	}
	if due := setDesired(t, next, on("a", "edge+c1", "edge+c2")); fmt.Sprint(due) != "[{edge+c2 7}]" {
		t.Errorf("due %v, want what is not Applied", due)
	}
}
