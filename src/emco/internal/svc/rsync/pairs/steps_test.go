package pairs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// testStore is a Store over a real AppContext, with its own clock, and a sink that delivers
// whatever is due.
type testStore struct {
	*testing.T
	*pairs.Store
	plans *content.StepPlans
	r     *recorder
	clock time.Time
	pulls bool
}

func newTestStore(t *testing.T) *testStore {
	t.Helper()
	r := &recorder{Store: contexttest.New(t)}
	f := &testStore{pulls: true, T: t, plans: content.NewStepPlans(content.NewReader(r.Store)), r: r, clock: noon}
	f.restart()
	return f
}

// restart starts a new term.
func (f *testStore) restart() {
	f.Helper()
	next := pairs.New(config(f.T, f.r, func() time.Time { return f.clock }))
	if err := next.Load(f.Context(), contents(f.T, f.r.Store, next.Shard())); err != nil {
		f.Fatal(err)
	}
	f.Store = next
}

// bundle stores a bundle of ConfigMaps, and of Jobs that are hooks, "name events".
func (f *testStore) bundle(objects []string, hooks ...string) appcontext.Digest {
	f.Helper()
	var b appcontext.Bundle
	for _, o := range objects {
		name, stamp, _ := strings.Cut(o, "@")
		b.Objects = append(b.Objects, appcontext.Ref{ID: configMap(name), Digest: appcontext.Digest("of " + o), Stamp: stamp})
	}
	for _, h := range hooks {
		name, events, _ := strings.Cut(h, " ")
		ref := job
		ref.Name = name
		b.Hooks = append(b.Hooks, appcontext.HookRef{Ref: ref, Events: strings.Fields(events)})
	}
	d, err := f.r.PutBundle(f.Context(), b)
	if err != nil {
		f.Fatal(err)
	}
	return d
}

func configMap(name string) manifest.ID {
	return manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
}

// want sets what is desired for apps, "app cluster" to bundle.
func (f *testStore) want(rev int64, apps []appcontext.App, at map[string]appcontext.Digest) []pair.Target {
	f.Helper()
	w := pair.Desired{Deployment: "7", Head: "7", Rev: rev, Apps: apps, Removed: at == nil, Places: map[v2.ClusterKey]map[string]appcontext.Digest{}}
	for where, bundle := range at {
		app, cluster, _ := strings.Cut(where, " ")
		if w.Places[v2.ClusterKey(cluster)] == nil {
			w.Places[v2.ClusterKey(cluster)] = map[string]appcontext.Digest{}
		}
		w.Places[v2.ClusterKey(cluster)][app] = bundle
	}
	return setDesired(f.T, f.Store, w)
}

// deliver delivers all that is due, once, and returns what it delivered: "app cluster step".
func (f *testStore) deliver() (done []string) {
	f.Helper()
	if err := f.SkipSteps(f.Context(), f.All(), f.pulls); err != nil {
		f.Fatal(err)
	}
	var out []pair.Result
	for _, t := range f.All() {
		for _, p := range pair.AllDeliverable(f.Of(t)) {
			step, last, err := f.plans.At(f.Context(), p, f.pulls)
			if err != nil {
				f.Fatal(err)
			}
			o := pair.ResultOf(p, step, last)
			o.Commit = "c0ffee"
			out = append(out, o)
			done = append(done, fmt.Sprint(p.Key.App, " ", p.Key.Cluster, " ", step))
		}
	}
	if err := f.Record(f.Context(), out); err != nil {
		f.Fatal(err)
	}
	return done
}

// says reports objects of an app, "name status content".
func (f *testStore) says(app string, cluster v2.ClusterKey, objects ...string) []pair.Target {
	f.Helper()
	r := appcontext.Report{Key: appcontext.PairKey{Cluster: cluster, Deployment: "7", App: app}, Seq: 1}
	for _, o := range objects {
		part := append(strings.Fields(o), "", "")
		id := configMap(part[0])
		if strings.HasPrefix(part[0], "job-") {
			id = job.ID
			id.Name = part[0]
		}
		r.Resources = append(r.Resources, appcontext.ResourceStatus{ID: id, Status: part[1], Content: part[2]})
	}
	due, err := f.Report(f.Context(), []appcontext.Report{r})
	if err != nil {
		f.Fatal(err)
	}
	return due
}

