package orchestrator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/tracingtest"
)

// workerFixture is an etcd and a document store on which several workers work. It has the cluster p+c.
type workerFixture struct {
	*testing.T
	etcd     *clientv3.Client
	contexts *appcontext.Store // the test reads and queues with it
	db       *store.DB
}

func newWorkerFixture(t *testing.T) workerFixture {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	p := workerFixture{T: t, db: resourcetest.DB(t)}
	p.must(err)
	t.Cleanup(func() { p.must(server.Close()) })
	p.etcd, p.contexts = server.Client(), appcontext.New(server.Client(), "/emco/")
	for _, key := range []store.Key{"cluster-providers/p", "cluster-providers/p/clusters/c"} {
		_, err := p.db.Create(t.Context(), store.Write{Key: key, Body: []byte("{}")})
		p.must(err)
	}
	return p
}

func (p workerFixture) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// worker returns the worker of another process, with a connection of its own.
func (p workerFixture) worker(holder string, opts ...appcontext.Option) *Worker {
	contexts := appcontext.New(p.etcd, "/emco/", opts...)
	me := shards.Member{Holder: holder, TTL: time.Minute}
	return NewWorker(&Groups{groupDocs: groupDocs{p.db}, contexts: contexts, planner: plan.New(p.db, nil)}, nil, nil, me, nil, slog.New(slog.DiscardHandler))
}

// start runs a worker until the test ends.
func (p workerFixture) start(w *Worker) {
	ctx, cancel := context.WithCancel(p.Context())
	var run sync.WaitGroup
	run.Go(func() { p.must(w.Run(ctx)) })
	p.Cleanup(func() { cancel(); run.Wait() })
}

// rollBack makes a deployment with one revision and queues an operation that restores it as
// the second one, which needs no rendering.
func (p workerFixture) rollBack(name string) appcontext.Operation {
	p.Helper()
	ctx := p.Context()
	doc, err := p.db.Create(ctx, store.Write{Key: store.Key("groups/" + name), Body: []byte("{}")})
	p.must(err)
	head, err := p.contexts.ChangeHead(ctx, appcontext.Head{}, appcontext.Head{UID: appcontext.HeadID(doc.UID), Document: string(doc.Key)}, nil, nil)
	p.must(err)
	bundle, err := p.contexts.PutBundle(ctx, appcontext.Bundle{})
	p.must(err)
	places := []appcontext.Placement{{Cluster: "p+c", Apps: map[string]appcontext.Digest{"web": bundle}}}
	head, err = p.contexts.Publish(ctx, head, appcontext.Revision{Number: 1}, slices.Values(places))
	p.must(err)
	to := head
	to.LastRev = 2
	op := appcontext.Operation{ID: "op-" + name, UID: appcontext.HeadID(doc.UID), Kind: "rollback", Rev: 2, From: 1}
	_, err = p.contexts.ChangeHead(ctx, head, to, nil, &op)
	p.must(err)
	return op
}

// revisions returns the numbers of a deployment's revisions.
func (p workerFixture) revisions(uid appcontext.HeadID) string {
	p.Helper()
	var out []string
	for r, err := range p.contexts.Revisions(p.Context(), uid) {
		p.must(err)
		out = append(out, fmt.Sprint(r.Number))
	}
	return strings.Join(out, " ")
}

// published waits until a deployment's second revision is there, and nothing waits.
func (p workerFixture) published(uid appcontext.HeadID) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	for e, err := range p.contexts.WatchHeads(ctx) {
		p.must(err)
		if e.Head.UID == uid && e.Head.Rev == 2 && e.Head.Op == nil {
			return
		}
	}
	p.Fatalf("deployment %s has no second revision", uid)
}

// shared waits until each of two workers has a part of the shards, and together all.
func (p workerFixture) shared(one, two *Worker) {
	p.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a, b := one.operations.Status(), two.operations.Status()
		if a.Members == 2 && b.Members == 2 && a.Working > 0 && b.Working > 0 && a.Working+b.Working == operatorGroup.Shards {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("one stands at %+v, two at %+v", a, b)
		}
	}
}

