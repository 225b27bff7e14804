package views

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const stale = 3 * time.Minute

// world is the records of a fleet. It passes their changes to the tally, and counts what views read.
type world struct {
	*testing.T
	now   time.Time
	db    *store.DB
	tally *tally.Tally
	pairs map[appcontext.PairKey]*mirror.Entry
	heads map[appcontext.HeadID]appcontext.Head
	views *Views
	api   http.Handler
	found []appcontext.FoundCommit // recorded commits, in order of their names
	held  []clusterhistory.Entry   // of each deployment the oldest first

	readClusters, readRevisions, readDeployments int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: noon, db: resourcetest.DB(t), pairs: map[appcontext.PairKey]*mirror.Entry{}, heads: map[appcontext.HeadID]appcontext.Head{}}
	clock := func() time.Time { return w.now }
	w.tally = tally.New(stale, clock)
	w.views = New(Parts{
		Capacity: func(context.Context, v2.ClusterKey) (*v2.ClusterCapacity, error) { return nil, nil }, // no cluster reports it
		DB:       w.db, Tally: w.tally, Pairs: w, Deployments: w, Revisions: w, Events: w, Commits: w, History: w,
		Inventory: inventory.New(w.db, logicalcloud.New), Streams: 3, Now: clock,
	})
	w.mount()
	return w
}

// mount serves the views as they are now.
func (w *world) mount() {
	r := web.NewRouter()
	w.views.Mount(r)
	w.api = web.Wrap(slog.New(slog.DiscardHandler), r)
}

// FindCommits implements Commits.
func (w *world) FindCommits(_ context.Context, prefix string) iter.Seq2[appcontext.FoundCommit, error] {
	return func(yield func(appcontext.FoundCommit, error) bool) {
		for _, c := range w.found {
			if strings.HasPrefix(c.Commit, prefix) && !yield(c, nil) {
				return
			}
		}
	}
}

// Cluster implements Pairs.
func (w *world) Cluster(name v2.ClusterKey) (out []mirror.ClusterPair) {
	w.readClusters++
	for k, e := range w.pairs {
		if k.Cluster == name {
			out = append(out, mirror.ClusterPair{UID: k.Deployment, App: k.App, Entry: e})
		}
	}
	return out
}

// PairsOf implements Pairs.
func (w *world) PairsOf(id v2.DeploymentID) (out []appcontext.Pair) {
	for k, e := range w.pairs {
		if k.Deployment == id && e.State != nil {
			out = append(out, e.State.Pair(k, ""))
		}
	}
	return out
}

// WatchAllEvents implements Events.
func (w *world) WatchAllEvents(ctx context.Context) iter.Seq2[appcontext.EventChange, error] {
	return func(func(appcontext.EventChange, error) bool) { <-ctx.Done() }
}

// CatchUp implements Pairs.
func (w *world) CatchUp(context.Context) {}

// Waiting implements Deployments; rsync has taken up all that it asks for.
func (w *world) Waiting(_ context.Context, uid appcontext.HeadID) (*appcontext.Head, int, error) {
	w.readDeployments++
	head, known := w.heads[uid]
	if !known {
		return nil, 0, nil
	}
	return &head, 0, nil
}

// Revision implements Revisions.
func (w *world) Revision(_ context.Context, _ appcontext.HeadID, n int64) (appcontext.Revision, error) {
	w.readRevisions++
	if n == 0 {
		return appcontext.Revision{}, errs.New(errs.NotFound, "none")
	}
	return appcontext.Revision{Number: n, Kind: "update", Author: "ana", Reason: "winter", At: noon, Apps: []appcontext.App{{Name: "web"}}}, nil
}

func (w *world) document(key, body string) string {
	w.Helper()
	doc, err := w.db.Create(w.Context(), store.Write{Key: store.Key(key), Body: []byte(body)})
	if err != nil {
		w.Fatal(err)
	}
	return doc.UID
}

// cluster registers a cluster of the provider "edge".
func (w *world) cluster(name string, labels ...string) {
	w.Helper()
	key := "cluster-providers/edge/clusters/" + name
	w.document(key, `{"metadata":{"name":"`+name+`"},"spec":{"gitOps":{"gitOpsType":"fluxcd","gitOpsShard":"s000"}}}`)
	for _, l := range labels {
		w.document(key+"/labels/"+l, `{}`)
	}
}

