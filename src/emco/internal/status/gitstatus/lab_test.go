package gitstatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// gitFixture is a real Git server with one repository, clusters that report there, and a
// source whose looks the test calls for.
type gitFixture struct {
	*testing.T
	bare   gittest.Bare
	server *gittest.Server
	repo   git.Repo
	host   *plain.Host
	fleet  *clusterMap
	source *Source
	poller *poller

	storing  sync.Mutex // guards notifier
	notifier *intake.Notifier
	again    atomic.Bool // a history was read

	mu      sync.Mutex
	now     time.Time
	reports []appcontext.Report
	agents  []v2.ClusterKey // clusters reported to have an agent
	counts  map[string]int
	notes   map[v2.ClusterKey]intake.AgentStatus
}

// Store does what the store and its readers do with a report, until the histories that it needs are read.
func (l *gitFixture) Store(ctx context.Context, r intake.Received) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	for l.again.Store(true); l.again.Swap(false); l.notifier.History.Wait() {
		if err := l.notifier.Notify(ctx, r.Report, r.At); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	note := intake.Describe(r.Report, r.At)
	note.Refused = l.notes[note.Cluster].Refused
	l.notes[note.Cluster] = note
	return nil
}

// refused keeps the last refusal of a cluster.
func (l *gitFixture) refused(d intake.Document, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note := l.notes[d.Cluster]
	note.Refused = &intake.Refused{Count: 1, Result: intake.ResultOf(err), Why: err.Error(), Commit: d.Where}
	l.notes[d.Cluster] = note
}

func (l *gitFixture) note(cluster v2.ClusterKey) intake.AgentStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notes[cluster]
}

// clusterMap is a registry of clusters in memory.
type clusterMap struct {
	mu       sync.Mutex
	clusters []Cluster
	listed   []Cluster // as of the last mark
	mark     int64
	pairs    map[v2.ClusterKey][]intake.Pair
	seq      map[v2.ClusterKey]uint64
	at       map[v2.ClusterKey]time.Time
	down     bool
}

func (f *clusterMap) Clusters(_ context.Context, mark int64) (ClusterList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := ClusterList{Clusters: slices.Clone(f.clusters), Since: mark > 0 && mark == f.mark}
	if out.Since {
		had := map[v2.ClusterKey]Cluster{}
		for _, c := range f.listed {
			had[c.Name] = c
		}
		out.Clusters = slices.DeleteFunc(out.Clusters, func(c Cluster) bool {
			was, known := had[c.Name]
			delete(had, c.Name)
			return known && reflect.DeepEqual(was, c)
		})
		out.Gone = slices.Collect(maps.Keys(had))
	}
	f.mark++
	f.listed, out.Mark = slices.Clone(f.clusters), f.mark
	return out, nil
}

func (f *clusterMap) Pairs(_ context.Context, cluster v2.ClusterKey) ([]intake.Pair, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, errors.New("no etcd")
	}
	return slices.Clone(f.pairs[cluster]), nil
}

func (f *clusterMap) Last(_ context.Context, cluster v2.ClusterKey) (uint64, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq[cluster], f.at[cluster], nil
}

func newLab(t *testing.T, mode string, clusters ...v2.ClusterKey) *gitFixture {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"receive.denyNonFastForwards": "false"} {
		if err := bare.Config(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	l := &gitFixture{T: t, notes: map[v2.ClusterKey]intake.AgentStatus{}, bare: bare, server: srv, repo: git.Repo{URL: srv.URL("fleet")}, now: start, counts: map[string]int{}, fleet: &clusterMap{pairs: map[v2.ClusterKey][]intake.Pair{}, seq: map[v2.ClusterKey]uint64{}, at: map[v2.ClusterKey]time.Time{}}}
	branch := status.DefaultPrefix
	if mode == syncobjects.StatusPath {
		branch = "main"
	}
	for _, name := range clusters {
		l.fleet.clusters = append(l.fleet.clusters, Cluster{name, syncobjects.Status{Repo: l.repo, Mode: mode, Branch: branch}})
		l.fleet.pairs[name] = []intake.Pair{webPair(name)}
	}
	l.host = plain.New(plain.Options{})
	t.Cleanup(func() { _ = l.host.Close() })
	l.restart()
	return l
}

// restart is what a new process knows: nothing but the fleet.
func (l *gitFixture) restart() {
	desired := func(context.Context, v2.ClusterKey) (git.Repo, error) { return l.repo, nil }
	history := intake.NewHistory(l.host, func(v2.ClusterKey) { l.again.Store(true) }, nil, slog.New(slog.DiscardHandler))
	l.notifier = &intake.Notifier{Refresh: time.Minute, Pairs: l.fleet.Pairs, History: history, Desired: desired, Deliver: l.deliver, Log: slog.New(slog.DiscardHandler)}
	contexts := contexttest.New(l)
	l.source = New(Parts{Git: l.host, Clusters: l.fleet, Store: l, Pushes: contexts, Sharing: contexts, Member: shards.Member{Holder: "one", TTL: 2 * time.Second}},
		Options{Now: func() time.Time { return l.clock(0) }, Count: l.count, Refused: l.refused, Interval: time.Hour})
	st := l.fleet.clusters[0].Status
	l.poller = newPoller(l.source, reportLocation{st.Repo, st.Mode, st.Branch}, func() {})
	all := map[v2.ClusterKey]Cluster{}
	for _, c := range l.fleet.clusters {
		all[c.Name] = c
	}
	l.poller.setClusters(all)
}

// deliver does what the service does with a report: it writes it down.
func (l *gitFixture) deliver(_ context.Context, r appcontext.Report) {
	l.mu.Lock()
	if r.Key.App == "" {
		l.agents = append(l.agents, r.Key.Cluster)
	} else {
		l.reports = append(l.reports, r)
	}
	l.mu.Unlock()
	if r.Key.App != "" {
		l.fleet.mu.Lock()
		defer l.fleet.mu.Unlock()
		l.fleet.seq[r.Key.Cluster], l.fleet.at[r.Key.Cluster] = r.Seq, r.At
	}
}

func (l *gitFixture) count(result string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[result]++
}

// clock advances the time and returns it.
func (l *gitFixture) clock(passes time.Duration) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(passes)
	return l.now
}

