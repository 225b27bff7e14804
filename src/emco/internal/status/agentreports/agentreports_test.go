package agentreports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

func TestReportsAreInEtcdWhenTheyAreAnswered(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a", "edge+b")
	p := l.process()
	a, b := p.token("edge+a", ""), p.token("edge+b", "")
	name := p.want(http.StatusNoContent, a, good("edge+a", 7, "first"))
	if got := l.stored("edge+a"); got != "#7 first" {
		t.Errorf("etcd has %q", got)
	}
	if got := p.want(http.StatusNoContent, a, same("edge+a", 8, name)); got != name {
		t.Errorf("the same is called %q, and was called %q", got, name)
	}
	if got := l.stored("edge+a"); got != "#8 first" {
		t.Errorf("after a sign of life etcd has %q", got)
	}
	p.want(http.StatusNoContent, a, good("edge+a", 9, "second"))
	p.want(http.StatusPreconditionFailed, a, same("edge+a", 10, name))
	p.want(http.StatusPreconditionFailed, b, same("edge+b", 10, name))
	if got := p.do(http.MethodPost, path("edge+b")+"/report", b, zipped(l.encode(good("edge+b", 11, "packed"))), "Content-Encoding", "gzip"); got.code != http.StatusNoContent {
		t.Errorf("a packed report: %d %s", got.code, got.body)
	}
	if a, b := l.stored("edge+a"), l.stored("edge+b"); a != "#9 second" || b != "#11 packed" {
		t.Errorf("etcd has %q and %q", a, b)
	}
	if got := p.results(); got != "taken taken taken taken" {
		t.Errorf("documents were %s", got)
	}
	if n, err := p.status("edge+a"); err != nil || n.Seq != 9 || n.Agent != "monitor/test" {
		t.Errorf("the note is %+v", n)
	}
}

// A sign of life costs one small value, however much is known of the cluster.
func TestSignsOfLifeAreSmall(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process()
	token := p.token("edge+a", "")
	large := good("edge+a", 1, "")
	for i := range 3000 {
		large.Apps[0].Objects = append(large.Apps[0].Objects, status.Object{Version: "v1", Kind: "Pod", Name: fmt.Sprintf("pod-%d-%x", i, rand.Uint64()), Status: status.Current})
	}
	name := p.want(http.StatusNoContent, token, large)
	docs := func() int64 {
		a, err := l.store.Agent(t.Context(), "edge+a")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(a); err != nil || len(text) > 600 {
			t.Errorf("a sign of life takes %d bytes: %s", len(text), text)
		}
		d, err := l.store.AgentDocuments(t.Context(), []v2.ClusterKey{"edge+a"})
		if err != nil || len(d) != 1 {
			t.Fatalf("%d documents, %v", len(d), err)
		}
		return int64(d[0].Seq)
	}
	p.want(http.StatusNoContent, token, same("edge+a", 2, name))
	large.Seq = 3 // the same once more, in full
	p.want(http.StatusNoContent, token, large)
	if seq := docs(); seq != 1 {
		t.Errorf("the document was written again, with sequence %d", seq)
	}
}

func TestWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	bomb := zipped(bytes.Repeat([]byte(" "), 50<<20))
	for _, c := range []struct {
		name, result string
		code         int
		post         func(*process, string) agentAnswer
	}{
		{"it speaks for another cluster", "forged", 403, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, p.encode(good("edge+b", 100, "lie")))
		}},
		{"a sign of life for another cluster", "forged", 403, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, p.encode(same("edge+b", 100, "x")))
		}},
		{"it is older", "replayed", 409, func(p *process, token string) agentAnswer { return p.post(token, good("edge+a", 9, "lie")) }},
		{"the same sequence with other news", "replayed", 409, func(p *process, token string) agentAnswer { return p.post(token, good("edge+a", 10, "lie")) }},
		{"no later sequence is left", "ahead", 400, func(p *process, token string) agentAnswer {
			return p.post(token, good("edge+a", math.MaxUint64, "lie"))
		}},
		{"a future schema", "schema", 400, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, []byte(`{"schema":"emco.status/v9","cluster":"edge+a","seq":99,"apps":{}}`))
		}},
		{"no report", "malformed", 422, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, []byte("\xff\xfe"))
		}},
		{"no gzip", "malformed", 422, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, []byte("{}"), "Content-Encoding", "gzip")
		}},
		{"too large", "toolarge", 413, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, bytes.Repeat([]byte(" "), status.MaxSize+1))
		}},
		{"50 MiB, packed well", "toolarge", 413, func(p *process, token string) agentAnswer {
			return p.do(http.MethodPost, path("edge+a")+"/report", token, bomb, "Content-Encoding", "gzip")
		}},
		{"no token", "unauthorized", 401, func(p *process, _ string) agentAnswer { return p.post("", good("edge+a", 100, "lie")) }},
		{"a wrong token", "unauthorized", 401, func(p *process, _ string) agentAnswer {
			return p.post(status.TokenPrefix+"GUESSED", good("edge+a", 100, "lie"))
		}},
		{"the token of another cluster", "unauthorized", 401, func(p *process, _ string) agentAnswer {
			return p.post(p.token("edge+b", ""), good("edge+a", 100, "lie"))
		}},
		{"for a cluster that is not there", "unauthorized", 401, func(p *process, token string) agentAnswer { return p.post(token, good("edge+z", 100, "lie")) }},
		{"for a cluster that reports another way", "unauthorized", 401, func(p *process, _ string) agentAnswer {
			token := p.token("edge+git", "")
			return p.post(token, good("edge+git", 100, "lie"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "edge+a", "edge+b")
			l.fleet.becomes("edge+git", Cluster{Registration: "git"})
			p := l.process()
			token := p.token("edge+a", "")
			p.want(http.StatusNoContent, token, good("edge+a", 10, "true"))
			p.results()
			got := c.post(p, token)
			if got.code != c.code || p.results() != c.result {
				t.Errorf("answered %d %s, want %d as %s", got.code, got.body, c.code, c.result)
			}
			if got := l.stored("edge+a"); got != "#10 true" {
				t.Errorf("etcd has %q", got)
			}
			if c.code == 409 && got.header.Get(status.SequenceHeader) != "10" {
				t.Errorf("the last sequence is %q", got.header.Get(status.SequenceHeader))
			}
			if c.code == 401 && (got.header.Get("WWW-Authenticate") == "" || strings.Contains(got.body, token)) {
				t.Errorf("answered %v %s", got.header, got.body)
			}
			if n, _ := p.status("edge+a"); c.code != 401 && (n.Refused == nil || n.Refused.Result != c.result) {
				t.Errorf("the note is %+v", n)
			}
			p.want(http.StatusNoContent, token, good("edge+a", 11, "more"))
			if held := p.bodies(); held != 0 {
				t.Errorf("%d bytes are still counted", held)
			}
		})
	}
}

func (p *process) bodies() int64 { return p.endpoint.bodies.Load() }