// A worker that is put to sleep in the middle of an operation does not know that another
// one has carried it out meanwhile: what it goes on to write is refused.
func TestH32TwoLeadersMakeOneRevision(t *testing.T) {
	t.Parallel()
	p, ctx := newWorkerFixture(t), t.Context()
	op := p.rollBack("g")
	shard := operatorGroup.Shard(operatorGroup.Of(string(op.UID)))
	asleep, wake := make(chan struct{}), make(chan struct{})
	var fenced atomic.Int64
	var once sync.Once
	sleeper := p.worker("first", appcontext.WithOnFenced(func() { fenced.Add(1) }), appcontext.WithOnOp(func(kind string, _ int) {
		if kind == "txn" { // the placements are written, the head is not
			once.Do(func() { close(asleep); <-wake })
		}
	}))
	carryOut := func(w *Worker, own *shards.Ownership) {
		w.execute(ctx, revision.Builder{Contexts: w.contexts.Fenced(own.Fence())}, op)
	}
	first, err := p.contexts.Own(ctx, shard, "first", time.Minute)
	p.must(err)
	var sleep sync.WaitGroup
	sleep.Go(func() { carryOut(sleeper, first) })
	<-asleep
	p.must(first.Release(ctx)) // as if its lease had run out
	second, err := p.contexts.Own(ctx, shard, "second", time.Minute)
	p.must(err)
	carryOut(p.worker("second"), second)
	p.published(op.UID)
	before, err := p.contexts.Head(ctx, op.UID)
	p.must(err)
	close(wake)
	sleep.Wait()
	after, err := p.contexts.Head(ctx, op.UID)
	p.must(err)
	if got := p.revisions(op.UID); got != "1 2" || after.Mod != before.Mod {
		t.Errorf("revisions %s, the head is %+v, want it as the second worker left it: %+v", got, after, before)
	}
	tries, err := p.etcd.Get(ctx, "/emco/dep/"+string(op.UID)+"/place/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	p.must(err)
	if len(tries.Kvs) != 2 {
		t.Errorf("%d placements are left, want those of two revisions", len(tries.Kvs))
	}
	if fenced.Load() != 1 {
		t.Errorf("%d writes were fenced, want 1", fenced.Load())
	}
}

// Several processes share the operations; each is carried out once, even if its event is
// repeated.
func TestWorkersShareOperations(t *testing.T) {
	t.Parallel()
	p, ctx := newWorkerFixture(t), t.Context()
	one, two := p.worker("one"), p.worker("two")
	p.start(one)
	p.start(two)
	p.shared(one, two)
	var ops []appcontext.Operation
	for i := range 12 {
		op := p.rollBack(fmt.Sprint("g", i))
		ops = append(ops, op)
		key := "/emco/op/" + string(op.UID) + "/" + op.ID
		if r, err := p.etcd.Get(ctx, key); err == nil && len(r.Kvs) == 1 {
			if _, err := p.etcd.Put(ctx, key, string(r.Kvs[0].Value)); err != nil { // repeats the event
				t.Error(err)
			}
		}
	}
	for _, op := range ops {
		p.published(op.UID)
		if got := p.revisions(op.UID); got != "1 2" {
			t.Errorf("%s: revisions %s", op.ID, got)
		}
	}
	for _, w := range []*Worker{one, two} {
		if err := w.Ready(); err != nil || !strings.HasPrefix(w.State(), "works on ") {
			t.Errorf("%s is not ready: %v, %s", w.Name(), err, w.State())
		}
	}
}

// The sweep forgets the agents of clusters that are no longer registered, and no others.
func TestAgentsAreKeptWithTheirClusters(t *testing.T) {
	t.Parallel()
	p := newWorkerFixture(t)
	w, ctx := p.worker("first"), t.Context()
	for _, key := range []store.Key{"cluster-providers/edge", "cluster-providers/edge/clusters/a", "cluster-providers/edge/clusters/b"} {
		_, err := p.db.Create(ctx, store.Write{Key: key, Body: []byte("{}")})
		p.must(err)
	}
	p.must(p.db.Delete(ctx, "cluster-providers/edge/clusters/b", nil))
	for name, want := range map[v2.ClusterKey]bool{"edge+a": true, "edge+b": false, "none+a": false, "edge": false} {
		if there, err := w.isRegistered(ctx, name); err != nil || there != want {
			t.Errorf("isRegistered(%s) = %v, %v", name, there, err)
		}
	}
	for _, cluster := range []v2.ClusterKey{"edge+a", "edge+b"} {
		_, _, err := p.contexts.UpdateAgents(ctx, []agents.Update{{Agent: agents.Agent{Cluster: cluster, Seq: 1}}})
		p.must(err)
	}
	p.must(p.contexts.SweepAgents(ctx, w.isRegistered))
	agents, err := p.contexts.AgentsOf(ctx, []v2.ClusterKey{"edge+a", "edge+b"})
	if err != nil || len(agents) != 1 || agents[0].Cluster != "edge+a" {
		t.Errorf("left are %+v, %v", agents, err)
	}
}

// execute runs one operation as a worker does.
func (p workerFixture) execute(op appcontext.Operation) {
	p.Helper()
	w := p.worker("one")
	w.execute(p.Context(), revision.Builder{Contexts: p.contexts, Blobs: p.contexts}, op)
}

func (p workerFixture) head(uid appcontext.HeadID) appcontext.Head {
	p.Helper()
	head, err := p.contexts.Head(p.Context(), uid)
	p.must(err)
	return head
}

// A worker may see an operation after the head has moved on to another one. Executing the
// old one would publish the new one's revision, which another worker may publish as well.
func TestASupersededOperationIsNotExecuted(t *testing.T) {
	t.Parallel()
	p := newWorkerFixture(t)
	old := p.rollBack("g")
	head := p.head(old.UID)
	to := head
	to.LastRev = 3
	next := appcontext.Operation{ID: "next", UID: old.UID, Kind: "rollback", Rev: 3, From: 1}
	_, err := p.contexts.ChangeHead(t.Context(), head, to, nil, &next)
	p.must(err)

	collector := tracingtest.Serve(t)
	tracer := collector.Tracer(t)
	old.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.worker("one").WithTracer(tracer).execute(t.Context(), revision.Builder{Contexts: p.contexts, Blobs: p.contexts}, old)
	if got := p.revisions(old.UID); got != "1" {
		t.Errorf("after the superseded operation there are revisions %s, want 1", got)
	}
	tracer.Close()
	if span := collector.One(t, "operation rollback"); span.Failure != "" {
		t.Errorf("the span of the superseded operation is %+v: it did not fail", span)
	}
	if op := p.head(old.UID).Op; op == nil || op.ID != "next" {
		t.Errorf("the head waits for %+v, want the next operation", op)
	}
	p.execute(next)
	if got := p.revisions(old.UID); got != "1 3" {
		t.Errorf("after the next operation there are revisions %s, want 1 3", got)
	}
}

// The key of a deleted document may name another one. The operation of the deleted one's
// deployment must not make a revision from the other one's documents.
func TestAnOperationIsNotExecutedForANamesake(t *testing.T) {
	t.Parallel()
	p := newWorkerFixture(t)
	op := p.rollBack("g")
	p.must(p.db.Delete(t.Context(), "groups/g", nil))
	_, err := p.db.Create(t.Context(), store.Write{Key: "groups/g", Body: []byte("{}")})
	p.must(err)

	p.execute(op)
	if got := p.revisions(op.UID); got != "1" {
		t.Errorf("there are revisions %s, want 1", got)
	}
	if head := p.head(op.UID); head.Op != nil || !strings.Contains(head.Failure, "deleted") {
		t.Errorf("the head is %+v, want the failure recorded", head)
	}
}

// refusing publishes nothing.
type refusing struct {
	errs  []error // of the attempts
	tried int
}

func (r *refusing) Publish(_ context.Context, _ *appcontext.Store, head appcontext.Head, _ store.Doc) (appcontext.Head, error) {
	err := r.errs[min(r.tried, len(r.errs)-1)]
	r.tried++
	return head, err
}

// A permanent error ends the operation at once; one that may pass does not.
func TestPermanentErrorsOfPublicationEndTheOperation(t *testing.T) {
	t.Parallel()
	p := newWorkerFixture(t)
	for _, kind := range []errs.Kind{errs.TooLarge, errs.Forbidden, errs.Invalid, errs.NotFound} {
		op := p.rollBack(kind.String())
		r := &refusing{errs: []error{errs.New(errs.Unavailable, "the store does not answer"), errs.New(kind, "it is refused")}}
		w := p.worker("one")
		w.addons = addon.Publishers{"groups": r}
		w.execute(p.Context(), revision.Builder{Contexts: p.contexts, Blobs: p.contexts}, op)
		if head := p.head(op.UID); r.tried != 2 || head.Op != nil || head.Failure != "it is refused" {
			t.Errorf("%s: after %d attempts the head is %+v", kind, r.tried, head)
		}
	}
}

// A failure counts once it is recorded: an operation that something else has superseded did not fail.
func TestTheWitnessSeesOnlyFailuresThatAreRecorded(t *testing.T) {
	t.Parallel()
	p := newWorkerFixture(t)
	p.rollBack("a")
	var seen []string
	w := p.worker("one").WithWitness(func(op appcontext.Operation, _ string, failed bool) {
		seen = append(seen, fmt.Sprint(op.Kind, " failed: ", failed))
	})
	var head appcontext.Head
	for h, err := range p.contexts.Heads(t.Context()) {
		p.must(err)
		head = h
	}
	cause := errs.New(errs.Invalid, "the chart is broken")
	stale := head
	stale.Mod--
	if err := w.fail(t.Context(), p.contexts, stale, cause); !errs.Is(err, errs.Conflict) || len(seen) > 0 {
		t.Errorf("a head that has changed: %v, and the witness saw %v", err, seen)
	}
	if err := w.fail(t.Context(), p.contexts, head, cause); err != nil || len(seen) != 1 {
		t.Errorf("%v, and the witness saw %v", err, seen)
	}
}