// look looks once and returns what was delivered and what became of documents.
func (l *gitFixture) look() (reports []appcontext.Report, results string) {
	l.Helper()
	if err := l.poller.poll(l.Context()); err != nil {
		l.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, r := range intake.Results() {
		for range l.counts[r] {
			all = append(all, r)
		}
	}
	reports = l.reports
	l.reports, l.counts = nil, map[string]int{}
	return reports, strings.Join(all, " ")
}

// ref is an object of a bundle, with the stamp of its content.
func ref(kind, name, stamp string) appcontext.Ref {
	group := map[string]string{"Deployment": "apps", "Job": "batch", "CustomResourceDefinition": "apiextensions.k8s.io"}[kind]
	ns := "shop"
	if kind == "CustomResourceDefinition" {
		ns = ""
	}
	return appcontext.Ref{ID: manifest.ID{Group: group, Version: "v1", Kind: kind, Namespace: ns, Name: name}, Stamp: stamp}
}

func webPair(cluster v2.ClusterKey) intake.Pair {
	return intake.Pair{
		Key:     appcontext.PairKey{Cluster: cluster, Deployment: "42", App: "web"},
		Objects: []appcontext.Ref{ref("Deployment", "web", "aa11"), ref("ConfigMap", "conf", "bb22")},
	}
}

// object is the report of an object of a bundle.
func object(r appcontext.Ref, state string) status.Object {
	return status.Object{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: state, Content: r.Stamp}
}

// good is a report that the app of webPair is Current.
func (l *gitFixture) good(cluster v2.ClusterKey, seq uint64) status.Report {
	p := webPair(cluster)
	return status.Report{
		Cluster: string(cluster), Seq: seq, At: l.clock(0), Agent: "monitor/test",
		Apps: []status.App{{Label: "42-web", Commit: strings.Repeat("c", 40), Objects: []status.Object{object(p.Objects[0], status.Current), object(p.Objects[1], status.Current)}}},
	}
}

// send puts a report where the agent of a cluster does.
func (l *gitFixture) send(cluster v2.ClusterKey, r status.Report) {
	l.Helper()
	text, err := status.Encode(r, 0)
	if err != nil {
		l.Fatal(err)
	}
	l.put(cluster, text)
}

// put puts bytes onto the branch of a cluster, as any writer could.
func (l *gitFixture) put(cluster v2.ClusterKey, text []byte) {
	l.Helper()
	branch := status.Branch(status.DefaultPrefix, string(cluster))
	at, err := l.host.Head(l.Context(), l.repo, branch)
	if err != nil {
		at = ""
	}
	_, err = l.host.Replace(l.Context(), l.repo, branch, at, map[string][]byte{status.File: text}, git.Message{Title: "report", When: l.clock(0)})
	if err != nil {
		l.Fatal(err)
	}
}

// reportLine formats a report in one line.
func reportLine(r appcontext.Report) string {
	var out []string
	for _, x := range r.Resources {
		text := x.Name + "=" + x.Status
		if x.Content != "" {
			text += "@" + x.Content
		}
		if x.Extra {
			text += "+"
		}
		if x.Reason != "" {
			text += "(" + x.Reason + ")"
		}
		out = append(out, text)
	}
	return fmt.Sprintf("%s/%s#%d: %s", r.Key.Cluster, r.Key.App, r.Seq, strings.Join(out, " "))
}

// saidAll prints reports, in order of their pairs.
func saidAll(reports []appcontext.Report) []string {
	var out []string
	for _, r := range reports {
		out = append(out, reportLine(r))
	}
	slices.Sort(out)
	return out
}
