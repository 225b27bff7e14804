package gitstatus

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// sharedFleet is repositories with one cluster each, which processes on one etcd read.
type sharedFleet struct {
	testing.TB
	server   *gittest.Server
	front    *httptest.Server
	host     *plain.Host // of the agents
	contexts *appcontext.Store
	fleet    *clusterMap

	mu       sync.Mutex
	listings map[string]int      // reads of each repository
	stored   map[string][]string // by cluster: "sequence by process"
}

// sharedInterval is the time between two polls in tests of several processes.
const sharedInterval = time.Second

func newSharedFleet(t testing.TB, repositories int) *sharedFleet {
	t.Helper()
	server, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &sharedFleet{
		TB: t, server: server, host: plain.New(plain.Options{}), contexts: contexttest.New(t), listings: map[string]int{}, stored: map[string][]string{},
		fleet: &clusterMap{seq: map[v2.ClusterKey]uint64{}, at: map[v2.ClusterKey]time.Time{}},
	}
	f.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if repo, listing := strings.CutSuffix(r.URL.Path, ".git/info/refs"); listing {
			f.mu.Lock()
			f.listings[repo]++
			f.mu.Unlock()
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { f.front.Close(); _ = server.Close(); _ = f.host.Close() })
	tried := 0
	for i := range repositories { // of shards in turn, so that each process has some
		var name string
		for url := ""; url == "" || Group.Of(url) != i%Group.Shards; tried++ {
			name = fmt.Sprintf("status%03d", tried)
			url = f.front.URL + "/" + name + ".git"
		}
		bare, err := server.Seed(t.Context(), name, "main")
		if err != nil {
			t.Fatal(err)
		}
		if err := bare.Config(t.Context(), "receive.denyNonFastForwards", "false"); err != nil {
			t.Fatal(err)
		}
		f.fleet.clusters = append(f.fleet.clusters, Cluster{
			v2.ClusterKey("edge+" + name), syncobjects.Status{Repo: git.Repo{URL: f.front.URL + "/" + name + ".git"}, Mode: syncobjects.StatusRef, Branch: status.DefaultPrefix},
		})
	}
	return f
}

// report pushes a report of every cluster.
func (f *sharedFleet) report(seq uint64) {
	f.Helper()
	for _, c := range f.fleet.clusters {
		text, err := status.Encode(status.Report{Cluster: string(c.Name), Seq: seq, At: time.Now(), Agent: "monitor/test"}, 0)
		if err != nil {
			f.Fatal(err)
		}
		repo := git.Repo{URL: f.server.URL(strings.TrimPrefix(string(c.Name), "edge+"))}
		branch := status.Branch(status.DefaultPrefix, string(c.Name))
		at, err := f.host.Head(f.Context(), repo, branch)
		if err != nil {
			at = ""
		}
		if _, err := f.host.Replace(f.Context(), repo, branch, at, map[string][]byte{status.File: text}, git.Message{Title: "report"}); err != nil {
			f.Fatal(err)
		}
	}
}

// take returns how often repositories were read since the last call, and the most that one was.
func (f *sharedFleet) take() (all, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.listings {
		all, most = all+n, max(most, n)
	}
	clear(f.listings)
	return all, most
}

// sharingProcess is a process that reads its share.
type sharingProcess struct {
	*sharedFleet
	name   string
	source *Source
	stop   func()
}

// Store keeps a report as the common store does: each sequence once, unless a new reader repeats the last one.
func (p *sharingProcess) Store(_ context.Context, r intake.Received) error {
	f, name := p.fleet, v2.ClusterKey(r.Report.Cluster)
	f.mu.Lock()
	last := f.seq[name]
	if r.Report.Seq > last {
		f.seq[name], f.at[name] = r.Report.Seq, r.At
	}
	f.mu.Unlock()
	switch {
	case r.Report.Seq < last || r.Report.Seq == last && !r.First:
		return intake.NewRefusal(intake.Replayed, "another process was faster")
	case r.Report.Seq == last:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored[r.Report.Cluster] = append(p.stored[r.Report.Cluster], fmt.Sprintf("%d by %s", r.Report.Seq, p.name))
	return nil
}

func (f *sharedFleet) process(name string, lease, interval time.Duration) *sharingProcess {
	f.Helper()
	p := &sharingProcess{sharedFleet: f, name: name}
	host := plain.New(plain.Options{})
	p.source = New(Parts{Git: host, Clusters: f.fleet, Store: p, Pushes: f.contexts, Sharing: f.contexts, Member: shards.Member{Holder: name, TTL: lease}},
		Options{Interval: interval, ListInterval: time.Second / 10})
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	done := make(chan error, 1)
	go func() { done <- p.source.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.Error(err)
		}
		_ = host.Close()
	})
	f.Cleanup(p.stop)
	return p
}

