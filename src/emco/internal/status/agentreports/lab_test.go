package agentreports

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
)

// clusterMap is a registry of clusters in memory.
type clusterMap struct {
	mu       sync.Mutex
	clusters map[v2.ClusterKey]Cluster
	commits  map[v2.ClusterKey]git.Hash // that hold what a cluster should have; guarded by mu
}

func (f *clusterMap) Cluster(_ context.Context, name v2.ClusterKey) (Cluster, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.clusters[name]
	if !ok {
		return c, errs.New(errs.NotFound, "cluster "+string(name)+" not found")
	}
	return c, nil
}

func (f *clusterMap) Pairs(_ context.Context, cluster v2.ClusterKey) ([]intake.Pair, error) {
	ref := appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "conf"}, Stamp: "aa11"}
	f.mu.Lock()
	defer f.mu.Unlock()
	return []intake.Pair{{Key: appcontext.PairKey{Cluster: cluster, Deployment: "42", App: "web"}, Objects: []appcontext.Ref{ref}, Commit: string(f.commits[cluster])}}, nil
}

// holds sets the repository of a cluster, and the commit there that holds what it should have.
func (f *clusterMap) holds(name v2.ClusterKey, r git.Repo, commit git.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clusters[name]
	c.Desired = r
	f.clusters[name], f.commits[name] = c, commit
}

func (f *clusterMap) becomes(name v2.ClusterKey, c Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clusters[name] = c
}

// etcdFixture is a real etcd and a process that takes reports; more can be started.
type etcdFixture struct {
	testing.TB
	store *appcontext.Store
	book  AgentStore // the store, unless a test puts something before it
	fleet *clusterMap

	mu   sync.Mutex
	time time.Time // guarded by mu; only the test moves it, however slow the machine is
}

func newLab(t testing.TB, clusters ...v2.ClusterKey) *etcdFixture {
	t.Helper()
	l := &etcdFixture{TB: t, store: contexttest.New(t), fleet: &clusterMap{clusters: map[v2.ClusterKey]Cluster{}, commits: map[v2.ClusterKey]git.Hash{}}, time: time.Now()}
	l.book = l.store
	for _, name := range clusters {
		l.fleet.clusters[name] = Cluster{Registration: "id of " + string(name), Reports: true}
	}
	return l
}

func (l *etcdFixture) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *etcdFixture) passes(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.time = l.time.Add(d)
}

// process is one that takes reports.
type process struct {
	*etcdFixture
	desk     *ReportWriter
	endpoint *Endpoint
	client   *http.Client
	server   *httptest.Server
	refusals *RefusalRecorder
	stop     func()

	mu     sync.Mutex
	counts map[string]int
}

// process starts one, whose options a test may change.
func (l *etcdFixture) process(change ...func(*Options)) *process {
	l.Helper()
	p := &process{etcdFixture: l, refusals: NewRefusalRecorder(l.store, slog.New(slog.DiscardHandler)), counts: map[string]int{}}
	o := Options{Refused: func(d intake.Document, err error) { p.refusals.Add(d, err, l.now()) }, Count: p.count, Now: l.now}
	for _, c := range change {
		c(&o)
	}
	p.desk = NewReportWriter(l.book, l.fleet, o)
	e := NewEndpoint(p.desk)
	p.endpoint = e
	r := web.NewRouter()
	const agent = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor"
	web.Handle(r, http.MethodPost, agent+"/token", authz.Permission{Verb: authz.Public, Type: "tests"}, web.WithDryRun(e.Make))
	web.Handle(r, http.MethodGet, agent+"/token", authz.Permission{Verb: authz.Public, Type: "tests"}, e.Show)
	web.Handle(r, http.MethodDelete, agent+"/token", authz.Permission{Verb: authz.Public, Type: "tests"}, web.WithDryRun(e.Revoke))
	p.server = httptest.NewServer(web.Wrap(slog.New(slog.DiscardHandler), web.Ahead(http.MethodPost, agent+"/report", e.Report, r)))
	p.client = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 20 * time.Second, MaxIdleConnsPerHost: 100}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
	done := make(chan error, 1)
	go func() { done <- p.desk.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		p.client.CloseIdleConnections()
		p.server.Close()
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
	l.Cleanup(p.stop)
	p.await()
	return p
}

// await waits until the desk is open.
func (p *process) await() {
	p.Helper()
	p.eventually("open", func() bool {
		p.desk.mu.Lock()
		defer p.desk.mu.Unlock()
		return p.desk.open
	})
}

