package intake_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

const cluster = "edge+c1"

var (
	shop   = appcontext.PairKey{Cluster: cluster, Deployment: "7", App: "shop"}
	config = appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "web", Name: "config"}, Stamp: "s1"}
	secret = appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "Secret", Namespace: "web", Name: "login"}, Stamp: "s2"}
	hook   = appcontext.Ref{ID: manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "web", Name: "migrate"}, Stamp: "s3"}
)

// notifierFixture is a notifier over one pair, and what it delivered.
type notifierFixture struct {
	*intake.Notifier
	t         *testing.T
	pair      intake.Pair
	pairsErr  error
	parents   map[git.Hash][]git.Hash
	again     atomic.Bool // a history was read
	fetches   int
	delivered []appcontext.Report
}

func newFixture(t *testing.T) *notifierFixture {
	f := &notifierFixture{t: t, pair: intake.Pair{Key: shop, Objects: []appcontext.Ref{config, secret}, Hooks: []appcontext.Ref{hook}}}
	f.Notifier = &intake.Notifier{
		Refresh: time.Minute,
		Pairs:   func(context.Context, v2.ClusterKey) ([]intake.Pair, error) { return []intake.Pair{f.pair}, f.pairsErr },
		History: intake.NewHistory(f, func(v2.ClusterKey) { f.again.Store(true) }, nil, slog.New(slog.DiscardHandler)),
		Desired: func(context.Context, v2.ClusterKey) (git.Repo, error) {
			return git.Repo{URL: "https://git.example/fleet"}, nil
		},
		Deliver: func(_ context.Context, r appcontext.Report) { f.delivered = append(f.delivered, r) },
		Log:     slog.New(slog.DiscardHandler),
	}
	return f
}

// History is that of f.parents.
func (f *notifierFixture) History(context.Context, git.Repo, git.Hash, int) (map[git.Hash][]git.Hash, error) {
	f.fetches++
	return f.parents, nil
}

// notify returns what a document delivers for the pair after the histories that it needs are read, "none" if nothing.
func (f *notifierFixture) notify(r status.Report, at time.Time) string {
	f.t.Helper()
	f.delivered = nil
	for f.again.Store(true); f.again.Swap(false); f.Notifier.History.Wait() {
		if err := f.Notify(f.t.Context(), r, at); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, d := range f.delivered {
		if d.Key == shop {
			return describe(d)
		}
	}
	return "none"
}

func describe(r appcontext.Report) string {
	var out []string
	for _, s := range r.Resources {
		text := fmt.Sprintf("%s=%s@%s", s.Name, s.Status, s.Content)
		if s.Extra {
			text += "+"
		}
		if s.Reason != "" {
			text += "(" + s.Reason + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func object(ref appcontext.Ref, state string) status.Object {
	return status.Object{Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Status: state, Content: ref.Stamp}
}

func document(seq uint64, objects ...status.Object) status.Report {
	_, label := manifest.DeploymentLabel(shop.Deployment, shop.App)
	return status.Report{Cluster: cluster, Seq: seq, Agent: "monitor/1", Apps: []status.App{{Label: label, Objects: objects}}}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestFirstReportIntroducesTheAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.notify(document(1, object(config, status.Current)), start)
	if len(f.delivered) != 2 || f.delivered[0].Key != (appcontext.PairKey{Cluster: cluster}) || f.delivered[1].Key != shop {
		t.Errorf("delivered %+v, want a report of the cluster and one of the pair", f.delivered)
	}
	if d := f.delivered[1]; d.Seq != 1 || !d.At.Equal(start) {
		t.Errorf("the report has sequence %d and time %s", d.Seq, d.At)
	}
}

func TestOnlyChangesAreDelivered(t *testing.T) {
	t.Parallel()
	pod := appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "Pod", Namespace: "web", Name: "pod-1"}}
	both := []status.Object{object(config, status.Current), object(secret, status.Current)}
	for _, c := range []struct {
		name   string
		change func(*status.Report)
		want   string
	}{
		{"nothing", func(*status.Report) {}, "none"},
		{"the sequence and the time", func(r *status.Report) { r.Seq, r.At = 9, start }, "none"},
		{"an object's status", func(r *status.Report) { r.Apps[0].Objects[1].Status = status.Failed }, "config=Current@s1 login=Failed@s2"},
		{"an object's content", func(r *status.Report) { r.Apps[0].Objects[1].Content = "old" }, "config=Current@s1 login=Current@old"},
		{"a missing object", func(r *status.Report) { r.Apps[0].Objects = r.Apps[0].Objects[:1] }, "config=Current@s1 login=NotFound@"},
		{"an extra object", func(r *status.Report) { r.Apps[0].Objects = append(r.Apps[0].Objects, object(pod, status.InProgress)) }, "config=Current@s1 login=Current@s2 pod-1=InProgress@+"},
		{"a hook", func(r *status.Report) { r.Apps[0].Objects = append(r.Apps[0].Objects, object(hook, status.Current)) }, "config=Current@s1 login=Current@s2 migrate=Current@s3"},
		{"the applied commit", func(r *status.Report) { r.Apps[0].Commit = "c9" }, "config=Current@s1 login=Current@s2"},
		{"the number of objects left out", func(r *status.Report) { r.Apps[0].Truncated = 1 }, "config=Current@s1 login=Current@s2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.notify(document(1, both...), start)
			second := document(2, slices.Clone(both)...)
			c.change(&second)
			if got := f.notify(second, start.Add(time.Second)); got != c.want {
				t.Errorf("delivered %s, want %s", got, c.want)
			}
			second.Seq++
			if got := f.notify(second, start.Add(2*time.Second)); got != "none" {
				t.Errorf("the same again delivered %s", got)
			}
		})
	}
}

// A change of an object that is in no bundle is a change as well.
func TestAChangedExtraObjectIsDelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pod := appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "Pod", Namespace: "web", Name: "pod-1"}}
	f.notify(document(1, object(config, status.Current), object(pod, status.InProgress)), start)
	if got := f.notify(document(2, object(config, status.Current), object(pod, status.Failed)), start.Add(time.Second)); !strings.Contains(got, "pod-1=Failed@+") {
		t.Errorf("delivered %s", got)
	}
	if got := f.notify(document(3, object(config, status.Current)), start.Add(2*time.Second)); got == "none" || strings.Contains(got, "pod-1") {
		t.Errorf("without the object delivered %s", got)
	}
}

func TestUnchangedReportsAreRepeatedNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := document(1, object(config, status.Current), object(secret, status.Current))
	f.notify(r, start)
	for _, c := range []struct {
		after time.Duration
		again bool
	}{{time.Second, false}, {time.Minute - 1, false}, {time.Minute, true}, {2*time.Minute - 1, false}, {2 * time.Minute, true}} {
		r.Seq++
		if got := f.notify(r, start.Add(c.after)); (got != "none") != c.again {
			t.Errorf("after %s delivered %s", c.after, got)
		}
	}
	f.Forget(cluster)
	if got := f.notify(r, start.Add(2*time.Minute+1)); got == "none" || len(f.delivered) != 2 {
		t.Errorf("after Forget delivered %v", f.delivered)
	}
}

func TestPairsThatCannotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pairsErr = errors.New("no leader")
	if err := f.Notify(t.Context(), document(1), start); !errors.Is(err, f.pairsErr) || len(f.delivered) != 0 {
		t.Errorf("Notify = %v, delivered %v", err, f.delivered)
	}
	f.pairsErr = nil
	if got := f.notify(document(1, object(config, status.Current)), start); got == "none" {
		t.Error("the next try delivers nothing")
	}
}

// An object that the agent may not read counts as the desired content only if the reconciler
// has applied a commit that holds it.
func TestUnreadObjectsNeedAProof(t *testing.T) {
	t.Parallel()
	const waits = "the agent may not read it, and the reconciler has not yet reported the commit that holds it"
	for _, c := range []struct {
		name, applied, holds string
		want                 string
	}{
		{"the commit itself", "c2", "c2", "login=Current@s2"},
		{"a later commit", "c3", "c2", "login=Current@s2"},
		{"an earlier commit", "c1", "c2", "login=Current@(" + waits + ")"},
		{"no commit yet", "", "c2", "login=Current@(" + waits + ")"},
		{"nothing committed", "c3", "", "login=Current@(" + waits + ")"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.parents = map[git.Hash][]git.Hash{"c3": {"c2"}, "c2": {"c1"}, "c1": nil}
			f.pair.Objects, f.pair.Commit = []appcontext.Ref{secret}, c.holds
			unread := object(secret, status.Current)
			unread.Content, unread.Unread = "", true
			r := document(1, unread)
			r.Apps[0].Commit = c.applied
			if got := f.notify(r, start); got != c.want {
				t.Errorf("delivered %s, want %s", got, c.want)
			}
			if f.fetches > 1 {
				t.Errorf("the history was fetched %d times", f.fetches)
			}
		})
	}
}