func (f *testStore) pairOf(app string, cluster v2.ClusterKey) appcontext.Pair {
	f.Helper()
	for _, p := range f.Of(pair.Target{Cluster: cluster, Deployment: "7"}) {
		if p.Key.App == app {
			return p
		}
	}
	return appcontext.Pair{}
}

// stored reads a report back.
func (f *testStore) stored(app string, cluster v2.ClusterKey) appcontext.Report {
	f.Helper()
	reports, err := f.r.ReportsAt(f.Context(), []appcontext.PairKey{{Cluster: cluster, Deployment: "7", App: app}})
	if err != nil || len(reports) != 1 {
		f.Fatalf("%d reports, %v", len(reports), err)
	}
	return reports[0]
}

func (f *testStore) wantDone(what string, want ...string) {
	f.Helper()
	if got := f.deliver(); !slices.Equal(got, want) {
		f.Errorf("%s: delivered %q, want %q", what, got, want)
	}
}

// A pair without hooks and definitions is written twice: when it is desired, and when it is
// Applied.
func TestAPlainPairIsWrittenTwice(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	f.want(1, nil, map[string]appcontext.Digest{"web c1": f.bundle([]string{"a@1"}), "web c2": f.bundle([]string{"a@1"})})
	f.wantDone("the installation", "web c1 the app's objects", "web c2 the app's objects")
	f.want(2, nil, map[string]appcontext.Digest{"web c1": f.bundle([]string{"a@2"}), "web c2": f.bundle([]string{"a@1"})})
	f.wantDone("the update", "web c1 the app's objects")
	if got := f.r.wrote(); got != "pairs +2 -0, pairs +2 -0, pairs +1 -0, pairs +1 -0" {
		t.Errorf("wrote %s", got)
	}
	if p := f.pairOf("web", "c1"); p.Change != "" || p.From != "" || p.Step != 0 || p.Sent {
		t.Errorf("an Applied pair has a change: %+v", p)
	}
}

func TestReadyMeansTheDesiredContent(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	one, two := f.bundle([]string{"a@1"}), f.bundle([]string{"a@2"})
	check := func(what string, ready bool, since time.Time) {
		t.Helper()
		if r := f.stored("web", "c1"); r.Ready != ready || !r.Since.Equal(since) {
			t.Errorf("%s: ready %v since %v, want %v since %v", what, r.Ready, r.Since, ready, since)
		}
	}
	f.want(1, nil, map[string]appcontext.Digest{"web c1": one})
	f.says("web", "c1", "a Current 1")
	check("before it is settled", false, noon)
	f.clock = noon.Add(time.Minute)
	f.deliver()
	check("the report was there first", true, f.clock)
	since := f.clock
	f.clock = noon.Add(2 * time.Minute)
	f.says("web", "c1", "a Current 1")
	check("the same again", true, since)

	f.restart()
	f.want(2, nil, map[string]appcontext.Digest{"web c1": two})
	f.deliver()
	check("an update is not ready because the last version was", false, f.clock)
	f.clock = noon.Add(3 * time.Minute)
	f.says("web", "c1", "a Current 2")
	check("then it is", true, f.clock)
	f.restart()
	f.clock = noon.Add(4 * time.Minute)
	f.says("web", "c1", "a Current 2")
	check("a restart forgets nothing", true, noon.Add(3*time.Minute))
	f.says("web", "c1", "a Unknown 2")
	check("a cluster that is silent", false, f.clock)
}

// The main step is delivered even if a report shows all its objects: the report does not
// show what else the delivery changes, for example what it removes.
func TestTheMainStepIsAlwaysDelivered(t *testing.T) {
	t.Parallel()
	for _, pulls := range []bool{false, true} {
		f := newTestStore(t)
		f.pulls = pulls
		f.want(1, nil, map[string]appcontext.Digest{"web c1": f.bundle([]string{"a@1"}, "job-y post-install")})
		f.says("web", "c1", "a Current 1")
		f.wantDone("the objects are there", "web c1 the app's objects")
		f.says("web", "c1", "a Current 1")
		f.wantDone("then the hook", "web c1 post-install hook Job job-y")
	}
}