func TestTokens(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	one, two := l.process(), l.process()
	first := one.token("edge+a", "")
	one.want(http.StatusNoContent, first, good("edge+a", 1, ""))
	two.want(http.StatusNoContent, first, good("edge+a", 2, ""))
	second := one.token("edge+a", "?overlap=10m")
	two.passes(2 * time.Second)
	two.want(http.StatusNoContent, second, good("edge+a", 3, ""))
	two.want(http.StatusNoContent, first, good("edge+a", 4, "")) // for ten minutes
	l.passes(11 * time.Minute)
	one.want(http.StatusUnauthorized, first, good("edge+a", 5, "lie"))
	two.want(http.StatusUnauthorized, first, good("edge+a", 5, "lie"))
	two.want(http.StatusNoContent, second, good("edge+a", 5, ""))

	var shown []v2.ReportToken
	a := one.do(http.MethodGet, path("edge+a")+"/token", "", nil)
	if err := json.Unmarshal([]byte(a.body), &shown); err != nil || len(shown) != 1 || strings.Contains(a.body, second) {
		t.Errorf("shown is %s, %v", a.body, err)
	}
	if got := one.do(http.MethodDelete, path("edge+a")+"/token?id=none", "", nil); got.code != http.StatusNotFound {
		t.Errorf("revoking what is not there: %d %s", got.code, got.body)
	}
	if got := one.do(http.MethodDelete, path("edge+a")+"/token?id="+shown[0].ID, "", nil); got.code != http.StatusNoContent {
		t.Errorf("revoking: %d %s", got.code, got.body)
	}
	// At once, by the other process as well, which has not looked again.
	two.want(http.StatusUnauthorized, second, good("edge+a", 6, "lie"))
	one.want(http.StatusUnauthorized, second, good("edge+a", 6, "lie"))
	if got := l.stored("edge+a"); got != "#5 " {
		t.Errorf("etcd has %q", got)
	}
	for range maxTokens {
		one.token("edge+a", "?overlap=1h")
	}
	if got := one.do(http.MethodPost, path("edge+a")+"/token?overlap=1h", "", nil); got.code != http.StatusConflict {
		t.Errorf("one token too many: %d %s", got.code, got.body)
	}
	if got := one.do(http.MethodPost, path("edge+a")+"/token?overlap=for%20ever", "", nil); got.code != http.StatusBadRequest {
		t.Errorf("no overlap: %d %s", got.code, got.body)
	}
}

// One report of a stolen token must not silence the cluster for ever.
func TestF63AReportCannotSilenceACluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a", "edge+old")
	one := l.process()
	stolen := one.token("edge+a", "")
	one.want(http.StatusNoContent, stolen, good("edge+a", 5, "true"))
	highest := uint64(l.now().Unix()) + 1<<32 - 1
	one.want(http.StatusNoContent, stolen, good("edge+a", highest, "lie"))
	fresh := one.token("edge+a", "?overlap=0s")
	one.want(http.StatusNoContent, fresh, good("edge+a", 6, "true again"))
	if got := l.stored("edge+a"); got != "#6 true again" {
		t.Errorf("etcd has %q", got)
	}

	// An older version accepted any sequence.
	token := one.token("edge+old", "")
	one.want(http.StatusNoContent, token, good("edge+old", 5, ""))
	a, err := l.store.Agent(t.Context(), "edge+old")
	if err != nil {
		t.Fatal(err)
	}
	a.Seq = math.MaxUint64
	if _, ok, err := l.store.UpdateAgents(t.Context(), []agents.Update{{Agent: a}}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	two := l.process()
	two.want(http.StatusNoContent, token, good("edge+old", 7, "heard"))
	if got := l.stored("edge+old"); got != "#7 heard" {
		t.Errorf("etcd has %q", got)
	}
}

// A cluster registered again under the same name is another cluster.
func TestTokensEndWithTheRegistration(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process()
	token := p.token("edge+a", "")
	p.want(http.StatusNoContent, token, good("edge+a", 1, ""))
	l.fleet.becomes("edge+a", Cluster{Registration: "another", Reports: true})
	l.passes(registrationTTL)
	p.want(http.StatusUnauthorized, token, good("edge+a", 2, "lie"))
	fresh := p.token("edge+a", "")
	p.want(http.StatusNoContent, fresh, good("edge+a", 3, ""))
	p.want(http.StatusUnauthorized, token, good("edge+a", 4, "lie"))
	l.fleet.mu.Lock()
	delete(l.fleet.clusters, "edge+a")
	l.fleet.mu.Unlock()
	l.passes(registrationTTL)
	p.want(http.StatusUnauthorized, fresh, good("edge+a", 5, "lie"))
	if got := l.stored("edge+a"); got != "#0 none" {
		t.Errorf("of a cluster that is gone etcd has %q", got)
	}
	l.fleet.becomes("edge+d", Cluster{Registration: "d", Direct: true})
	if got := p.do(http.MethodPost, path("edge+d")+"/token", "", nil); got.code != http.StatusConflict {
		t.Errorf("a token for a cluster that is watched: %d %s", got.code, got.body)
	}
	if got := p.do(http.MethodPost, path("edge+z")+"/token", "", nil); got.code != http.StatusNotFound {
		t.Errorf("a token for no cluster: %d %s", got.code, got.body)
	}
}