func (l *etcdFixture) eventually(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			l.Fatalf("%s: it does not come", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (p *process) count(result string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[result]++
}

func (p *process) results() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, r := range intake.Results() {
		for range p.counts[r] {
			out = append(out, r)
		}
	}
	clear(p.counts)
	return strings.Join(out, " ")
}

// agentAnswer is the response to a report.
type agentAnswer struct {
	code   int
	header http.Header
	body   string
}

func (p *process) do(method, path, token string, body []byte, header ...string) agentAnswer {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.server.URL+path, bytes.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if len(body) > 1<<20 { // as the monitor does; else the connection may end before the answer is read
		req.Header.Set("Expect", "100-continue")
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		p.Fatal(err)
	}
	return agentAnswer{res.StatusCode, res.Header, text.String()}
}

func path(cluster v2.ClusterKey) string {
	provider, name, _ := strings.Cut(string(cluster), "+")
	return "/v2/cluster-providers/" + provider + "/clusters/" + name + "/monitor"
}

// token makes one for a cluster.
func (p *process) token(cluster v2.ClusterKey, query string) string {
	p.Helper()
	a := p.do(http.MethodPost, path(cluster)+"/token"+query, "", nil)
	var made v2.NewReportToken
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.code != http.StatusCreated || made.Path != path(cluster)+"/report" {
		p.Fatalf("a token for %s: %d %s", cluster, a.code, a.body)
	}
	return made.Token
}

// good is a report of a cluster that is well, or has a reason not to be.
func good(cluster v2.ClusterKey, seq uint64, reason string) status.Report {
	o := status.Object{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "conf", Status: status.Current, Reason: reason, Content: "aa11"}
	return status.Report{Cluster: string(cluster), Seq: seq, At: time.Now(), Agent: "monitor/test", Apps: []status.App{{Label: "42-web", Objects: []status.Object{o}}}}
}

func same(cluster v2.ClusterKey, seq uint64, name string) status.Report {
	return status.Report{Cluster: string(cluster), Seq: seq, At: time.Now(), Same: name}
}

func (l *etcdFixture) encode(r status.Report) []byte {
	l.Helper()
	text, err := status.Encode(r, 0)
	if err != nil {
		l.Fatal(err)
	}
	return text
}

func (p *process) post(token string, r status.Report) agentAnswer {
	p.Helper()
	return p.do(http.MethodPost, path(v2.ClusterKey(r.Cluster))+"/report", token, p.encode(r))
}

// want posts a report that must be answered with a status, and returns the name that it got.
func (p *process) want(code int, token string, r status.Report) string {
	p.Helper()
	a := p.post(token, r)
	if a.code != code {
		p.Errorf("report %d of %s: %d %s, want %d", r.Seq, r.Cluster, a.code, a.body, code)
	}
	return strings.Trim(a.header.Get("ETag"), `"`)
}

// status is what a process answers about the agent of a cluster, after p has written what it refused.
func (p *process) status(cluster v2.ClusterKey) (intake.AgentStatus, error) {
	p.Helper()
	p.refusals.write(p.Context())
	return NewSource(nil, p.store, nil, p.fleet, Options{}).agentStatus(p.Context(), cluster)
}

// stored formats what etcd holds of a cluster: "#seq reason", or "#seq none".
func (l *etcdFixture) stored(cluster v2.ClusterKey) string {
	l.Helper()
	a, err := l.store.Agent(l.Context(), cluster)
	if err != nil {
		l.Fatal(err)
	}
	docs, err := l.store.AgentDocuments(l.Context(), []v2.ClusterKey{cluster})
	if err != nil {
		l.Fatal(err)
	}
	if len(docs) == 0 {
		return fmt.Sprintf("#%d none", a.Seq)
	}
	r, err := decode(docs[0])
	if err != nil {
		l.Fatal(err)
	}
	return fmt.Sprintf("#%d %s", a.Seq, r.Apps[0].Objects[0].Reason)
}

// listen runs a source until the end of the test, and keeps what it hands on.
func (l *etcdFixture) listen(refresh time.Duration) (reports func() []string) {
	l.Helper()
	return l.listenWith(nil, refresh)
}

// listenWith is listen with a reader of histories.
func (l *etcdFixture) listenWith(commits git.HistoryReader, refresh time.Duration) (reports func() []string) {
	l.Helper()
	var mu sync.Mutex
	var all []string
	m := mirror.New(l.store, slog.New(slog.DiscardHandler))
	src := NewSource(m, l.store, commits, l.fleet, Options{Refresh: refresh})
	ctx, cancel := context.WithCancel(l.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	running.Go(func() {
		_ = src.Run(ctx, func(_ context.Context, r appcontext.Report) {
			mu.Lock()
			defer mu.Unlock()
			if r.Key.App != "" {
				all = append(all, fmt.Sprintf("%s#%d %s", r.Key.Cluster, r.Seq, r.Resources[0].Reason))
			}
		})
	})
	l.Cleanup(func() { cancel(); running.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func zipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}