func groupPath(name string) string {
	return "projects/shop/composite-apps/till/v1/deployment-intent-groups/" + name
}

// group makes a deployment that desires a revision, and returns its id.
func (w *world) group(name string) appcontext.HeadID {
	w.Helper()
	return w.deployment(groupPath(name))
}

func (w *world) deployment(path string) appcontext.HeadID {
	w.Helper()
	uid := appcontext.HeadID(w.document(path, `{}`))
	h := appcontext.Head{UID: uid, Document: path, State: appcontext.Instantiated, Rev: 2, LastRev: 2}
	w.heads[uid] = h
	w.tally.HeadChanged(uid, &h)
	return uid
}

// put stores the records of a pair.
func (w *world) put(cluster string, head appcontext.HeadID, app string, e *mirror.Entry) {
	k := appcontext.PairKey{Cluster: v2.ClusterKey(cluster), Deployment: head.Deployment(), App: app}
	if e == nil {
		delete(w.pairs, k)
	} else {
		w.pairs[k] = e
	}
	w.tally.PairChanged(k, e)
}

// ready is a pair that its cluster has reported as ready, or not.
func ready(yes bool, at time.Time) *mirror.Entry {
	return &mirror.Entry{
		State:  pairstore.StateOf(appcontext.Pair{Rev: 2, Desired: "d", Applied: "d", Phase: appcontext.Applied, Commit: "abd1efc", At: at}),
		Report: &mirror.Report{At: at, Seq: 1, Ready: yes, Since: at},
	}
}

func failed(why string) *mirror.Entry {
	return &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Rev: 2, Desired: "d", Phase: appcontext.Failed, Error: why})}
}

func (w *world) get(path string) *httptest.ResponseRecorder {
	w.Helper()
	out := httptest.NewRecorder()
	w.api.ServeHTTP(out, httptest.NewRequestWithContext(w.Context(), http.MethodGet, "/v2/views"+path, nil))
	return out
}

func read[T any](w *world, path string) (out T) {
	w.Helper()
	got := w.get(path)
	if got.Code != http.StatusOK {
		w.Fatalf("GET %s: %d %s", path, got.Code, got.Body)
	}
	if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// shop is three clusters and a deployment: a is ready, b fails, c is not used.
func shop(t *testing.T) (*world, appcontext.HeadID) {
	w := newWorld(t)
	w.cluster("a", "store")
	w.cluster("b", "store")
	w.cluster("c")
	uid := w.group("prod")
	w.put("edge+a", uid, "web", ready(true, noon))
	w.put("edge+a", uid, "db", ready(true, noon))
	w.put("edge+b", uid, "web", failed("no space"))
	w.tally.Advanced(7)
	w.views.takeUp(t.Context())
	return w, uid
}

func TestF26ViewsAreRefusedUntilTheyAreWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/fleet", "/clusters", "/deployments", "/clusters/edge/a", "/search?q=a", "/" + groupPath("g") + "/matrix"} {
		if got := w.get(path); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "urn:emco:error:not-yet") {
			t.Errorf("%s before the first read: %d %s", path, got.Code, got.Body)
		}
	}
	w.tally.Advanced(1)
	if got := read[v2.FleetView](w, "/fleet"); len(got.Clusters) != 0 || got.Mark != 1 {
		t.Errorf("an empty fleet: %+v", got)
	}
}

func TestTheFleetIsCounted(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	f := read[v2.FleetView](w, "/fleet")
	if got := fmt.Sprint(f.Clusters, f.Pairs, f.Mark, f.At.Equal(noon)); got != "map[failed:1 idle:1 ready:1] map[failed:1 ready:2] 7 true" {
		t.Errorf("the fleet: %s", got)
	}
	if len(f.Groups) != 1 || f.Groups[0].Key != "edge" || f.Groups[0].Cells != "rfn" || f.Groups[0].Bin != 1 {
		t.Errorf("the groups: %+v", f.Groups)
	}
	f = read[v2.FleetView](w, "/fleet?by=label&state=ready&state=failed")
	if len(f.Groups) != 1 || f.Groups[0].Key != "store" || f.Groups[0].Cells != "rf" {
		t.Errorf("by label: %+v", f.Groups)
	}
	if c := read[v2.ClusterView](w, "/fleet/nth?group=edge&i=1"); c.Cluster != "b" || c.State != "failed" {
		t.Errorf("the second cluster: %+v", c)
	}
	if got := w.get("/fleet/nth?group=edge&i=3"); got.Code != http.StatusNotFound {
		t.Errorf("a cluster that is not there: %d", got.Code)
	}
}

