package mirror

import (
	"context"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// etcd is the one server of this test binary; every test has a prefix of its own.
var etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

// stage is a store with a mirror that runs, whose watch can be cut.
type stage struct {
	*testing.T
	prefix  string // of all keys
	store   *appcontext.Store
	writer  *pairstore.Writer // of all pairs
	mirror  *Mirror
	watcher *etcdtest.CutWatcher
	stop    func()

	mu  sync.Mutex
	ops map[string]int // requests to etcd, by kind
}

// newStage returns a stage whose mirror waits for its watch, however late that is on a busy
// machine: what its index does is the question.
func newStage(t *testing.T) *stage {
	t.Helper()
	return impatientStage(t, time.Minute)
}

// impatientStage is a stage whose mirror waits so long for its watch, before it reads
// etcd itself.
func impatientStage(t *testing.T, patience time.Duration) *stage {
	t.Helper()
	s := &stage{T: t, ops: map[string]int{}}
	c, watcher := etcdtest.WithCutWatcher(t.Context(), etcd)
	s.watcher, s.prefix = watcher, etcdtest.Prefix(t)
	s.store = appcontext.New(c, s.prefix, appcontext.WithOnOp(func(kind string, _ int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ops[kind]++
	}))
	s.writer = s.store.NewWriter(appcontext.Fence{}, pairstore.NewContents("one"))
	s.mirror = New(s.store, slog.New(slog.DiscardHandler))
	s.mirror.patience = patience
	s.run()
	return s
}

// run runs the mirror until stop, or the end of the test, and waits until it has an index.
func (s *stage) run() {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- s.mirror.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() { s.stop() })
	s.mirror.mu.RLock()
	moved := s.mirror.advanced
	s.mirror.mu.RUnlock()
	if !s.mirror.Behind() {
		return
	}
	select {
	case <-moved:
	case <-time.After(time.Minute):
		s.Fatal("the mirror does not begin")
	}
}

// requests returns how many requests to etcd do costs, but for those of the watch.
func (s *stage) requests(do func()) int {
	count := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for kind, k := range s.ops {
			if kind != "watch" {
				n += k
			}
		}
		return n
	}
	before := count()
	do()
	return count() - before
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) put(p ...appcontext.Pair) {
	s.Helper()
	for i := range p {
		p[i].Shard = "one"
	}
	s.must(s.writer.Write(s.Context(), p, nil))
}

// report has the agents of clusters report the same on pairs.
func (s *stage) report(commit string, on ...appcontext.Pair) {
	s.Helper()
	c := pairstore.ReportChange{Shared: func(appcontext.Report) bool { return true }}
	for _, p := range on {
		c.Put = append(c.Put, appcontext.Report{Key: p.Key, Seq: 7, Commit: commit, At: time.Unix(1, 0).UTC(), Since: time.Unix(int64(len(on)), 0).UTC()})
	}
	s.must(s.writer.WriteReports(s.Context(), c))
}

func (s *stage) snapshot(uid appcontext.HeadID) Snapshot {
	s.Helper()
	snap, err := s.mirror.Snapshot(s.Context(), uid)
	s.must(err)
	return snap
}

func (s *stage) compact() {
	s.Helper()
	r, err := etcd.Get(s.Context(), "x")
	s.must(err)
	if _, err := etcd.Compact(s.Context(), r.Header.Revision); err != nil && !strings.Contains(err.Error(), "compacted") {
		s.Fatal(err)
	}
}

func key(cluster v2.ClusterKey, deployment v2.DeploymentID, app string) appcontext.PairKey {
	return appcontext.PairKey{Cluster: cluster, Deployment: deployment, App: app}
}

// equal fails the test unless the mirror holds what etcd holds.
func (s *stage) equal(uid appcontext.HeadID) {
	s.Helper()
	want, err := s.mirror.read(s.Context(), uid)
	s.must(err)
	if got := s.snapshot(uid); !reflect.DeepEqual(normal(got), normal(want)) {
		s.Fatalf("deployment %s: the mirror has\n%+v\netcd has\n%+v", uid, normal(got), normal(want))
	}
}

