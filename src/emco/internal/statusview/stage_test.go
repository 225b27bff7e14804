package statusview

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

// noon is now in all tests, and morning is when everything began.
var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	morning = noon.Add(-4 * time.Hour)
)

// viewFixture is a store with a mirror that runs and a reader on both.
type viewFixture struct {
	testing.TB
	store  *appcontext.Store
	reader *Reader

	mu  sync.Mutex
	now time.Time
	ops map[string]int // requests to etcd, by kind
}

func newStage(t testing.TB) *viewFixture {
	t.Helper()
	s := &viewFixture{TB: t, now: noon, ops: map[string]int{}}
	s.store = appcontext.New(etcd, "/"+t.Name()+"-"+rand.Text(), appcontext.WithOnOp(func(kind string, _ int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ops[kind]++
	}))
	m := mirror.New(s.store, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	begun := m.Subscribe(mirror.Topics{Heads: []appcontext.HeadID{"any"}})
	defer begun.Close()
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	o := Default()
	o.Now, o.Interval = s.clock, time.Millisecond
	s.reader = New(s.store, m, o)
	<-begun.Changed() // the reader holds the current state
	return s
}

func (s *viewFixture) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *viewFixture) at(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = t
}

// requests returns how many requests to etcd do costs, by kind, but for the watch.
func (s *viewFixture) requests(do func()) map[string]int {
	count := func() map[string]int {
		s.mu.Lock()
		defer s.mu.Unlock()
		out := maps.Clone(s.ops)
		delete(out, "watch")
		return out
	}
	before := count()
	do()
	after := count()
	for kind, n := range before {
		if after[kind] -= n; after[kind] == 0 {
			delete(after, kind)
		}
	}
	return after
}

func (s *viewFixture) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// object parses one object and stamps it, as a rendered one is.
func (s *viewFixture) object(text string) manifest.Object {
	s.Helper()
	objects, err := manifest.Parse("test.yaml", []byte(text))
	s.must(err)
	objects, err = manifest.Complete(objects, manifest.Defaults{Namespace: "default", Stamp: true})
	s.must(err)
	if objects[0].Stamp() == "" {
		s.Fatal("the object has no stamp")
	}
	return objects[0]
}

// configMap is a ConfigMap with one value.
func (s *viewFixture) configMap(name, says string) manifest.Object {
	s.Helper()
	return s.object("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {says: " + says + "}}")
}

// bundle stores objects.
func (s *viewFixture) bundle(objects ...manifest.Object) appcontext.Digest {
	s.Helper()
	b, contents := appcontext.Bundle{}, map[appcontext.Digest][]byte{}
	for _, o := range objects {
		b.Objects = append(b.Objects, appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp()})
		contents[o.Digest] = o.Content
	}
	s.must(s.store.PutBlobs(s.Context(), contents))
	d, err := s.store.PutBundle(s.Context(), b)
	s.must(err)
	return d
}

// testGroup is a deployment intent group with its head.
type testGroup struct {
	*viewFixture
	head appcontext.Head
	doc  store.Doc
}

const groupKey = "projects/p/composite-apps/ca/v1/deployment-intent-groups/d"

func (s *viewFixture) group(id appcontext.HeadID) *testGroup {
	return &testGroup{viewFixture: s, head: appcontext.Head{UID: id}, doc: store.Doc{Key: groupKey, UID: string(id), Created: morning}}
}

// step changes the head, and adds actions to the history.
func (g *testGroup) step(change func(h *appcontext.Head), acts ...appcontext.HistoryEntry) {
	g.Helper()
	to := g.head
	to.Document = groupKey
	change(&to)
	next, err := g.store.ChangeHead(g.Context(), g.head, to, acts, nil)
	g.must(err)
	g.head = next
}

// placedApps is where a revision wants which bundle: app to cluster to bundle.
type placedApps map[string]map[v2.ClusterKey]appcontext.Digest

// publish makes a revision the desired one, with the actions that lead to it. Apps that
// are not given are those of the placements.
func (g *testGroup) publish(w placedApps, apps ...appcontext.App) {
	g.Helper()
	n := g.head.LastRev + 1
	at := morning.Add(time.Duration(n) * time.Hour)
	g.head.LastRev = n
	g.step(func(h *appcontext.Head) { h.State, h.Gone = appcontext.Instantiated, false },
		appcontext.HistoryEntry{State: appcontext.Instantiated, Instance: g.instance(), Revision: n, Time: at})
	rev := appcontext.Revision{Number: n, Instance: g.instance(), At: at, Apps: apps}
	places := map[v2.ClusterKey]appcontext.Placement{}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if !slices.ContainsFunc(apps, func(a appcontext.App) bool { return a.Name == name }) {
			rev.Apps = append(rev.Apps, appcontext.App{Name: name})
		}
		for cluster, d := range w[name] {
			if places[cluster].Apps == nil {
				places[cluster] = appcontext.Placement{Cluster: cluster, Apps: map[string]appcontext.Digest{}}
			}
			places[cluster].Apps[name] = d
		}
	}
	next, err := g.store.Publish(g.Context(), g.head, rev, maps.Values(places))
	g.must(err)
	g.head = next
}