func TestTheFleetIsGroupedByDeploymentAndByApp(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	other := w.group("other")
	w.put("edge+b", other, "web", ready(true, noon))
	w.put("edge+c", other, "web", ready(false, noon))
	w.tally.Advanced(8)
	f := read[v2.FleetView](w, "/fleet?by=deployment")
	if got := fmt.Sprint(f.Clusters, f.Pairs); got != "map[failed:1 notReady:1 ready:1] map[failed:1 notReady:1 ready:3]" {
		t.Errorf("a cluster counts once, as bad as its worst deployment: %s", got)
	}
	groups := map[string]string{}
	for _, g := range f.Groups {
		groups[g.Key] = g.Cells
	}
	if got := fmt.Sprint(groups); got != "map["+groupPath("other")+":rx "+groupPath("prod")+":rf]" {
		t.Errorf("by deployment: %s", got)
	}
	if c := read[v2.ClusterView](w, "/fleet/nth?by=deployment&i=1&group="+groupPath("other")); c.Cluster != "c" {
		t.Errorf("the second cluster of a deployment: %+v", c)
	}
	if f = read[v2.FleetView](w, "/fleet?by=deployment&state=failed"); len(f.Groups) != 1 || f.Groups[0].Cells != "f" {
		t.Errorf("by deployment and state: %+v", f.Groups)
	}
	f = read[v2.FleetView](w, "/fleet?app=db")
	if got := fmt.Sprint(f.Clusters, f.Pairs, " ", f.Groups[0].Cells); got != "map[ready:1] map[ready:1] r" {
		t.Errorf("of an app: %s", got)
	}
	if f = read[v2.FleetView](w, "/fleet?app=web&state=failed"); len(f.Groups) != 1 || f.Groups[0].Cells != "f" || f.Pairs["failed"] != 1 || f.Pairs["ready"] != 1 {
		t.Errorf("of an app, where it failed: %+v", f)
	}
	if f = read[v2.FleetView](w, "/fleet?by=deployment&app=db"); len(f.Groups) != 1 || f.Groups[0].Key != groupPath("prod") {
		t.Errorf("by deployment, of an app: %+v", f.Groups)
	}
}

func TestTheFleetTellsOfAnHourAgo(t *testing.T) {
	t.Parallel()
	w, uid := shop(t)
	w.views.remember(t.Context())
	w.put("edge+b", uid, "web", ready(true, noon))
	for range 59 {
		w.now = w.now.Add(time.Minute)
		w.tally.AgentHeard("edge+a", w.now)
		w.tally.AgentHeard("edge+b", w.now)
		w.views.remember(t.Context())
	}
	if f := read[v2.FleetView](w, "/fleet"); f.HourAgo != nil || f.Clusters["ready"] != 2 {
		t.Errorf("before an hour is over: %+v", f)
	}
	w.now = w.now.Add(time.Minute)
	if f := read[v2.FleetView](w, "/fleet?by=label"); fmt.Sprint(f.HourAgo) != "map[failed:1 idle:1 ready:1]" {
		t.Errorf("after an hour: %+v", f.HourAgo)
	}
	if f := read[v2.FleetView](w, "/fleet?provider=edge"); f.HourAgo != nil {
		t.Errorf("the counts of all clusters beside those of some: %+v", f.HourAgo)
	}
	w.now = w.now.Add(time.Hour + 5*time.Minute)
	if f := read[v2.FleetView](w, "/fleet"); f.HourAgo != nil {
		t.Errorf("an hour in which nothing was counted: %+v", f.HourAgo)
	}
}