// normal is a snapshot without pointers, for comparisons.
func normal(s Snapshot) (out []string) {
	if s.Head != nil {
		out = append(out, fmt.Sprintf("%+v", *s.Head))
	}
	for at, e := range s.Pairs.All() {
		line := fmt.Sprint(at)
		if p := e.State.Common(); p != nil {
			line += fmt.Sprintf(" %+v", *p)
		}
		if e.Report != nil {
			r := *e.Report
			r.shared = false
			line += fmt.Sprintf(" %+v", r)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// Whatever was written before a question is in its answer, and the answer costs one
// request, however many pairs there are. It runs alone: another test compacts the etcd that
// they share, and a watch that is behind at that moment costs requests.
func TestAnswersAreFreshAndCheap(t *testing.T) {
	s := newStage(t)
	for i := range 300 {
		s.put(appcontext.Pair{Key: key(v2.ClusterKey(fmt.Sprint("edge+c", i)), "7", "a"), Rev: int64(i)})
		var snap Snapshot
		if n := s.requests(func() { snap = s.snapshot("7") }); n != 1 {
			t.Fatalf("a question cost %d requests, want 1", n)
		}
		if snap.Pairs.Len() != i+1 || snap.Pairs.At(Pair{v2.ClusterKey(fmt.Sprint("edge+c", i)), "a"}).State.Common().Rev != int64(i) {
			t.Fatalf("after %d pairs the answer has %d", i+1, snap.Pairs.Len())
		}
	}
	head, err := s.store.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: "8", Document: "x", Inherited: "7"}, nil, nil)
	s.must(err)
	snap := s.snapshot("8")
	if snap.Head == nil || *snap.Head != head || snap.Pairs.Len() != 300 {
		t.Errorf("a head that took over another one's pairs: got head %+v and %d pairs", snap.Head, snap.Pairs.Len())
	}
	s.mirror.setBehind(true)
	if s.snapshot("8"); s.mirror.Behind() { // although nothing has happened since
		t.Error("the mirror has caught up and does not know")
	}
	s.must(s.store.Delete(t.Context(), "8"))
	if snap := s.snapshot("8"); snap.Head != nil || snap.Pairs.Len() != 0 {
		t.Errorf("a deleted head: got %+v", snap)
	}
	s.equal("7")
}

// A snapshot never shows the half of a transaction.
func TestSnapshotsAreOfOneRevision(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rev := range int64(200) {
			s.put(appcontext.Pair{Key: key("c1", "7", "a"), Rev: rev}, appcontext.Pair{Key: key("c2", "7", "a"), Rev: rev})
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		snap := s.snapshot("7")
		if snap.Pairs.Len() == 0 {
			continue
		}
		if one, two := snap.Pairs.At(Pair{"c1", "a"}).State.Common().Rev, snap.Pairs.At(Pair{"c2", "a"}).State.Common().Rev; one != two {
			t.Fatalf("revisions %d and %d, which were written together", one, two)
		}
	}
}

// A snapshot is lent, not copied: later changes leave it as it is, and reach the next one.
func TestASnapshotStaysAsItIs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, two, other := key("c1", "7", "a"), key("c2", "7", "a"), key("c1", "8", "a")
	s.put(appcontext.Pair{Key: one, Rev: 1}, appcontext.Pair{Key: other, Rev: 1})
	first, again := s.snapshot("7"), s.snapshot("7")
	if reflect.ValueOf(first.Pairs).Pointer() != reflect.ValueOf(again.Pairs).Pointer() || first.Pairs.Version("a") == nil || first.Pairs.Version("a") != again.Pairs.Version("a") {
		t.Error("two snapshots without a change between them do not share their pairs")
	}
	unrelated := s.snapshot("8")
	s.put(appcontext.Pair{Key: one, Rev: 2}, appcontext.Pair{Key: two, Rev: 2})
	changed := s.snapshot("7")
	s.must(s.writer.Write(s.Context(), nil, []appcontext.PairKey{one, two}))
	gone := s.snapshot("7")
	revs := func(snap Snapshot) string {
		out := map[string]int64{}
		for at, e := range snap.Pairs.All() {
			out[string(at.Cluster)] = e.State.Common().Rev
		}
		return fmt.Sprint(out)
	}
	if got := []string{revs(first), revs(changed), revs(gone), revs(unrelated)}; !slices.Equal(got, []string{"map[c1:1]", "map[c1:2 c2:2]", "map[]", "map[c1:1]"}) {
		t.Errorf("got %v: the first must stay, the next have the change, the last have nothing", got)
	}
}