func TestReportsAdvanceSteps(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	b := f.bundle([]string{"a@1"}, "job-x pre-install", "job-y post-install")
	f.want(1, nil, map[string]appcontext.Digest{"web c1": b})
	f.wantDone("nothing was there before", "web c1 pre-install hook Job job-x")
	f.wantDone("it waits")
	if p := f.pairOf("web", "c1"); p.Blocked != "waits for pre-install hook Job job-x: not reported yet; the cluster has never reported; if it pulls from Git, install the monitor there" || p.Step != 1 {
		t.Errorf("at step %d, blocked %q", p.Step, p.Blocked)
	}
	if due := f.says("web", "c1", "job-x InProgress 1"); len(due) > 0 {
		t.Errorf("due %v while the hook runs", due)
	}
	f.restart()
	f.want(1, nil, map[string]appcontext.Digest{"web c1": b})
	f.wantDone("a restart repeats nothing")
	if due := f.says("web", "c1", "job-x Current 1"); fmt.Sprint(due) != "[{c1 7}]" {
		t.Errorf("due %v when the hook has succeeded", due)
	}
	f.wantDone("the app", "web c1 the app's objects")
	if p := f.pairOf("web", "c1"); p.Applied != b || p.Phase != appcontext.Pending || p.Commit != "c0ffee" {
		t.Errorf("after the main step: %+v", p)
	}
	f.says("web", "c1", "a Current 1")
	f.wantDone("the last hook", "web c1 post-install hook Job job-y")
	f.says("web", "c1", "a Current 1", "job-y Current 1")
	f.wantDone("tidied up", "web c1 hooks that have run")
	if p := f.pairOf("web", "c1"); p.Phase != appcontext.Applied || !f.stored("web", "c1").Ready {
		t.Errorf("at last: %+v", p)
	}
	wantAgreement(t, f.Store, f.r)
}

// The process died after it wrote a report, before it acted on it.
func TestAReportOfTheLastTermIsActedOn(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	b := f.bundle([]string{"a@1"}, "job-x pre-install")
	f.want(1, nil, map[string]appcontext.Digest{"web c1": b})
	f.deliver()
	r := appcontext.Report{Key: appcontext.PairKey{Cluster: "c1", Deployment: "7", App: "web"}, Seq: 1, Resources: []appcontext.ResourceStatus{{ID: job.ID, Status: "Current", Content: "1"}}}
	r.Resources[0].Name = "job-x"
	if err := f.r.PutReports(t.Context(), f.Fence(), []appcontext.Report{r}, nil); err != nil {
		t.Fatal(err)
	}
	f.restart()
	if err := f.RecheckReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantDone("it goes on", "web c1 the app's objects")
}

