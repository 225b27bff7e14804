package rsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	clientv3 "go.etcd.io/etcd/client/v3"

	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// works is an etcd, a document store and a Git server, with several processes at work.
// Cluster cN pulls from repository rN.
type works struct {
	*testing.T
	etcd     *clientv3.Client
	contexts *appcontext.Store // through which the test reads
	db       *store.DB
	outage   *resourcetest.Outage // of db
	git      *gittest.Server
	heads    map[appcontext.HeadID]appcontext.Head
}

func newWorks(t *testing.T, repositories int) *works {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	w := &works{T: t, heads: map[appcontext.HeadID]appcontext.Head{}}
	w.must(err)
	w.outage, w.db = resourcetest.NewOutage(t)
	t.Cleanup(func() { w.must(server.Close()) })
	w.etcd, w.contexts = server.Client(), appcontext.New(server.Client(), "/emco/")
	w.git, err = gittest.Serve(t.TempDir(), gittest.User{Name: "emco", Token: "secret", Write: true})
	w.must(err)
	t.Cleanup(func() { _ = w.git.Close() })
	for n := range repositories {
		name := fmt.Sprint("r", n)
		_, err := w.git.Seed(t.Context(), name, "main")
		w.must(err)
		text := `{"metadata":{"name":"` + name + `"},"spec":{"kv":[{"url":"` + w.git.URL(name) + `","userName":"emco","gitToken":"secret"}]}}`
		_, err = w.db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/cluster-sync-objects/" + name), Secret: seal.Secret(text)})
		w.must(err)
		register(t, w.db, fmt.Sprint("c", n), name)
	}
	return w
}

func (w *works) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// process is a service with all that its process has of its own.
type process struct {
	*Service
	holder  string
	fenced  atomic.Int64 // writes that etcd refused
	mu      sync.Mutex
	batches []batch.Event
}

// process makes a process, which is not at work yet. What through returns is put between
// the service and its Git writer.
func (w *works) process(holder string, through func(deliver.Committer) deliver.Committer) *process {
	w.Helper()
	p := &process{holder: holder}
	contexts := appcontext.New(w.etcd, "/emco/", appcontext.WithOnFenced(func() { p.fenced.Add(1) }))
	host := plain.New(plain.Options{})
	writers := batch.New(host, batch.Options{Window: time.Millisecond, Observe: func(e batch.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.batches = append(p.batches, e)
	}})
	w.Cleanup(func() { writers.Close(); _ = host.Close() })
	log := slog.New(slog.NewTextHandler(w.Output(), nil)).With("holder", holder)
	var c deliver.Committer = writers
	if through != nil {
		c = through(c)
	}
	seen := mirror.New(contexts, log)
	w.run(func(ctx context.Context) { _ = seen.Run(ctx) })
	p.Service = New(Parts{
		DB: w.db, Contexts: contexts, Mirror: seen, Backends: backends.Backends(), Git: c, Kube: kube.New(kube.Options{}),
		Member: shards.Member{Holder: holder, TTL: time.Minute}, Workers: 2, Log: log,
		Retry: pair.Retry{First: 20 * time.Millisecond, Longest: 100 * time.Millisecond},
	})
	return p
}

// run runs something until the test ends, or it is stopped.
func (w *works) run(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	stop = func() { cancel(); done.Wait() }
	w.Cleanup(stop)
	return stop
}

// start has a process do its part until it is stopped.
func (w *works) start(p *process) (stop func()) {
	return w.run(func(ctx context.Context) {
		if err := p.Run(ctx); err != nil {
			w.Error(err)
		}
	})
}

// hold has a process work on the shard of a repository, and on no other, without anybody
// telling it if it loses that. It returns how to stop it hearing of heads, and how to
// take the shard from it.
func (w *works) hold(p *process, repository string) (deafen, dispossess func()) {
	w.Helper()
	n := route.Branch{URL: w.git.URL(repository), Name: "main"}.Shard()
	own, err := p.shared.Contexts.Own(w.Context(), route.Group.Shard(n), p.holder, time.Minute)
	w.must(err)
	deafen = w.run(func(ctx context.Context) { p.heads.Run(ctx, p.shared.Contexts) })
	w.run(func(ctx context.Context) { p.shared.Branches.Run(ctx) })
	w.run(func(ctx context.Context) {
		if err := p.runShard(ctx, n, own); err != nil && ctx.Err() == nil && !errors.Is(err, appcontext.ErrFenced) {
			w.Error(err)
		}
	})
	return deafen, func() {
		w.Helper()
		w.must(own.Release(context.Background()))
	}
}