// A change of one app copies the entries of that app: the snapshots before and after it share those of the others.
func TestAChangeCopiesTheEntriesOfItsApp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(appcontext.Pair{Key: key("c1", "7", "a"), Rev: 1}, appcontext.Pair{Key: key("c1", "7", "b"), Rev: 1})
	before := s.snapshot("7")
	s.put(appcontext.Pair{Key: key("c2", "7", "a"), Rev: 1})
	after := s.snapshot("7")
	same := func(app string) bool {
		return reflect.ValueOf(before.Pairs.Of(app)).Pointer() == reflect.ValueOf(after.Pairs.Of(app)).Pointer()
	}
	sameVersion := func(app string) bool { return before.Pairs.Version(app) == after.Pairs.Version(app) }
	if same("a") || !same("b") || sameVersion("a") || !sameVersion("b") || before.Pairs.Len() != 2 || after.Pairs.Len() != 3 {
		t.Errorf("before %v, after %v", before.Pairs, after.Pairs)
	}
	s.put(appcontext.Pair{Key: key("c1", "7", "b"), Rev: 2})
	if got := before.Pairs.At(Pair{"c1", "b"}).State.Common().Rev; got != 1 {
		t.Errorf("a snapshot has changed: revision %d", got)
	}
}

// Changes, lost watches and compactions in any order: the mirror always holds what etcd holds.
func TestH35CompactionWhileTheWatchIsCut(t *testing.T) {
	t.Parallel()
	s := impatientStage(t, 100*time.Millisecond)
	r := mathrand.New(mathrand.NewPCG(3, 5))
	heads := map[appcontext.HeadID]appcontext.Head{}
	i := 0
	change := func() {
		i++
		id := appcontext.HeadID(fmt.Sprint(r.IntN(3)))
		k := key(v2.ClusterKey(fmt.Sprint("c", r.IntN(8))), id.Deployment(), fmt.Sprint("a", r.IntN(2)))
		switch r.IntN(10) {
		case 7, 8, 9: // clusters that stand alike
			var put []appcontext.Pair
			for n := range 2 + r.IntN(6) {
				k.Cluster = v2.ClusterKey(fmt.Sprint("c", (n+i)%8))
				put = append(put, appcontext.Pair{Key: k, Rev: int64(r.IntN(3))})
				put[n].Rev = put[0].Rev
			}
			s.put(put...)
			s.report(fmt.Sprint("like ", r.IntN(3)), put...)
		case 0:
			s.must(s.writer.WriteReports(t.Context(), pairstore.ReportChange{Remove: []appcontext.PairKey{k}}))
			s.must(s.writer.Write(t.Context(), nil, []appcontext.PairKey{k}))
		case 1:
			s.must(s.store.Delete(t.Context(), id))
			delete(heads, id)
		case 2:
			to := appcontext.Head{UID: id, Rev: r.Int64()}
			next, err := s.store.ChangeHead(t.Context(), heads[id], to, nil, nil)
			s.must(err)
			heads[id] = next
		case 3, 4:
			p := appcontext.Pair{Key: k, Rev: r.Int64()}
			s.put(p)
			s.report(fmt.Sprint("alone ", r.IntN(1000)), p)
		default:
			s.put(appcontext.Pair{Key: k, Rev: r.Int64(), Held: []appcontext.Digest{"x", "y"}})
		}
	}
	for i := range 400 {
		change()
		s.equal("0")
		if i%40 == 39 {
			s.watcher.Lose(func() {
				for range r.IntN(20) {
					change()
				}
				s.equal("1") // answered from etcd
				if i%80 == 79 {
					s.compact()
				}
			})
			s.equal("2")
		}
	}

	s.mirror.patience = time.Minute // what a late watch costs is not the question
	for s.mirror.Behind() {
		s.snapshot("0")
		runtime.Gosched()
	}
	for i := range 3 {
		id := appcontext.HeadID(fmt.Sprint(i))
		s.equal(id)
		if n := s.requests(func() { s.snapshot(id) }); n != 1 {
			t.Errorf("after all that a question costs %d requests, want 1", n)
		}
	}
}