func TestDirectClustersNeedNoStepForDefinitions(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	f.pulls = false
	b, err := f.r.PutBundle(t.Context(), appcontext.Bundle{Objects: []appcontext.Ref{
		{ID: manifest.ID{Version: "v1", Kind: "Namespace", Name: "shop"}, Digest: "n"}, {ID: configMap("a"), Digest: "a"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.want(1, nil, map[string]appcontext.Digest{"web c1": b})
	f.wantDone("all at once", "web c1 the app's objects")
	if p := f.pairOf("web", "c1"); p.Phase != appcontext.Applied || len(p.Findings) > 0 {
		t.Errorf("got %+v", p)
	}
}

// openGates checks the gates that are due, and returns the targets that may start.
func (f *testStore) openGates() string {
	f.Helper()
	due, _ := f.DueGates()
	var out []pair.Target
	for _, deployment := range due {
		targets, err := f.Store.OpenGates(f.Context(), deployment)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, targets...)
	}
	return fmt.Sprint(out)
}

// What a pair waits for may be five seconds old, not more: the next check is due when the last
// description is that old, whenever it was found outdated.
func TestAWaitingPairIsDescribedEveryFiveSeconds(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	b := f.bundle([]string{"a@1"})
	order := []appcontext.App{{Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}}, {Name: "db"}}
	f.want(1, order, map[string]appcontext.Digest{"web c1": b, "db c1": b, "db c2": b, "db c3": b})
	f.deliver()
	f.openGates()
	before := f.pairOf("web", "c1").Blocked

	f.clock = noon.Add(4 * time.Second)
	f.says("db", "c1", "a Current 1")
	f.openGates()
	if got := f.pairOf("web", "c1").Blocked; got != before {
		t.Errorf("described again after four seconds: %q", got)
	}
	if _, next := f.DueGates(); !next.Equal(noon.Add(5 * time.Second)) {
		t.Errorf("the next check is at %v, want five seconds after the description of %v", next, noon)
	}
	f.clock = noon.Add(5 * time.Second)
	f.openGates()
	if got := f.pairOf("web", "c1").Blocked; got == before {
		t.Errorf("after five seconds it still reads %q", got)
	}
}

func TestAnOpenGateStaysOpen(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	one, two := f.bundle([]string{"a@1"}), f.bundle([]string{"a@2"})
	order := []appcontext.App{{Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true, Delay: 30}}}, {Name: "db"}}
	f.want(1, order, map[string]appcontext.Digest{"web c1": one, "db c1": one, "db c2": one})
	f.wantDone("the one that the other waits for", "db c1 the app's objects", "db c2 the app's objects")
	if got := f.openGates(); got != "[]" {
		t.Errorf("due %s before anything was reported", got)
	}
	f.says("db", "c1", "a Current 1")
	f.restart() // what was reported is stored
	f.want(1, order, map[string]appcontext.Digest{"web c1": one, "db c1": one, "db c2": one})
	f.says("db", "c2", "a Current 1")
	if got, p := f.openGates(), f.pairOf("web", "c1"); got != "[]" || p.Blocked != "waits until 12:00:30, 30 seconds after app db was ready" {
		t.Errorf("due %s, blocked %q", got, p.Blocked)
	}
	if _, next := f.DueGates(); !next.Equal(noon.Add(30 * time.Second)) {
		t.Errorf("looks again at %v", next)
	}
	f.clock = noon.Add(time.Minute)
	if got := f.openGates(); got != "[{c1 7}]" {
		t.Errorf("due %s after the time", got)
	}
	f.says("db", "c2", "a Failed 1") // who was let in is not called back
	f.want(1, order, map[string]appcontext.Digest{"web c1": one, "db c1": one, "db c2": one})
	f.wantDone("then the other", "web c1 the app's objects")

	f.want(2, order, map[string]appcontext.Digest{"web c1": two, "db c1": one, "db c2": one})
	f.wantDone("but the next change waits again")
	f.want(3, nil, map[string]appcontext.Digest{"web c1": two, "db c1": one, "db c2": one})
	f.wantDone("unless there is no order any more", "web c1 the app's objects")
	wantAgreement(t, f.Store, f.r)
}

func TestStoppedPairsStay(t *testing.T) {
	t.Parallel()
	f := newTestStore(t)
	b := f.bundle([]string{"a@1"}, "job-x pre-install")
	places := map[string]appcontext.Digest{"web c1": b, "db c1": f.bundle([]string{"a@1"})}
	f.want(1, nil, places)
	f.says("web", "c1", "other Current")
	f.wantDone("before the stop", "db c1 the app's objects", "web c1 pre-install hook Job job-x")
	f.want(2, nil, map[string]appcontext.Digest{"web c1": b, "db c1": f.bundle([]string{"a@2"})})
	if err := f.Stop(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	f.wantDone("nothing")
	f.says("web", "c1", "job-x Current 1")
	f.wantDone("nothing, whatever is reported")
	if db, web := f.pairOf("db", "c1"), f.pairOf("web", "c1"); db.Blocked != pair.Stopped || web.Blocked != pair.Stopped || web.Applied != "" {
		t.Errorf("db is blocked %q, web %q", db.Blocked, web.Blocked)
	}
	err := f.Record(t.Context(), []pair.Result{{Key: f.pairOf("db", "c1").Key, Bundle: f.pairOf("db", "c1").Desired, Commit: "late"}})
	if db := f.pairOf("db", "c1"); err != nil || db.Phase != appcontext.Applied || db.Blocked != "" {
		t.Errorf("proof that came late: %v, %+v", err, db)
	}
	f.want(2, nil, map[string]appcontext.Digest{"web c1": b, "db c1": f.bundle([]string{"a@2"})})
	f.wantDone("it goes on", "web c1 hooks of an earlier run")
	wantAgreement(t, f.Store, f.r)
}