// What was proved once needs no history that reaches back to the commit that delivered the pair: a process that begins anew reads
// only from the commit that the last report named.
func TestAProofOutlivesTheHistory(t *testing.T) {
	t.Parallel()
	before := newFixture(t)
	before.parents = map[git.Hash][]git.Hash{"c3": {"c2"}, "c2": nil}
	unread := object(secret, status.Current)
	unread.Content, unread.Unread = "", true
	says := func(f *notifierFixture, commit string) appcontext.Report {
		t.Helper()
		r := document(1, unread)
		r.Apps[0].Commit = commit
		f.pair.Objects, f.pair.Commit, f.pair.HookCommit = []appcontext.Ref{secret}, "c2", "c2"
		f.notify(r, start)
		return f.delivered[len(f.delivered)-1]
	}
	proof := says(before, "c3").Proof
	if proof != (appcontext.Proof{By: "c3", Holds: "c2"}) {
		t.Fatalf("the report has the proof %+v", proof)
	}
	for name, tt := range map[string]struct {
		commit  string
		known   appcontext.Proof
		proved  bool
		next    appcontext.Proof
		fetches int
	}{
		"the same commit":             {"c3", proof, true, proof, 0},
		"a later commit":              {"c5", proof, true, appcontext.Proof{By: "c5", Holds: "c2"}, 1},
		"a later commit, not known":   {"c5", appcontext.Proof{}, false, appcontext.Proof{}, 3},
		"the proof of another commit": {"c5", appcontext.Proof{By: "c3", Holds: "c1"}, false, appcontext.Proof{}, 3},
		"no commit for now":           {"", proof, false, proof, 0},
		"a commit before the proof":   {"c0", proof, false, proof, 3},
		"a commit of another line":    {"x1", proof, false, proof, 4},
	} {
		f := newFixture(t) // whose server knows nothing before c3
		f.parents = map[git.Hash][]git.Hash{"c5": {"c4"}, "c4": {"c3"}, "c0": nil, "x1": {"x0"}}
		f.pair.Proof = tt.known
		got := says(f, tt.commit)
		if proved := got.Resources[0].Content == secret.Stamp; proved != tt.proved || got.Proof != tt.next || f.fetches > tt.fetches {
			t.Errorf("%s: proved %v, the next proof is %+v, after %d fetches; want %v, %+v, %d at most", name, proved, got.Proof, f.fetches, tt.proved, tt.next, tt.fetches)
		}
	}
}