func TestClustersAreListedWorstFirst(t *testing.T) {
	t.Parallel()
	w, uid := shop(t)
	page := read[v2.ClusterViews](w, "/clusters?limit=2")
	if page.Total != 3 || page.Continue == "" || len(page.Items) != 2 {
		t.Fatalf("the first page: %+v", page)
	}
	b, a := page.Items[0], page.Items[1]
	if b.Cluster != "b" || b.State != "failed" || b.Why != "web: no space" || b.Type != "fluxcd" || b.Branch != "s000" || fmt.Sprint(b.Labels) != "[store]" {
		t.Errorf("the worst: %+v", b)
	}
	if a.Cluster != "a" || a.State != "ready" || a.Why != "" || !a.LastHeard.Equal(noon) || fmt.Sprint(a.Counts) != "map[ready:2]" {
		t.Errorf("the second: %+v", a)
	}
	next := read[v2.ClusterViews](w, "/clusters?limit=2&continue="+page.Continue)
	if len(next.Items) != 1 || next.Items[0].Cluster != "c" || next.Items[0].State != "idle" || next.Continue != "" {
		t.Errorf("the last page: %+v", next)
	}
	w.now = noon.Add(stale + time.Second)
	w.tally.Age()
	page = read[v2.ClusterViews](w, "/clusters?state=unknown&sort=lastHeard")
	if len(page.Items) != 1 || page.Items[0].Cluster != "a" || !page.Items[0].SilentSince.Equal(noon) || page.Items[0].Why != "db: no report since 2026-11-21T12:00:00Z; was ready" {
		t.Errorf("the silent: %+v", page.Items)
	}
	w.tally.AgentHeard("edge+a", w.now)
	if got := read[v2.ClusterViews](w, "/clusters?q=A&state=ready"); got.Total != 1 {
		t.Errorf("after a sign of life: %+v", got)
	}
	d := read[v2.ClusterDetail](w, "/clusters/edge/b")
	if len(d.Places) != 1 || d.Places[0].Project != "shop" || d.Places[0].Group != "prod" || d.Places[0].State != "failed" || d.State != "failed" {
		t.Errorf("one cluster: %+v", d)
	}
	if got := w.get("/clusters/edge/none"); got.Code != http.StatusNotFound {
		t.Errorf("a cluster that is not registered: %d", got.Code)
	}
	w.put("edge+b", uid, "web", nil)
	if got := read[v2.ClusterViews](w, "/clusters?state=idle"); got.Total != 2 {
		t.Errorf("after the pair is gone: %+v", got)
	}
}

func TestClustersAreChosenByLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster("a", "store", "gpu")
	w.cluster("b", "store")
	w.cluster("c", "depot", "gpu")
	w.tally.Advanced(7)
	w.views.takeUp(t.Context())
	for query, want := range map[string]string{
		"label=store":                 "a b",
		"label=store,gpu":             "a",
		"label=store,depot":           "",
		"label=store&label=depot":     "a b c",
		"label=store,gpu&label=depot": "a c",
	} {
		var got []string
		for _, c := range read[v2.ClusterViews](w, "/clusters?sort=name&"+query).Items {
			got = append(got, c.Cluster)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: clusters %v, want %q", query, got, want)
		}
		if n := read[v2.FleetView](w, "/fleet?"+query).Clusters["idle"]; n != len(strings.Fields(want)) {
			t.Errorf("%s: a fleet of %d clusters, want %q", query, n, want)
		}
	}
}

func TestDeploymentsAreListedWorstFirst(t *testing.T) {
	t.Parallel()
	w, uid := shop(t)
	w.document(groupPath("new"), `{}`)
	page := read[v2.DeploymentViews](w, "/deployments")
	if page.Total != 2 || page.Items[0].Path != groupPath("prod") {
		t.Fatalf("got %+v", page)
	}
	d := page.Items[0]
	if d.State != "failed" || d.Deployed != "InstantiateFailed" || d.Revision != 2 || d.Author != "ana" || d.Reason != "winter" || d.Clusters != 2 || fmt.Sprint(d.Counts) != "map[failed:1 ready:2]" {
		t.Errorf("got %+v", d)
	}
	if n := page.Items[1]; n.State != "idle" || n.Lifecycle != "Created" || n.Deployed != "" {
		t.Errorf("a group without a deployment: %+v", n)
	}
	// A new revision is not deployed while the pairs are those of the old one.
	h := w.heads[uid]
	h.Rev = 3
	w.heads[uid] = h
	w.tally.HeadChanged(uid, &h)
	w.put("edge+b", uid, "web", ready(true, noon))
	if d := read[v2.DeploymentViews](w, "/deployments?q=PROD").Items[0]; d.Deployed != "Instantiating" || d.State != "progressing" {
		t.Errorf("before rsync has taken it up: %+v", d)
	}
	w.views.takeUp(t.Context())
	if d := read[v2.DeploymentViews](w, "/deployments?state=ready&project=shop").Items[0]; d.Deployed != "Instantiated" {
		t.Errorf("after rsync has taken it up: %+v", d)
	}
	if got := read[v2.DeploymentViews](w, "/deployments?project=other"); got.Total != 0 {
		t.Errorf("another project: %+v", got)
	}
}