// Many clusters report to several processes, one after the other to another one: what is
// acknowledged is never undone, and an older report never wins.
func TestProcessesDoNotOvertakeEachOther(t *testing.T) {
	t.Parallel()
	var names []v2.ClusterKey
	for i := range 20 {
		names = append(names, v2.ClusterKey(fmt.Sprint("edge+c", i)))
	}
	l := newLab(t, names...)
	processes := []*process{l.process(), l.process(), l.process()}
	send := func(token string, r status.Report) agentAnswer { // as a monitor does, again when others were faster five times
		for {
			if got := processes[rand.IntN(3)].post(token, r); got.code != http.StatusServiceUnavailable {
				return got
			}
		}
	}
	var all sync.WaitGroup
	for _, name := range names {
		token := processes[0].token(name, "")
		all.Go(func() {
			for seq := uint64(1); seq <= 30; seq++ {
				if got := send(token, good(name, seq, fmt.Sprint(seq))); got.code != http.StatusNoContent {
					t.Errorf("report %d of %s: %d %s", seq, name, got.code, got.body)
				}
				if replay := send(token, good(name, seq, "replay")); replay.code != http.StatusConflict {
					t.Errorf("a replay of %d: %d %s", seq, replay.code, replay.body)
				}
				l.passes(reportGap)
			}
		})
	}
	all.Wait()
	for _, name := range names {
		if got := l.stored(name); got != "#30 30" {
			t.Errorf("of %s etcd has %q", name, got)
		}
	}
}

// slowBook is an etcd that takes its time, or does not answer.
type slowBook struct {
	*appcontext.Store
	gate chan struct{} // a transaction needs a token
	mu   sync.Mutex
	txns [][]agents.Update
	err  error
}