// Clusters that report the same share one report in memory.
func TestReportsThatSayTheSameAreOneInMemory(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var all []appcontext.Pair
	for i := range 6 {
		all = append(all, appcontext.Pair{Key: key(v2.ClusterKey(fmt.Sprint("c", i)), "7", "a"), Rev: 1})
	}
	s.put(all...)
	s.report("same", all[:4]...)
	late := appcontext.Report{Key: all[4].Key, Seq: 9, Commit: "same", Since: time.Unix(4, 0).UTC()}
	s.must(s.writer.WriteReports(t.Context(), pairstore.ReportChange{Put: []appcontext.Report{late}, Shared: func(appcontext.Report) bool { return true }}))
	s.report("other", all[5])
	s.report("other", all[0])
	snap := s.snapshot("7")
	of := func(i int) *Report { return snap.Pairs.At(Pair{all[i].Key.Cluster, "a"}).Report }
	for i, want := range []bool{false, true, true, true, true, false} {
		if got := of(i) == of(1); got != want || of(i).Seq == 0 {
			t.Errorf("cluster %d shares the report: %t, want %t; it is %+v", i, got, want, of(i))
		}
	}
	s.equal("7")
}

func TestWithoutRunAnswersComeFromEtcd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.stop()
	if !s.mirror.Behind() {
		t.Error("a mirror that does not run says that it is up to date")
	}
	s.put(appcontext.Pair{Key: key("c", "7", "a")}, appcontext.Pair{Key: key("c", "8", "a")})
	if snap := s.snapshot("7"); snap.Pairs.Len() != 1 {
		t.Errorf("got %+v", snap)
	}
	s.run()
	s.equal("7")
}

func TestEtcdAwayIsAnError(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if snap, err := s.mirror.Snapshot(ctx, "7"); err == nil {
		t.Errorf("got %+v and no error", snap)
	}
}