// The conditions show how far a deployment is, and what it waits for.
func TestDeploymentsHaveConditions(t *testing.T) {
	t.Parallel()
	w, uid := shop(t)
	of := func() string {
		var out []string
		d := read[v2.DeploymentViews](w, "/deployments?q=prod").Items[0]
		for _, c := range d.Conditions {
			text := c.Type + "=" + c.Status
			if c.Reason != "" {
				text += " (" + c.Reason + ")"
			}
			out = append(out, text)
		}
		return strings.TrimSpace(strings.Join(out, ", ") + " why: " + d.Why)
	}
	change := func(change func(*appcontext.Head)) {
		h := w.heads[uid]
		change(&h)
		w.heads[uid] = h
		w.tally.HeadChanged(uid, &h)
	}
	for _, step := range []struct {
		what, want string
		do         func()
	}{
		{"one has failed", "Placed=True, Rendered=True, Delivered=False (1 failed), Healthy=False (1 of 3 not ready), Stalled=True (1 failed) why: 1 failed", func() {}},
		{"all is well", "Placed=True, Rendered=True, Delivered=True, Healthy=True, Stalled=False why:", func() { w.put("edge+b", uid, "web", ready(true, noon)) }},
		{"a cluster has not reported", "Placed=True, Rendered=True, Delivered=True, Healthy=Unknown (1 of 3 without a report), Stalled=False why: 1 of 3 without a report", func() {
			e := ready(true, noon)
			e.Report = nil
			w.put("edge+b", uid, "web", e)
		}},
		{"a new revision", "Placed=True, Rendered=True, Delivered=False (the revision is being taken up), Healthy=Unknown (1 of 3 without a report), Stalled=False why: the revision is being taken up", func() { change(func(h *appcontext.Head) { h.Rev = 3 }) }},
		{"an action that failed", "Placed=True, Rendered=True, Delivered=True, Healthy=Unknown (1 of 3 without a report), Stalled=True (no cluster) why: no cluster", func() {
			w.views.takeUp(t.Context())
			change(func(h *appcontext.Head) { h.Failure = "no cluster" })
		}},
		{"nothing is desired", "why:", func() { change(func(h *appcontext.Head) { h.Failure, h.Gone = "", true }) }},
	} {
		step.do()
		if got := of(); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.what, got, step.want)
		}
	}
}

// An app that does not exist is refused: an empty answer would mean that it runs nowhere.
func TestUnknownAppsAreNamed(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	w.views.Planner = planner{}
	w.document("projects/shop/composite-apps/till/v1/apps/stocks", `{}`)
	w.document("projects/shop/composite-apps/other/v1/apps/parking", `{}`)
	w.views.log.apply(appcontext.EventChange{UpTo: 1})
	group := "/" + groupPath("prod")
	for path, want := range map[string]string{
		"/fleet?app=stoks":                                `no app "stoks"; did you mean stocks?`,
		"/fleet?app=web":                                  "",
		"/fleet?app=parking":                              "",
		"/fleet/nth?app=moon&group=edge&i=0":              `no app "moon"; there are parking, stocks`,
		"/events?app=stoks":                               `no app "stoks"; did you mean stocks?`,
		"/events?app=stocks":                              "",
		group + "/matrix?app=wbe":                         `no app "wbe" in shop/till/v1/prod; did you mean web?`,
		group + "/matrix?app=db&app=parking":              `no app "parking" in shop/till/v1/prod; there are db, stocks, web`,
		group + "/matrix?app=stocks":                      "",
		group + "/matrix?app=" + strings.Repeat("x", 100): `no app "` + strings.Repeat("x", 64) + `"… in shop/till/v1/prod`,
		group + "/placement?app=stoks":                    `no app "stoks" in shop/till/v1/prod; did you mean stocks?`,
		group + "/placement?app=stocks":                   "",
	} {
		status := http.StatusOK
		if want != "" {
			status = http.StatusBadRequest
		}
		if got := w.get(path); got.Code != status || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, got.Code, got.Body, want)
		}
	}
}