func (b *slowBook) UpdateAgents(ctx context.Context, words []agents.Update) ([]agents.Agent, bool, error) {
	select {
	case <-b.gate:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	b.mu.Lock()
	b.txns = append(b.txns, words)
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	return b.Store.UpdateAgents(ctx, words)
}

// While etcd is slow, reports wait in bounded number, and are written together; of one
// cluster only the last.
func TestOverload(t *testing.T) {
	t.Parallel()
	var names []v2.ClusterKey
	for i := range 300 {
		names = append(names, v2.ClusterKey(fmt.Sprint("edge+c", i)))
	}
	l := newLab(t, names...)
	maker := l.process()
	tokens := map[v2.ClusterKey]string{}
	for _, name := range names {
		tokens[name] = maker.token(name, "")
	}
	book := &slowBook{Store: l.store, gate: make(chan struct{}, 1000)}
	l.book = book
	p := l.process(func(o *Options) { o.Queue = 250 })
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			a := p.post(tokens[name], good(name, 5, "five"))
			mu.Lock()
			defer mu.Unlock()
			codes[a.code]++
			if a.code == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
				t.Error("no word when to come again")
			}
		})
	}
	l.eventually("too many", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return codes[http.StatusServiceUnavailable] == 50
	})
	for range 1000 {
		book.gate <- struct{}{}
	}
	all.Wait()
	if codes[http.StatusNoContent] != 250 || len(codes) != 2 {
		t.Errorf("answers were %v", codes)
	}
	book.mu.Lock()
	largest := slices.MaxFunc(book.txns, func(a, b []agents.Update) int { return len(a) - len(b) })
	n := len(book.txns)
	book.mu.Unlock()
	if n > 20 || len(largest) < 20 {
		t.Errorf("250 reports took %d transactions, the largest of %d", n, len(largest))
	}
	book.mu.Lock()
	book.err = errors.New("no leader")
	book.mu.Unlock()
	go func() {
		for range 1000 {
			select {
			case book.gate <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	a := p.post(tokens[names[0]], good(names[0], 99, "lost"))
	if a.code != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || strings.Contains(a.body, "leader") {
		t.Errorf("without etcd: %d %s", a.code, a.body)
	}
	book.mu.Lock()
	book.err = nil
	book.mu.Unlock()
	p.want(http.StatusNoContent, tokens[names[0]], good(names[0], 100, "again"))
	if p.desk.waiting != 0 || p.bodies() != 0 {
		t.Errorf("%d reports and %d bytes are still counted", p.desk.waiting, p.bodies())
	}
}

// Bodies that are large, or slow to come, do not take more memory than they may.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process(func(o *Options) { o.Bodies = 8 << 20 })
	token := p.token("edge+a", "")
	noise := make([]byte, status.MaxSize)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for range 40 {
		all.Go(func() {
			a := p.do(http.MethodPost, path("edge+a")+"/report", token, noise)
			mu.Lock()
			defer mu.Unlock()
			codes[a.code]++
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	if codes[http.StatusServiceUnavailable] == 0 && codes[http.StatusTooManyRequests] == 0 || codes[http.StatusNoContent] > 0 {
		t.Errorf("answers were %v", codes)
	}
	if held := p.bodies(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}

func TestAClusterThatReportsTooOften(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a", "edge+b")
	p := l.process()
	token, other := p.token("edge+a", ""), p.token("edge+b", "")
	code := 0
	for seq := uint64(1); seq < 4*reportBurst && code != http.StatusTooManyRequests; seq++ {
		a := p.post(token, good("edge+a", seq, ""))
		if code = a.code; code == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
			t.Error("no word when to come again")
		}
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("the last answer was %d", code)
	}
	p.want(http.StatusNoContent, other, good("edge+b", 1, ""))
	l.passes(2 * reportGap)
	p.want(http.StatusNoContent, token, good("edge+a", 1000, ""))
}

// The source delivers stored reports of all processes, and delivers them again after a
// restart. It delivers heartbeats at intervals.
func TestTheSourceDeliversStoredReports(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a", "edge+b")
	p := l.process()
	a, b := p.token("edge+a", ""), p.token("edge+b", "")
	name := p.want(http.StatusNoContent, a, good("edge+a", 1, "before"))
	reports := l.listen(time.Minute)
	has := func(want string) {
		t.Helper()
		l.eventually(want, func() bool { return slices.Contains(reports(), want) })
	}
	has("edge+a#1 before")
	roomy := good("edge+b", 5, "new")
	roomy.Capacity.Nodes = 3
	p.want(http.StatusNoContent, b, roomy)
	has("edge+b#5 new")
	l.eventually("what the report says of nodes", func() bool {
		stored, err := l.store.Capacities(t.Context(), []v2.ClusterKey{"edge+a", "edge+b"})
		return err == nil && stored[0].Capacity.Nodes == 0 && stored[1].Capacity.Nodes == 3
	})
	p.want(http.StatusNoContent, a, same("edge+a", 2, name))
	l.passes(2 * time.Minute)
	p.want(http.StatusNoContent, a, same("edge+a", 3, name))
	has("edge+a#3 before")
	p.want(http.StatusNoContent, a, good("edge+a", 4, "after"))
	has("edge+a#4 after")
	if got := reports(); len(got) != 4 {
		t.Errorf("handed on were %q", got)
	}
}

// A process answers what is known of an agent also if others have taken or refused its reports, or if it has just started.
func TestEachProcessDescribesAgentsOfOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a", "edge+b")
	one, two := l.process(), l.process()
	describe := func() (a intake.AgentStatus) {
		t.Helper()
		two.refusals.write(t.Context())
		a, err := one.status("edge+a")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := two.status("edge+a"); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("one process answers %+v, the other %+v, %v", a, b, err)
		}
		return a
	}
	token := one.token("edge+a", "")
	if _, err := two.status("edge+a"); !errs.Is(err, errs.NotFound) {
		t.Errorf("before the first report: %v, want NotFound", err)
	}
	first := good("edge+a", 1, "before")
	first.Unseen = []status.Unseen{{Kind: "Secret", Reason: "forbidden"}}
	first.At = l.now().Add(time.Hour).Truncate(time.Millisecond)
	name := one.want(http.StatusNoContent, token, first)
	if got := describe(); got.Agent != "monitor/test" || got.Seq != 1 || got.Apps != 1 || got.Ahead == "" || len(got.Unseen) != 1 ||
		!got.Reported.Equal(first.At) || !got.Received.Equal(l.now()) {
		t.Errorf("after a report the status is %+v", got)
	}

	l.passes(reportGap)
	again := same("edge+a", 2, name)
	again.At = l.now().Add(time.Minute).Truncate(time.Millisecond)
	two.want(http.StatusNoContent, token, again)
	if got := describe(); got.Agent != "monitor/test" || got.Seq != 2 || got.Apps != 1 || got.Ahead != "" || !got.Reported.Equal(again.At) || !got.Received.Equal(l.now()) {
		t.Errorf("after a sign of life the status is %+v", got)
	}

	for _, p := range []*process{one, two, two} {
		l.passes(reportGap)
		p.want(http.StatusConflict, token, good("edge+a", 1, "late"))
	}
	if got := describe(); got.Seq != 2 || got.Refused == nil || got.Refused.Count != 3 || got.Refused.Result != intake.Replayed || !got.Refused.At.Equal(l.now()) {
		t.Errorf("after refusals of both the status is %+v, %+v", got, got.Refused)
	}
	l.passes(reportGap)
	newer := good("edge+a", 7, "after")
	newer.Agent = "monitor/newer"
	two.want(http.StatusNoContent, token, newer)
	if got := describe(); got.Seq != 7 || got.Agent != "monitor/newer" || got.Refused == nil {
		t.Errorf("after a newer report the status is %+v", got)
	}
	one.want(http.StatusConflict, one.token("edge+b", ""), good("edge+b", 0, "")) // it never reported well
	if got, err := one.status("edge+b"); err != nil || got.Refused == nil || got.Cluster != "edge+b" {
		t.Errorf("a cluster whose reports are refused: %+v, %v", got, err)
	}
	if err := l.store.SweepAgents(t.Context(), func(context.Context, v2.ClusterKey) (bool, error) { return false, nil }); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range []v2.ClusterKey{"edge+a", "edge+b"} {
		if got, err := l.store.RefusalsOf(t.Context(), cluster); err != nil || got.Count != 0 {
			t.Errorf("refusals of %s after its registration has ended: %+v, %v", cluster, got, err)
		}
	}
}

// received is what a process read from Git.
func (l *etcdFixture) received(r status.Report, first bool) intake.Received {
	return intake.Received{Report: r, Text: l.encode(r), At: l.now(), First: first}
}

// Reports from Git reach all processes as those by HTTPS do. A new reader repeats the last one, which changes nothing;
// a former one that does not know of its successor is refused. What has no news costs nothing for a while.
func TestReportsFromGitReachAllProcesses(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	one, two := l.process(), l.process()
	reports := l.listen(time.Minute)
	has := func(want ...string) {
		t.Helper()
		l.eventually(strings.Join(want, ", "), func() bool { return len(reports()) >= len(want) })
		if got := reports(); !slices.Equal(got, want) {
			t.Errorf("delivered were %q, want %q", got, want)
		}
	}
	mod := func() int64 {
		a, err := l.store.Agent(t.Context(), "edge+a")
		if err != nil {
			t.Fatal(err)
		}
		return a.Mod
	}
	store := func(p *process, r status.Report, first bool) {
		t.Helper()
		if err := p.desk.Store(t.Context(), l.received(r, first)); err != nil {
			t.Errorf("report %d: %v", r.Seq, err)
		}
	}
	store(one, good("edge+a", 5, "before"), true)
	has("edge+a#5 before")
	written := mod()
	store(two, good("edge+a", 5, "before"), true) // it takes over, and reads the branch again
	store(two, good("edge+a", 6, "before"), false)
	if mod() != written {
		t.Error("a report without news was written")
	}
	store(two, good("edge+a", 7, "after"), false)
	has("edge+a#5 before", "edge+a#7 after")
	written = mod()
	store(one, good("edge+a", 6, "before"), false) // no news for a former reader
	if mod() != written {
		t.Error("a report of a former reader was written")
	}
	if err := one.desk.Store(t.Context(), l.received(good("edge+a", 6, "late"), false)); !intake.IsRefusal(err) || intake.ResultOf(err) != intake.Replayed {
		t.Errorf("an old report of a former reader: %v, want that it is refused", err)
	}
	store(two, good("edge+a", 8, "before"), false)
	has("edge+a#5 before", "edge+a#7 after", "edge+a#8 before") // before later ones replace it
	store(one, good("edge+a", 9, "before"), true)               // the first reader is back
	l.passes(2 * time.Minute)
	store(one, good("edge+a", 10, "before"), false) // a sign of life
	has("edge+a#5 before", "edge+a#7 after", "edge+a#8 before", "edge+a#10 before")
	if got := l.stored("edge+a"); got != "#10 before" {
		t.Errorf("stored is %s", got)
	}
	a, err := l.store.Agent(t.Context(), "edge+a")
	if err != nil || !a.At.Equal(l.now()) {
		t.Errorf("the agent was heard at %s, want %s (%v)", a.At, l.now(), err)
	}
	back := l.received(good("edge+a", 11, "again"), true)
	back.At = l.now().Add(-time.Hour) // by a cluster's clock that is late
	if err := two.desk.Store(t.Context(), back); err != nil {
		t.Error(err)
	}
	if a, err = l.store.Agent(t.Context(), "edge+a"); err != nil || a.Seq != 11 || !a.At.Equal(l.now()) {
		t.Errorf("the agent is %+v, %v, want that its time does not go back", a, err)
	}
}

// A report that repeats one which is not on disk yet waits for it: its write may still fail.
func TestARepeatedReportWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	desk := NewReportWriter(l.book, l.fleet, Options{Now: l.now}) // it does not run, so it writes nothing
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for seq := range uint64(2) {
		go func() { ended <- desk.Store(ctx, l.received(good("edge+a", seq+5, "before"), false)) }()
		l.eventually("a report that waits", func() bool {
			desk.mu.Lock()
			defer desk.mu.Unlock()
			q := desk.queues["edge+a"]
			return len(ended) > 0 || q != nil && q.waitingBatch != nil && len(q.waitingBatch.claims) == int(seq+1)
		})
	}
	leave()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a report that is not on disk: %v, want that it waited", err)
		}
	}
}