// What cannot be read must not pass for what is not there.
func TestRecordsThatCannotBeReadAreNotMissed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.put(appcontext.Pair{Key: key("c", "7", "a")}, appcontext.Pair{Key: key("c", "8", "a")})
	_, err := etcd.Put(t.Context(), s.prefix+"/pair/c/7/a", "{")
	s.must(err)
	if snap, err := s.mirror.Snapshot(t.Context(), "7"); err == nil {
		t.Errorf("got %+v and no error", snap)
	}
	s.equal("8")
	s.put(appcontext.Pair{Key: key("c", "7", "a"), Rev: 2})
	s.equal("7")
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sub := s.mirror.Subscribe(Topics{Heads: []appcontext.HeadID{"7"}, Deployments: []v2.DeploymentID{"7", "9"}})
	defer sub.Close()
	told := func(want bool) {
		t.Helper()
		s.snapshot("7") // the mirror has seen all that was written until here
		select {
		case <-sub.Changed():
			if !want {
				t.Error("told of nothing")
			}
		default:
			if want {
				t.Error("not told")
			}
		}
	}
	told(false)
	s.put(appcontext.Pair{Key: key("c", "8", "a")})
	told(false)
	for rev := range int64(5) {
		s.put(appcontext.Pair{Key: key("c", "7", "a"), Rev: rev})
	}
	told(true)
	told(false)
	s.must(s.store.PutReports(t.Context(), appcontext.Fence{}, []appcontext.Report{{Key: key("c", "9", "a")}}, nil))
	told(true)
	_, err := s.store.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: "7"}, nil, nil)
	s.must(err)
	told(true)
	report := func(r appcontext.Report) {
		r.Key = key("c", "9", "a")
		s.must(s.store.PutReports(t.Context(), appcontext.Fence{}, []appcontext.Report{r}, nil))
	}
	report(appcontext.Report{Seq: 2, At: time.Unix(2, 0)}) // a sign of life
	told(false)
	sub.SignalRepeats(true)
	report(appcontext.Report{Seq: 3, At: time.Unix(3, 0)})
	told(true)
	sub.SignalRepeats(false)
	for _, news := range []appcontext.Report{
		{Commit: "c"},
		{Commit: "c", Ready: true},
		{Ready: true, Since: time.Unix(1, 0)},
		{Truncated: 1},
		{Resources: []appcontext.ResourceStatus{{Status: "Current"}}},
		{Resources: []appcontext.ResourceStatus{{Status: "Current", Extra: true}}},
	} {
		report(news)
		told(true)
	}
	sub.Follow(Topics{Deployments: []v2.DeploymentID{"8"}})
	s.put(appcontext.Pair{Key: key("c", "7", "a")})
	told(false)
	s.must(s.writer.Write(t.Context(), nil, []appcontext.PairKey{key("c", "8", "a")}))
	told(true)
	s.watcher.Lose(func() {
		for rev := range int64(3) {
			s.put(appcontext.Pair{Key: key("c", "5", "a"), Rev: rev})
		}
		s.compact()
	})
	select {
	case <-sub.Changed(): // all records follow again, so anything may have changed
	case <-time.After(time.Minute):
		t.Error("no signal when the watch began again")
	}
	sub.Close()
	if n := len(s.mirror.subs.heads) + len(s.mirror.subs.deployments); n != 0 {
		t.Errorf("after all are closed %d are left", n)
	}
}

// A deployment keeps its id through migrations; its name is that of the group that has it now.
func TestADeploymentHasTheNameOfItsLastGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	heads := map[appcontext.HeadID]appcontext.Head{}
	step := func(to appcontext.Head) {
		t.Helper()
		to.Document = "group " + string(to.UID)
		next, err := s.store.ChangeHead(t.Context(), heads[to.UID], to, nil, nil)
		s.must(err)
		heads[to.UID] = next
	}
	called := func(want string) {
		t.Helper()
		s.snapshot("1") // the mirror has seen all that was written until here
		if got := s.mirror.Document("1"); got != want {
			t.Errorf("deployment 1 is called %q, want %q", got, want)
		}
	}
	called("")
	step(appcontext.Head{UID: "1"})
	called("group 1")
	step(appcontext.Head{UID: "2", Inherited: "1"})
	step(appcontext.Head{UID: "1", MovedTo: "2"})
	called("group 2")
	step(appcontext.Head{UID: "2", Inherited: "1", MovedTo: "3"})
	step(appcontext.Head{UID: "3", Inherited: "1"})
	called("group 3")
	s.must(s.store.Delete(t.Context(), "1"))
	called("group 3")
	s.must(s.store.Delete(t.Context(), "3"))
	called("")
}