func TestAMatrixShowsAppsByCluster(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	m := read[v2.MatrixView](w, "/"+groupPath("prod")+"/matrix")
	if fmt.Sprint(m.Apps) != "[db web]" || m.Total != 2 || m.Revision != 2 || fmt.Sprint(m.Counts) != "map[failed:1 ready:2]" {
		t.Fatalf("got %+v", m)
	}
	if b := m.Items[0]; b.Cluster != "b" || b.Cells != "-f" || fmt.Sprint(b.Revision) != "[0 2]" || b.Why != "web: no space" {
		t.Errorf("the worst: %+v", b)
	}
	if a := m.Items[1]; a.Cells != "rr" || a.Commit != "abd1efc" {
		t.Errorf("the best: %+v", a)
	}
	if m := read[v2.MatrixView](w, "/"+groupPath("prod")+"/matrix?app=db"); fmt.Sprint(m.Apps) != "[db]" || m.Total != 1 || m.AllApps != 2 {
		t.Errorf("one app: %+v", m)
	}
	if got := w.get("/" + groupPath("none") + "/matrix"); got.Code != http.StatusNotFound {
		t.Errorf("a group that is not there: %d", got.Code)
	}
}

func TestSearchFindsNames(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	w.document("projects/shop/composite-apps/till/v1/apps/stocks", `{}`)
	var got []string
	for _, h := range read[v2.SearchView](w, "/search?q=sto").Hits {
		got = append(got, h.Kind+" "+h.Title)
	}
	if fmt.Sprint(got) != "[label store app stocks]" {
		t.Errorf("got %v", got)
	}
	if hits := read[v2.SearchView](w, "/search?q=edge").Hits; len(hits) != 3 || hits[1].Sub != "failed" || hits[1].Href != "/v2/views/clusters/edge/b" {
		t.Errorf("clusters: %+v", hits)
	}
}

// A folder in Git has the number of a deployment, which a migration passes on.
func TestSearchFindsDeploymentsByTheirFolders(t *testing.T) {
	t.Parallel()
	w, prod := shop(t)
	cloud := w.deployment("projects/shop/logical-clouds/stores")
	next := w.group("next")
	move := func(uid appcontext.HeadID, how func(*appcontext.Head)) {
		h := w.heads[uid]
		how(&h)
		w.tally.HeadChanged(uid, &h)
	}
	hits := func(q string) (out []string) {
		for _, h := range read[v2.SearchView](w, "/search?q="+url.QueryEscape(q)).Hits {
			out = append(out, h.Kind+" "+h.Title+": "+h.Sub+" "+h.Href)
		}
		return out
	}
	check := func(q string, want ...string) {
		t.Helper()
		if got := hits(q); !slices.Equal(got, want) {
			t.Errorf("%s finds %q, want %q", q, got, want)
		}
	}
	number := string(prod)
	ofProd := "deployment till v1 / prod: context/" + number + " /v2/views/" + groupPath("prod") + "/matrix"
	ofCloud := "document projects/shop/logical-clouds/stores: context/" + string(cloud) + " /v2/projects/shop/logical-clouds/stores"
	check(number, ofProd)
	check("clusters/edge+a/context/"+number+"/app/web/web+Deployment.yaml", ofProd)
	check("context/"+string(cloud), ofCloud)
	check("context/" + number + "0")
	move(prod, func(h *appcontext.Head) { h.MovedTo = next })
	move(next, func(h *appcontext.Head) { h.Inherited = prod.Deployment() })
	check(number, "deployment till v1 / next: context/"+number+" /v2/views/"+groupPath("next")+"/matrix")
	w.as(nil, bound(authz.Viewer, "projects/other"))
	check(number)
}

func TestQueriesOfViewsAreChecked(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	for path, text := range map[string]string{
		"/clusters?lable=x":             "did you mean label?",
		"/clusters?label=a,+b":          `Invalid query label: " b" is not the name of a label`,
		"/fleet?label=a,":               "label=a,b",
		"/clusters?limit=201":           "1 to 200",
		"/clusters?limit=0":             "1 to 200",
		"/clusters?sort=worst":          "-worst, name, lastHeard",
		"/clusters?state=bad":           "failed, notReady",
		"/clusters?continue=%21":        "Invalid query continue",
		"/deployments?continue=bmFtZQA": "Invalid query continue",
		"/fleet?by=moon":                "Invalid query by",
		"/search":                       "Invalid query q",
		"/clusters/edge/a?x=1":          `no parameter "x"`,
	} {
		if got := w.get(path); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), text) {
			t.Errorf("%s: %d %s, want %q", path, got.Code, got.Body, text)
		}
	}
}

func TestAViewThatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w, uid := shop(t)
	tag := w.get("/clusters").Header().Get("ETag")
	again := func() int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/views/clusters", nil)
		r.Header.Set("If-None-Match", tag)
		out := httptest.NewRecorder()
		w.api.ServeHTTP(out, r)
		return out.Code
	}
	w.now = w.now.Add(time.Second)
	if got := again(); tag == "" || got != http.StatusNotModified {
		t.Errorf("unchanged: %d for %q", got, tag)
	}
	w.put("edge+b", uid, "web", ready(true, noon))
	if got := again(); got != http.StatusOK {
		t.Errorf("changed: %d", got)
	}
}

// What a page costs depends on its rows and not on the pairs of the fleet.
func TestAPageReadsItsRowsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const clusters = 300
	for i := range clusters {
		w.cluster(fmt.Sprintf("c%03d", i))
	}
	for _, apps := range []int{1, 10} {
		uid := w.group(fmt.Sprint("g", apps))
		for i := range clusters {
			for a := range apps {
				w.put(fmt.Sprintf("edge+c%03d", i), uid, fmt.Sprint("app", a), ready(i%7 > 0, noon))
			}
		}
		w.tally.Advanced(int64(apps))
		w.views.takeUp(t.Context())
		for path, want := range map[string]int{
			"/fleet": 0, "/deployments": 0, "/search?q=c": 0, "/clusters?limit=20": 20, "/clusters/edge/c001": 1,
			"/" + groupPath(fmt.Sprint("g", apps)) + "/matrix?limit=30": 30,
		} {
			w.readClusters, w.readDeployments = 0, 0
			read[struct{}](w, path)
			if w.readClusters != want || w.readDeployments != 0 {
				t.Errorf("%s with %d apps reads %d clusters and %d deployments, want %d and 0", path, apps, w.readClusters, w.readDeployments, want)
			}
		}
	}
	read[struct{}](w, "/deployments")
	if w.readRevisions != 2 {
		t.Errorf("%d revisions were read for 2 deployments: revisions never change", w.readRevisions)
	}
	if w.readDeployments = 0; true {
		w.views.takeUp(t.Context())
	}
	if w.readDeployments != 0 {
		t.Errorf("%d deployments were compared again, though nothing has changed", w.readDeployments)
	}
}

// planner is a Planner with fixed verdicts.
type planner []v2.PlacementView

func (p planner) Placement(context.Context, store.Doc) ([]v2.PlacementView, error) { return p, nil }

func TestPlacementsAreFiltered(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	w.views.Planner = planner{
		{App: "web", Cluster: "edge+b", Verdict: "out", Reason: "not a member of logical cloud stores"},
		{App: "web", Cluster: "edge+a", Verdict: "in", Reason: "allOf: label store"},
		{App: "db", Cluster: "edge+a", Verdict: "in", Reason: "allOf: by name"},
		{App: "bad", Verdict: "out", Reason: "Missing clusterProvider in an intent"},
	}
	at := "/" + groupPath("prod") + "/placement"
	all := read[v2.PlacementViews](w, at)
	if all.In != 2 || all.Out != 2 || all.Total != 4 || all.Items[0].App != "bad" || all.Items[1].App != "db" || all.Items[3].Reason != "not a member of logical cloud stores" {
		t.Errorf("all: %+v", all)
	}
	if out := read[v2.PlacementViews](w, at+"?app=web&verdict=out"); out.Total != 1 || out.In != 1 || out.Items[0].Cluster != "edge+b" {
		t.Errorf("left out: %+v", out)
	}
	for query, want := range map[string]int{"?verdict=maybe": 400, "?state=ready": 400} {
		if got := w.get(at + query); got.Code != want {
			t.Errorf("%s: %d", query, got.Code)
		}
	}
	if got := w.get("/" + groupPath("none") + "/placement"); got.Code != http.StatusNotFound {
		t.Errorf("a group that is not there: %d", got.Code)
	}
}