// The reason of a refusal is cut between characters, so that it is stored unchanged.
func TestTheReasonOfARefusalStaysText(t *testing.T) {
	t.Parallel()
	r := NewRefusalRecorder(nil, slog.New(slog.DiscardHandler))
	r.Add(intake.Document{Cluster: "edge+a"}, intake.NewRefusal(intake.Forged, "x"+strings.Repeat("é", maxWhy)), time.Now())
	if why := r.waiting["edge+a"].Why; !utf8.ValidString(why) || len(why) != maxWhy-1 {
		t.Errorf("%d bytes end in %q", len(why), why[len(why)-3:])
	}
}

// What was refused in the last second before a stop is in the store after it.
func TestRefusalsAreStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process()
	p.want(http.StatusNoContent, p.token("edge+a", ""), good("edge+a", 1, "before"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.refusals.Run(ctx) }()
	refuse := func() {
		p.refusals.Add(intake.Document{Cluster: "edge+a"}, intake.NewRefusal(intake.Forged, "not its own"), l.now())
	}
	refused := func() uint64 {
		s, err := NewSource(nil, p.store, nil, p.fleet, Options{}).agentStatus(t.Context(), "edge+a")
		if err != nil {
			t.Fatal(err)
		}
		if s.Refused == nil {
			return 0
		}
		return s.Refused.Count
	}
	refuse()
	l.eventually("the first refusal in the store", func() bool { return refused() == 1 })
	refuse() // the recorder rests
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := refused(); n != 2 {
		t.Errorf("%d refusals are stored, want 2", n)
	}
}