// eventually waits until something is.
func (f *sharedFleet) eventually(what string, is func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // of Git and etcd
		if time.Now().After(end) {
			f.Fatalf("%s: it does not come", what)
		}
	}
}

// reported returns the sequence of the stored report of a cluster.
func (f *sharedFleet) reported(cluster v2.ClusterKey) uint64 {
	f.fleet.mu.Lock()
	defer f.fleet.mu.Unlock()
	return f.fleet.seq[cluster]
}

// waitFor waits until all clusters have a report stored.
func (f *sharedFleet) waitFor(seq uint64) {
	f.Helper()
	for _, c := range f.fleet.clusters {
		f.eventually(fmt.Sprintf("report %d of %s", seq, c.Name), func() bool { return f.reported(c.Name) >= seq })
	}
}

// waitForShards waits until the processes own all shards, each at least one.
func (f *sharedFleet) waitForShards(all ...*sharingProcess) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d processes that share all shards", len(all)), func() bool {
		working := 0
		for _, p := range all {
			st := p.source.group.Status()
			if st.Members != len(all) || st.Working == 0 {
				return false
			}
			working += st.Working
		}
		return working == Group.Shards
	})
}

// S-07: three processes read 24 repositories as often as one does, each report is stored once, and when a process ends
// the others read its share within a second.
func TestS07ProcessesShareRepositories(t *testing.T) {
	t.Parallel()
	const repositories = 24
	f := newSharedFleet(t, repositories)
	one, two, three := f.process("one", 10*time.Second, sharedInterval), f.process("two", 10*time.Second, sharedInterval), f.process("three", 10*time.Second, sharedInterval)
	f.waitForShards(one, two, three)
	f.report(1)
	f.waitFor(1)
	f.take()
	began := time.Now()
	for seq := uint64(2); seq <= 3; seq++ {
		f.report(seq)
		f.waitFor(seq)
	}
	took := time.Since(began)
	all, most := f.take()
	if limit := int(took/sharedInterval) + 2; most > limit || all > limit*repositories {
		t.Errorf("in %s the repositories were read %d times, one of them %d times, want each %d times at most, as by one process", took, all, most, limit)
	}
	t.Logf("%d repositories were read %d times in %.1f s by three processes, %d times at most by one", repositories, all, took.Seconds(), (int(took/sharedInterval)+1)*repositories)

	ended := time.Now()
	two.stop()
	f.take()
	f.waitForShards(one, three)
	t.Logf("the shards of the process that ended were owned %s after its end began", time.Since(ended).Round(time.Millisecond))
	f.report(4)
	f.waitFor(4)
	f.mu.Lock()
	defer f.mu.Unlock()
	readers := map[string]bool{}
	for cluster, stored := range f.stored {
		for i, line := range stored {
			seq, by, _ := strings.Cut(line, " by ")
			readers[by] = true
			if seq != fmt.Sprint(i+1) || i == 3 && by == "two" {
				t.Errorf("the reports of %s were stored as %q, want each once, in order, and the last by a process that runs", cluster, stored)
			}
		}
		if len(stored) != 4 {
			t.Errorf("of %s %d reports were stored, want 4: %q", cluster, len(stored), stored)
		}
	}
	if len(readers) != 3 {
		t.Errorf("the reports were read by %v, want three processes", readers)
	}
}