// wish makes the next revision of a deployment: an object with a content, on clusters. Without
// clusters, nothing is desired.
func (w *works) wish(uid appcontext.HeadID, content string, clusters ...v2.ClusterKey) {
	w.Helper()
	head := w.heads[uid]
	to := head
	if len(clusters) == 0 {
		to.Gone = true
		next, err := w.contexts.ChangeHead(w.Context(), head, to, nil, nil)
		w.must(err)
		w.heads[uid] = next
		return
	}
	text := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"},"data":{"is":"` + content + `"}}`)
	d := manifest.DigestOf(text)
	w.must(w.contexts.PutBlobs(w.Context(), map[appcontext.Digest][]byte{d: text}))
	id := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "settings"}
	bundle, err := w.contexts.PutBundle(w.Context(), appcontext.Bundle{Objects: []appcontext.Ref{{ID: id, Digest: d}}})
	w.must(err)
	var places []appcontext.Placement
	for _, c := range clusters {
		places = append(places, appcontext.Placement{Cluster: c, Apps: map[string]appcontext.Digest{"web": bundle}})
	}
	to.UID, to.Document, to.LastRev, to.Gone = uid, "the group", head.LastRev+1, false
	to, err = w.contexts.ChangeHead(w.Context(), head, to, nil, &appcontext.Operation{ID: fmt.Sprint("op", to.LastRev), Rev: to.LastRev})
	w.must(err)
	rev := appcontext.Revision{Number: to.LastRev, Namespace: "default", Apps: []appcontext.App{{Name: "web", Bundles: []appcontext.Digest{bundle}}}}
	w.heads[uid], err = w.contexts.Publish(w.Context(), to, rev, slices.Values(places))
	w.must(err)
}

// pairs returns what is in etcd, by "cluster deployment".
func (w *works) pairs() map[string]appcontext.Pair {
	w.Helper()
	out := map[string]appcontext.Pair{}
	for p, err := range w.contexts.Pairs(w.Context()) {
		w.must(err)
		out[string(p.Key.Cluster)+" "+string(p.Key.Deployment)] = p
	}
	return out
}

// until waits until something is true of all pairs, or of what else there is.
func (w *works) until(what string, holds func(map[string]appcontext.Pair) bool) {
	w.Helper()
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		pairs := w.pairs()
		if holds(pairs) {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("%s did not come; pairs are %+v", what, pairs)
		}
	}
}

// applied waits until so many pairs are there, all settled at a revision.
func (w *works) applied(n int, rev int64) {
	w.Helper()
	w.until(fmt.Sprintf("revision %d on %d clusters", rev, n), func(pairs map[string]appcontext.Pair) bool {
		for _, p := range pairs {
			if p.Phase != appcontext.Applied || p.Rev != rev {
				return false
			}
		}
		return len(pairs) == n
	})
}

// file returns the path of the object of a deployment on a cluster.
func file(cluster, uid string) string {
	return "clusters/edge+" + cluster + "/context/" + uid + "/app/web/settings+ConfigMap.yaml"
}

// holds checks what the object of a deployment has on a repository.
func (w *works) holds(repository, cluster, uid, content string) {
	w.Helper()
	got, err := w.git.Bare(repository).Show(w.Context(), "main", file(cluster, uid))
	if (content == "") != (err != nil) || !strings.Contains(got, content) {
		w.Errorf("%s of %s on %s holds %q, %v, want %q", uid, cluster, repository, got, err, content)
	}
}

// log returns the titles of a repository's commits, newest first.
func (w *works) log(repository string) string {
	w.Helper()
	out, err := w.git.Bare(repository).Git(w.Context(), "", "log", "--format=%s", "main")
	w.must(err)
	return strings.ReplaceAll(strings.ReplaceAll(out, "Update the group on ", "+"), "\n", " ")
}

func (p *process) events() []batch.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.batches)
}

// made counts the commits of a process, by repository.
func (p *process) made() map[string]int {
	out := map[string]int{}
	for _, e := range p.events() {
		if e.Committed {
			out[e.Repo]++
		}
	}
	return out
}