// A process of an older version stores the sequence of a report that it read, without the document. The one that reads for
// all stores the document nevertheless.
func TestASequenceWithoutItsDocumentIsCompleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process()
	if err := p.desk.Store(t.Context(), l.received(good("edge+a", 5, "before"), true)); err != nil {
		t.Fatal(err)
	}
	a, err := l.store.Agent(t.Context(), "edge+a")
	if err != nil {
		t.Fatal(err)
	}
	a.Seq = 6
	if _, ok, err := l.store.UpdateAgents(t.Context(), []agents.Update{{Agent: a}}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := p.desk.Store(t.Context(), l.received(good("edge+a", 6, "after"), false)); err != nil {
		t.Error(err)
	}
	if got := l.stored("edge+a"); got != "#6 after" {
		t.Errorf("stored is %s, want the document of the last sequence", got)
	}
}

// A new token starts a new sequence: what the control plane received later is newer, whatever its sequence.
func TestTheStatusOfAnAgentFollowsANewToken(t *testing.T) {
	t.Parallel()
	l := newLab(t, "edge+a")
	p := l.process()
	seen := func(what, agent string, seq uint64) {
		t.Helper()
		if got, err := p.status("edge+a"); err != nil || got.Agent != agent || got.Seq != seq || !got.Received.Equal(l.now()) || got.Reported.IsZero() {
			t.Errorf("%s: the status is %+v, %v; want %s, sequence %d", what, got, err, agent, seq)
		}
	}
	p.want(http.StatusNoContent, p.token("edge+a", ""), good("edge+a", 900, "before"))
	token := p.token("edge+a", "")
	seen("with a new token", "monitor/test", 900)

	l.passes(reportGap)
	newer := good("edge+a", 1, "after")
	newer.Agent = "monitor/newer"
	name := p.want(http.StatusNoContent, token, newer)
	seen("a report", "monitor/newer", 1)
	l.passes(reportGap)
	p.want(http.StatusNoContent, token, same("edge+a", 2, name))
	seen("a sign of life", "monitor/newer", 2)
}

// Older versions store signs of life of clusters that report through Git, without a document. These describe no agent.
func TestASignOfLifeAloneIsNoStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.process()
	if _, ok, err := l.store.UpdateAgents(t.Context(), []agents.Update{{Agent: agents.Agent{Cluster: "edge+a", Seq: 7, At: l.now()}}}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got, err := p.status("edge+a"); !errs.Is(err, errs.NotFound) {
		t.Errorf("before a report was read: %+v, %v, want NotFound", got, err)
	}
	p.refusals.Add(intake.Document{Cluster: "edge+a"}, intake.NewRefusal(intake.Forged, "the report names cluster x"), l.now())
	if got, err := p.status("edge+a"); err != nil || got.Refused == nil || got.Seq != 0 || !got.Received.IsZero() {
		t.Errorf("after a refusal: %+v, %v", got, err)
	}
}