// A cluster's last sign of life confirms all its reports, from the watch and from etcd.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	at := time.Unix(1000, 0).UTC()
	for _, c := range []v2.ClusterKey{"c1", "c2"} {
		s.put(appcontext.Pair{Key: key(c, "7", "a")})
		s.must(s.store.PutReports(t.Context(), appcontext.Fence{}, []appcontext.Report{{Key: key(c, "7", "a"), Seq: 5, At: at}}, nil))
	}
	s.must(s.store.PutReports(t.Context(), appcontext.Fence{}, []appcontext.Report{{Key: key("c1", "7", "watched"), At: at}}, nil))
	sub := s.mirror.Subscribe(Topics{Deployments: []v2.DeploymentID{"7"}})
	defer sub.Close()
	sub.SignalRepeats(true)
	agent := agents.Agent{Cluster: "c1", Tokens: []agents.Token{{ID: "x"}}}
	for i, passed := range []time.Duration{-time.Minute, time.Minute, 2 * time.Minute} {
		agent.Seq, agent.At = uint64(i), at.Add(passed)
		now, _, err := s.store.UpdateAgents(t.Context(), []agents.Update{{Agent: agent}})
		s.must(err)
		agent = now[0]
		want := at.Add(max(0, passed))
		read, err := s.mirror.read(t.Context(), "7")
		s.must(err)
		for how, snap := range map[string]Snapshot{"the mirror": s.snapshot("7"), "etcd": read} {
			one, two := snap.Pairs.At(Pair{"c1", "a"}), snap.Pairs.At(Pair{"c2", "a"})
			if !one.Heard().Equal(want) || !two.Heard().Equal(at) {
				t.Errorf("by %s c1 was heard of at %s and c2 at %s, want %s and %s", how, one.Heard(), two.Heard(), want, at)
			}
			if w := snap.Pairs.At(Pair{"c1", "watched"}); w != nil && !w.Heard().Equal(at) {
				t.Errorf("by %s what is watched was heard of at %s", how, w.Heard())
			}
		}
		select {
		case <-sub.Changed():
		case <-time.After(time.Minute):
			t.Error("no signal for a sign of life")
		}
	}
	for a := range s.mirror.Agents(t.Context()) {
		if a.Cluster != "c1" || a.Seq != 2 || len(a.Tokens) > 0 {
			t.Errorf("told is %+v", a)
		}
		break
	}
	s.must(s.store.DeleteAgent(t.Context(), agent))
	if e := s.snapshot("7").Pairs.At(Pair{"c1", "a"}); !e.Heard().Equal(at) {
		t.Errorf("of an agent that is gone c1 was heard of at %s", e.Heard())
	}
}

func TestReportsAreKeptInLittleSpace(t *testing.T) {
	t.Parallel()
	object := func(i int, extra bool) appcontext.ResourceStatus {
		id := manifest.ID{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprint("m", i)}
		return appcontext.ResourceStatus{ID: id, Status: "Current", Reason: strings.Repeat("é", 200), Extra: extra}
	}
	var many []appcontext.ResourceStatus
	for i := range maxObjects + 5 {
		many = append(many, object(i, i%2 == 1))
	}
	r := compact(appcontext.Report{Resources: many, Truncated: 1, Seq: 7, Commit: "c", Proof: appcontext.Proof{By: "c", Holds: "h"}, Ready: true})
	if len(r.Objects) != 2503 || len(r.Extras) != maxExtras || r.Truncated != 1+2502-maxExtras || r.Seq != 7 || r.Commit != "c" || r.Proof.Holds != "h" || !r.Ready {
		t.Errorf("got %d objects, %d extras, %d cut, %+v", len(r.Objects), len(r.Extras), r.Truncated, r.Seq)
	}
	if reason := r.Objects[0].Value().Reason; len(reason) > maxReason+3 || !strings.HasSuffix(reason, "é…") {
		t.Errorf("the reason has %d bytes and ends with %q", len(reason), reason[len(reason)-5:])
	}
	one, same, other := compact(appcontext.Report{Resources: many[:3]}), compact(appcontext.Report{Resources: slices.Clone(many[:3])}), compact(appcontext.Report{Resources: many[:2]})
	if one.Sum != same.Sum || !slices.Equal(one.Objects, same.Objects) {
		t.Error("equal reports differ")
	}
	if slices.Equal(one.Objects, other.Objects) == (one.Sum != other.Sum) {
		t.Error("different reports have the same sum")
	}
}

func TestNamesDoNotGrowForEver(t *testing.T) {
	t.Parallel()
	n := names{}
	for i := range 2*maxNames + 10 {
		if s := fmt.Sprint("n", i); n.of(s) != s {
			t.Fatalf("%q became something else", s)
		}
	}
	if len(n) > maxNames {
		t.Errorf("%d names are kept", len(n))
	}
}