// The repository of a cluster is read once for a document, however many pairs need a proof; and not at all if none does.
func TestARepositoryIsReadOnceForADocument(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.parents = map[git.Hash][]git.Hash{"c3": {"c2"}, "c2": nil}
	other := intake.Pair{Key: shop, Objects: []appcontext.Ref{secret}, Commit: "c2", HookCommit: "c2"}
	other.Key.App = "other"
	f.pair.Commit, f.pair.HookCommit = "c2", "c2"
	f.Pairs = func(context.Context, v2.ClusterKey) ([]intake.Pair, error) { return []intake.Pair{f.pair, other}, nil }
	reads, desired := 0, f.Desired
	f.Desired = func(ctx context.Context, c v2.ClusterKey) (git.Repo, error) {
		reads++
		return desired(ctx, c)
	}
	r := document(1, object(secret, status.Current))
	f.notify(r, start)
	if reads != 0 {
		t.Errorf("%d reads for objects that the agent reads", reads)
	}
	r.Apps[0].Commit, r.Apps[0].Objects[0].Content, r.Apps[0].Objects[0].Unread = "c3", "", true
	_, label := manifest.DeploymentLabel(other.Key.Deployment, other.Key.App)
	r.Apps = append(r.Apps, status.App{Label: label, Commit: "c3", Objects: r.Apps[0].Objects})
	f.notify(r, start)
	reads = 0
	r.Apps[0].Objects[0].Reason = "new"
	if got := f.notify(r, start); got == "none" || reads != 1 {
		t.Errorf("%d reads, delivered %s", reads, got)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	text := func(r status.Report) []byte {
		out, err := status.Encode(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	other := document(5)
	other.Cluster = "edge+c2"
	for _, c := range []struct {
		name string
		d    intake.Document
		want string // empty: accepted
	}{
		{"a newer one", intake.Document{Text: text(document(5))}, ""},
		{"the last one again", intake.Document{Text: text(document(4))}, intake.Replayed},
		{"the last one, to a new process", intake.Document{Text: text(document(4)), First: true}, ""},
		{"an older one, to a new process", intake.Document{Text: text(document(3)), First: true}, intake.Replayed},
		{"another cluster's", intake.Document{Text: text(other)}, intake.Forged},
		{"no report", intake.Document{Text: []byte("\xff")}, intake.Malformed},
		{"a newer schema", intake.Document{Text: []byte(`{"schema":"emco.status/v9","cluster":"edge+c1","seq":9}`)}, intake.Schema},
		{"too large a text", intake.Document{Err: errs.New(errs.TooLarge, "above the limit")}, intake.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.d.Cluster = cluster
			_, err := intake.Check(c.d, 4, time.Now())
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check = %v, want it accepted", err)
			case c.want != "" && (err == nil || intake.ResultOf(err) != c.want):
				t.Errorf("Check = %v, want a result of %s", err, c.want)
			}
		})
	}
}

// No accepted sequence leaves a cluster without higher ones, and one that an older version
// accepted does not either.
func TestF63SequencesCannotBePoisoned(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	order := func(seq, last uint64, now time.Time) string {
		err := intake.CheckOrder(intake.Document{Cluster: cluster}, status.Report{Cluster: cluster, Seq: seq}, last, now)
		if err == nil {
			return ""
		}
		return intake.ResultOf(err)
	}
	honest := uint64(at.Unix())
	highest := honest
	for bit := range 64 { // the highest that is accepted, by bisection
		if try := highest | 1<<(63-bit); order(try, honest-1, at) == "" {
			highest = try
		}
	}
	if highest < honest+100*365*24*3600 || highest > 1<<40 {
		t.Errorf("the highest accepted sequence is %d, at %d s", highest, honest)
	}
	for name, c := range map[string]struct {
		seq, last uint64
		now       time.Time
		want      string
	}{
		"the largest number":                   {math.MaxUint64, 4, at, intake.Ahead},
		"half of it":                           {math.MaxInt64, 4, at, intake.Ahead},
		"after the highest, two seconds later": {highest + 1, highest, at.Add(2 * time.Second), ""},
		"after one of an older version":        {honest, math.MaxUint64, at, ""},
		"a clock a day ahead":                  {honest + 86400, 4, at, ""},
		"a clock a day behind":                 {honest - 86400, 4, at, ""},
		"here the clock fell back to 1970":     {honest + 1, honest, time.Unix(9, 0), ""},
		"here the clock fell back a day":       {honest + 1, honest, at.Add(-24 * time.Hour), ""},
		"here the clock jumped a day ahead":    {honest + 1, honest, at.Add(24 * time.Hour), ""},
		"an older one":                         {honest - 1, honest, at, intake.Replayed},
	} {
		if got := order(c.seq, c.last, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheStatusOfAnAgent(t *testing.T) {
	t.Parallel()
	r := document(3)
	r.At = start.Add(10 * time.Minute)
	r.Unseen = []status.Unseen{{Kind: "Secret", Reason: "forbidden"}}
	got := intake.Describe(r, start)
	if got.Cluster != cluster || got.Agent != "monitor/1" || got.Seq != 3 || got.Ahead != "10m0s" || got.Apps != 1 || len(got.Unseen) != 1 {
		t.Errorf("after a report the status is %+v", got)
	}
	got.Heard(4, start.Add(time.Second), start.Add(2*time.Second))
	if got.Seq != 4 || got.Ahead != "" || !got.Received.Equal(start.Add(2*time.Second)) || !got.Reported.Equal(start.Add(time.Second)) || got.Apps != 1 {
		t.Errorf("after a heartbeat the status is %+v", got)
	}
}