// Two rsync leaders: the first is paused between planning and pushing, longer than its
// lease. When it goes on, its push is refused by Git, and its bookkeeping by etcd.
func TestH33AStaleLeaderIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	inPush, goOn := make(chan struct{}), make(chan struct{})
	w.git.BeforePush(func(string) {
		w.git.BeforePush(nil)
		close(inPush)
		<-goOn
	})
	first := w.process("first", nil)
	deafen, dispossess := w.hold(first, "r0")
	w.wish("7", "old", "edge+c0")
	<-inPush
	deafen() // a paused process gets no events
	dispossess()

	w.wish("7", "new", "edge+c0")
	second := w.process("second", nil)
	w.hold(second, "r0")
	w.applied(1, 2)
	before := w.pairs()
	refused := first.fenced.Load()
	close(goOn)
	w.until("the refusal", func(map[string]appcontext.Pair) bool { return len(first.events()) > 0 && first.fenced.Load() > refused })
	for _, e := range first.events() { // it may try again before it knows that it has lost the shard
		if !e.Fenced || e.Committed {
			t.Errorf("a batch of the paused leader is %+v, want it to be fenced", e)
		}
	}
	if after := w.pairs(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pairs are %+v, want them as the new leader left them: %+v", after, before)
	}
	if got := w.log("r0"); got != "+edge+c0 foreign" {
		t.Errorf("commits %s, want one of the new leader", got)
	}
	w.holds("r0", "c0", "7", "new")
	if got := second.made(); !maps.Equal(got, map[string]int{w.git.URL("r0"): 1}) {
		t.Errorf("the new leader made %v", got)
	}
}

// A process is killed when its commit is on the branch and before that is written down;
// then others commit. The next one finds the commit, makes no second one, and
// writes down success.
func TestH31WhatAKilledProcessHasPushedIsFound(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	var kill func()
	first := w.process("first", func(c deliver.Committer) deliver.Committer {
		return commitsFunc(func(ctx context.Context, j batch.Job) (git.Hash, error) {
			hash, err := c.Submit(ctx, j)
			if kill != nil {
				kill() // from here on nothing of it reaches etcd
			}
			return hash, err
		})
	})
	_, dispossess := w.hold(first, "r0")
	w.wish("7", "1", "edge+c0")
	w.applied(1, 1)
	killed := make(chan struct{})
	kill = func() { kill = nil; dispossess(); close(killed) }
	w.wish("7", "2", "edge+c0")
	<-killed
	pushed, err := w.git.Bare("r0").Git(t.Context(), "", "rev-parse", "main")
	w.must(err)
	_, err = w.git.Bare("r0").CommitExternal(t.Context(), "main", map[string]gittest.File{"README.md": {Content: "by hand"}})
	w.must(err)
	if p := w.pairs()["edge+c0 7"]; p.Phase != appcontext.Pending || p.Rev != 2 {
		t.Fatalf("before the restart the pair is %+v, want it pending", p)
	}
	w.hold(w.process("second", nil), "r0")
	w.applied(1, 2)
	if got := w.log("r0"); got != "foreign +edge+c0 +edge+c0 foreign" {
		t.Errorf("commits %s, want no second one", got)
	}
	if p := w.pairs()["edge+c0 7"]; p.Commit != pushed {
		t.Errorf("the pair is with commit %s, want that of the killed process, %s", p.Commit, pushed)
	}
}

type commitsFunc func(context.Context, batch.Job) (git.Hash, error)

func (f commitsFunc) Submit(ctx context.Context, j batch.Job) (git.Hash, error) { return f(ctx, j) }