// A webhook call at any process makes the process that reads the repository look at once, and none at other repositories.
func TestAWebhookReachesTheReader(t *testing.T) {
	t.Parallel()
	f := newSharedFleet(t, Group.Shards)
	one, two := f.process("one", 10*time.Second, time.Hour), f.process("two", 10*time.Second, time.Hour)
	f.waitForShards(one, two)
	var named []string // a repository that each process reads
	for _, p := range []*sharingProcess{one, two} {
		f.eventually("a repository that "+p.name+" reads", func() bool {
			p.source.mu.Lock()
			defer p.source.mu.Unlock()
			for l := range p.source.pollers {
				named = append(named, pathOf(l.repo.URL))
				return true
			}
			return false
		})
	}
	f.eventually("the first read of each repository", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.listings) == Group.Shards
	})
	f.take()
	for i, path := range named {
		seq, cluster := uint64(i+1), v2.ClusterKey("edge+"+path)
		f.report(seq)
		f.eventually(fmt.Sprintf("report %d of %s", seq, cluster), func() bool {
			one.source.wake(map[string]bool{path: true}) // again, because a process that has just started misses announcements
			return f.reported(cluster) == seq
		})
	}
	f.mu.Lock()
	for repo, n := range f.listings {
		if !slices.Contains(named, strings.Trim(repo, "/")) {
			t.Errorf("%s was read %d times, and only %q were named", repo, n, named)
		}
	}
	f.mu.Unlock()
	f.report(9)
	f.eventually("report 9 of all clusters", func() bool {
		two.source.wake(nil) // a name that no process knows
		return !slices.ContainsFunc(f.fleet.clusters, func(c Cluster) bool { return f.reported(c.Name) < 9 })
	})
}

// announced are the pushes that a process announces.
type announced chan gitstate.Push

func (a announced) AnnouncePush(_ context.Context, p gitstate.Push) error {
	a <- p
	return nil
}

func (announced) Pushes(context.Context) iter.Seq[gitstate.Push] {
	return func(func(gitstate.Push) bool) {}
}

// A push that comes while another one is being announced is announced with it. Nothing is left for its own announcement then: one
// without names would have all processes read all repositories.
func TestAnAnnouncementNamesRepositories(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := make(announced, 10)
		s := &Source{pushes: all, poke: make(chan struct{}, 1), announced: map[string]bool{}, locations: locationMap{{repo: git.Repo{URL: "https://git.example/a"}}: {}}}
		ctx, cancel := context.WithCancel(t.Context())
		go s.announcePushes(ctx)
		s.wake(map[string]bool{"a": true})
		synctest.Wait()
		s.poke <- struct{}{}         // of a push that the announcement took along
		time.Sleep(10 * minInterval) //nolint:forbidigo // of a bubble's clock
		cancel()
		synctest.Wait()
		close(all)
		var got [][]string
		for p := range all {
			got = append(got, p.Paths)
		}
		if !reflect.DeepEqual(got, [][]string{{"a"}}) {
			t.Errorf("announced are %q, want a once", got)
		}
	})
}

// However many genuine calls come, a repository is looked at once in minInterval, and no other repository for them.
func TestH27ManyWebhooksAreFewLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := reportLocation{repo: git.Repo{URL: "https://git.example/a"}}, reportLocation{repo: git.Repo{URL: "https://git.example/b"}}
		s := &Source{
			poke: make(chan struct{}, 1), announced: map[string]bool{}, locations: locationMap{a: {}, b: {}},
			pollers: map[reportLocation]*poller{a: {wakeUp: make(chan struct{}, 1)}, b: {wakeUp: make(chan struct{}, 1)}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		looks := map[reportLocation]*atomic.Int64{a: {}, b: {}}
		for at, p := range s.pollers {
			go func() { // as run does
				for ctx.Err() == nil {
					looks[at].Add(1)
					p.wait(ctx, time.Hour)
				}
			}()
		}
		receive := s.Webhook("s")
		const calls, pause = 10_000, 6 * time.Millisecond // a minute
		for range calls {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v2/webhooks/git", strings.NewReader(`{"repository":{"clone_url":"https://git.example/a.git"}}`))
			r.Header.Set("X-Gitlab-Token", "s")
			w := httptest.NewRecorder()
			receive.ServeHTTP(w, r)
			if w.Code != http.StatusAccepted {
				t.Fatalf("a genuine call: %d", w.Code)
			}
			time.Sleep(pause) //nolint:forbidigo // of a bubble's clock
		}
		if n, most := looks[a].Load(), int64(calls*pause/minInterval)+2; n > most || n < most/2 {
			t.Errorf("%d calls are %d looks, want about %d", calls, n, most)
		}
		if n := looks[b].Load(); n != 1 {
			t.Errorf("a repository that no call names was looked at %d times", n)
		}
		cancel()
		synctest.Wait()
	})
}