// instance is the context id of the last revision.
func (g *testGroup) instance() string {
	if g.head.LastRev == 1 {
		return g.doc.UID
	}
	return fmt.Sprint(g.doc.UID, g.head.LastRev)
}

func (g *testGroup) terminate() {
	g.Helper()
	g.step(func(h *appcontext.Head) { h.State, h.Gone = appcontext.Terminated, true },
		appcontext.HistoryEntry{State: appcontext.Terminated, Instance: g.instance(), Time: noon})
}

func (g *testGroup) key(app string, cluster v2.ClusterKey) appcontext.PairKey {
	return appcontext.PairKey{Cluster: cluster, Deployment: g.head.Deployment(), App: app}
}

func (g *testGroup) pair(app string, cluster v2.ClusterKey, p appcontext.Pair) {
	g.Helper()
	p.Key = g.key(app, cluster)
	if p.At.IsZero() {
		p.At = noon.Add(-time.Hour)
	}
	g.must(g.store.PutPairs(g.Context(), appcontext.Fence{}, []appcontext.Pair{p}, nil))
}

// applied writes a pair with proof of a bundle.
func (g *testGroup) applied(app string, cluster v2.ClusterKey, d appcontext.Digest, commit string) {
	g.Helper()
	g.pair(app, cluster, appcontext.Pair{Rev: g.head.Rev, Desired: d, Applied: d, Held: []appcontext.Digest{d}, Phase: appcontext.Applied, Commit: commit})
}

func (g *testGroup) gone(app string, cluster v2.ClusterKey) {
	g.Helper()
	k := []appcontext.PairKey{g.key(app, cluster)}
	g.must(g.store.PutPairs(g.Context(), appcontext.Fence{}, nil, k))
	g.must(g.store.PutReports(g.Context(), appcontext.Fence{}, nil, k))
}

func (g *testGroup) report(app string, cluster v2.ClusterKey, r appcontext.Report) {
	g.Helper()
	r.Key = g.key(app, cluster)
	if r.At.IsZero() {
		r.At = noon.Add(-time.Minute)
	}
	g.must(g.store.PutReports(g.Context(), appcontext.Fence{}, []appcontext.Report{r}, nil))
}

// objectStatus is a cluster's report on an object.
func objectStatus(o manifest.Object, status, reason string) appcontext.ResourceStatus {
	return appcontext.ResourceStatus{ID: o.ID, Status: status, Reason: reason, Content: o.Stamp()}
}

// ask answers a query.
func (g *testGroup) ask(query string) (Answer, error) {
	g.Helper()
	v, err := url.ParseQuery(query)
	g.must(err)
	q, err := ParseGroup(v)
	g.must(err)
	who := v2.StatusSubject{Project: "p", CompositeApp: "ca", CompositeAppVersion: "v1", CompositeProfile: "cp", Name: "d"}
	return g.reader.Group(g.Context(), Subject{Doc: g.doc, Identity: who}, q)
}

// status answers a query, which must succeed. The encoded answer and the returned one must
// be equal, and a summary must be the same, without the parts.
func (g *testGroup) status(query string) v2.Status {
	g.Helper()
	a, err := g.ask(query)
	if err != nil {
		g.Fatalf("%s: %v", query, err)
	}
	text, err := a.JSON()
	g.must(err)
	var sent v2.Status
	if err := json.Unmarshal(text, &sent); err != nil {
		g.Fatalf("%s: %v in %s", query, err, text)
	}
	if one, two := asJSON(sent), asJSON(a.Status()); one != two {
		g.Fatalf("%s: sent is\n%s\nbut it should be\n%s", query, one, two)
	}
	g.checkSummary(query, sent)
	return sent
}

// checkSummary compares the summary of a query with its answer.
func (g *testGroup) checkSummary(query string, whole v2.Status) {
	g.Helper()
	v, err := url.ParseQuery(query)
	g.must(err)
	v.Set("output", "summary")
	a, err := g.ask(v.Encode())
	g.must(err)
	whole.Apps, whole.Leaving = nil, nil
	if one, two := asJSON(a.Status()), asJSON(whole); one != two {
		g.Fatalf("%s: the summary is\n%s\nbut it should be\n%s", query, one, two)
	}
}

func asJSON[T any](v T) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// short is an answer in one line: counts, then clusters with their resources.
func short(st v2.Status) string {
	var out []string
	for _, counts := range []map[string]int{st.DeployedCounts, st.ReadyCounts, st.RsyncCounts, st.ClusterCounts} {
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			out = append(out, fmt.Sprint(state, ":", counts[state]))
		}
	}
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			var list []string
			for _, r := range c.Resources {
				list = append(list, r.Name+" "+r.DeployedStatus+r.ReadyStatus+r.RsyncStatus+r.ClusterStatus)
			}
			out = append(out, a.Name+" on "+c.Cluster+": "+strings.Join(list, ", ")+";")
		}
	}
	return strings.TrimSuffix(strings.Join(out, " "), ";")
}