// Two processes share the repositories; when one leaves, the other does all.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	const repositories = 10
	w := newWorks(t, repositories)
	one, two := w.process("one", nil), w.process("two", nil)
	w.start(one)
	leave := w.start(two)
	w.until("both have a part", func(map[string]appcontext.Pair) bool {
		a, b := one.group.Status(), two.group.Status()
		return a.Working > 0 && b.Working > 0 && a.Working+b.Working == route.Group.Shards && one.Ready() == nil && two.Ready() == nil
	})
	var all []v2.ClusterKey
	for n := range repositories {
		all = append(all, v2.NewClusterKey("edge", fmt.Sprint("c", n)))
	}
	w.wish("7", "green", all...)
	w.applied(repositories, 1)
	a, b := one.made(), two.made()
	for url := range a {
		if b[url] > 0 {
			t.Errorf("both have written to %s", url)
		}
	}
	if len(a) == 0 || len(b) == 0 || len(a)+len(b) != repositories {
		t.Errorf("one has written to %d repositories, two to %d, want all %d shared", len(a), len(b), repositories)
	}

	leave()
	w.wish("7", "red", all...)
	w.applied(repositories, 2)
	w.wish("8", "blue", all...)
	w.until("the second deployment", func(pairs map[string]appcontext.Pair) bool { return len(pairs) == 2*repositories })
	w.wish("7", "")
	w.until("the end of the first one", func(pairs map[string]appcontext.Pair) bool {
		for _, p := range pairs {
			if p.Key.Deployment == "7" || p.Phase != appcontext.Applied {
				return false
			}
		}
		return len(pairs) == repositories
	})
	for n := range repositories {
		w.holds(fmt.Sprint("r", n), fmt.Sprint("c", n), "7", "")
		w.holds(fmt.Sprint("r", n), fmt.Sprint("c", n), "8", "blue")
	}
	w.wish("8", "")
	w.until("the end", func(pairs map[string]appcontext.Pair) bool { return len(pairs) == 0 })
	w.until("nothing is remembered of branches", func(map[string]appcontext.Pair) bool {
		for range w.contexts.Branches(t.Context()) {
			return false
		}
		return true
	})
	if n := one.fenced.Load() + two.fenced.Load(); n > 0 {
		t.Errorf("%d writes were fenced, though each had its own", n)
	}
}

// Others rewrite a branch: its pairs fail and name the remedy, nothing is pushed, and
// others go on. When the history is adopted all that is desired is there again, that of
// deployments included that have not changed.
func TestH49RewrittenHistoryIsAdopted(t *testing.T) {
	t.Parallel()
	for name, rewrite := range map[string]func(w *works, b gittest.Bare){
		"force-pushed": func(w *works, b gittest.Bare) {
			_, err := b.Git(w.Context(), "", "update-ref", "refs/heads/main", "main~2")
			w.must(err)
			_, err = b.CommitExternal(w.Context(), "main", map[string]gittest.File{"README.md": {Content: "another way"}})
			w.must(err)
		},
		"deleted": func(w *works, b gittest.Bare) {
			_, err := b.Git(w.Context(), "", "update-ref", "-d", "refs/heads/main")
			w.must(err)
		},
		"unrelated": func(w *works, b gittest.Bare) {
			root, err := b.Git(w.Context(), "", "commit-tree", "-m", "anew", "main~2^{tree}")
			w.must(err)
			_, err = b.Git(w.Context(), "", "update-ref", "refs/heads/main", root)
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorks(t, 2)
			stop := w.start(w.process("one", nil))
			w.wish("7", "green", "edge+c0", "edge+c1")
			w.applied(2, 1)
			w.wish("8", "blue", "edge+c0")
			w.applied(3, 1)
			rewrite(w, w.git.Bare("r0"))
			stop() // what was written is known after a restart as well
			w.start(w.process("two", nil))
			_, before := w.git.Requests()
			w.wish("7", "red", "edge+c0", "edge+c1")
			w.until("the refusal", func(pairs map[string]appcontext.Pair) bool {
				p := pairs["edge+c0 7"]
				return p.Phase == appcontext.Failed && strings.Contains(p.Error, "HistoryRewritten") && p.Reason == pair.HistoryRewritten && p.Attempt > 2 && pairs["edge+c1 7"].Phase == appcontext.Applied
			})
			if _, now := w.git.Requests(); now != before+1 {
				t.Errorf("%d pushes were sent, want that to the other repository", now-before)
			}
			_, err := w.contexts.Adopt(t.Context(), w.git.URL("r0"), "main")
			w.must(err)
			w.until("all that is desired", func(pairs map[string]appcontext.Pair) bool {
				b, err := w.contexts.Branch(t.Context(), w.git.URL("r0"), "main")
				return err == nil && b.Rewritten == 1 && b.Commit != "" && !slices.ContainsFunc(slices.Collect(maps.Values(pairs)), func(p appcontext.Pair) bool { return p.Phase != appcontext.Applied || p.Reason != "" })
			})
			w.holds("r0", "c0", "7", "red")
			w.holds("r0", "c0", "8", "blue")
			w.holds("r1", "c1", "7", "red")
		})
	}
}
