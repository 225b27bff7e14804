package shard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"

	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

// contextHeads has an AppContext stand for a HeadFeed.
type contextHeads struct{ *appcontext.Store }

func (contextHeads) HeadsOf(v2.DeploymentID) []appcontext.HeadID { return nil }
func (contextHeads) Recheck(appcontext.HeadID)                   {}

// newShard returns a loaded shard over real stores. Nothing runs it. shards returns the
// shards of clusters.
func newShard(t *testing.T, number int, shards func(context.Context, []v2.ClusterKey) (map[v2.ClusterKey]int, error)) (s *Shard, contexts *appcontext.Store, db *store.DB) {
	t.Helper()
	contexts, db = contexttest.New(t), resourcetest.DB(t)
	log := slog.New(slog.DiscardHandler)
	s = New(t.Context(), Shared{
		Contexts: contexts, Heads: contextHeads{contexts}, Revisions: NewRevisionCache(contexts, shards),
		Routes:  &route.Resolver{DB: db, Backends: backends.Backends(), Rules: syncobjects.Rules{}},
		Content: content.NewReader(contexts), Branches: branchguard.NewRecords(contexts, log), Moves: clustermove.NewProgress(contexts, log),
		Retry: retry, Alone: func() bool { return false }, Log: log,
	}, number, contexttest.Own(t, contexts, route.Group.Shard(0), "a"), func() {})
	t.Cleanup(s.retries.Stop)
	t.Cleanup(s.reconciler.stopTimers)
	if err := s.pairs.Load(t.Context(), pairstore.NewContents(s.pairs.Shard())); err != nil {
		t.Fatal(err)
	}
	return s, contexts, db
}

// publish makes the next revision of deployment 7, with the app "web" on clusters.
func publish(t *testing.T, contexts *appcontext.Store, head appcontext.Head, clusters ...v2.ClusterKey) appcontext.Head {
	t.Helper()
	to := head
	to.UID, to.Document, to.LastRev = "7", "the group", head.LastRev+1
	to, err := contexts.ChangeHead(t.Context(), head, to, nil, &appcontext.Operation{ID: fmt.Sprint("op", to.LastRev), Rev: to.LastRev})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := contexts.PutBundle(t.Context(), appcontext.Bundle{})
	if err != nil {
		t.Fatal(err)
	}
	var places []appcontext.Placement
	for _, c := range clusters {
		places = append(places, appcontext.Placement{Cluster: c, Apps: map[string]appcontext.Digest{"web": bundle}})
	}
	to, err = contexts.Publish(t.Context(), to, appcontext.Revision{Number: to.LastRev}, slices.Values(places))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func (s *Shard) phases() string {
	var out []string
	for _, t := range s.pairs.All() {
		for _, p := range s.pairs.Of(t) {
			out = append(out, fmt.Sprint(p.Key.Cluster, " ", p.Phase))
		}
	}
	return strings.Join(out, ", ")
}

// change writes a change of a head.
func change(t *testing.T, contexts *appcontext.Store, head appcontext.Head, how func(*appcontext.Head)) appcontext.Head {
	t.Helper()
	to := head
	how(&to)
	next, err := contexts.ChangeHead(t.Context(), head, to, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func reconcile(t *testing.T, s *Shard, e appcontext.HeadEvent) string {
	t.Helper()
	due, err := s.reconciler.reconcileHead(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(due)
}

func TestHeadsAreReconciledOnce(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	head := publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2")
	first := head
	gone := func(h *appcontext.Head) { h.Gone = true }
	for _, tt := range []struct {
		name      string
		change    func(*appcontext.Head) // what is written before the event comes; nil for nothing
		event     func() appcontext.Head
		due, held string
	}{
		{"a new revision", nil, nil, "[{edge+c1 7} {edge+c2 7}]", "edge+c1 Pending, edge+c2 Pending"},
		{"the same again", nil, nil, "[]", "edge+c1 Pending, edge+c2 Pending"},
		{"another change of the head", func(h *appcontext.Head) { h.Failure = "could not be carried out" }, nil, "[]", "edge+c1 Pending, edge+c2 Pending"},
		{"a termination", gone, nil, "[{edge+c1 7} {edge+c2 7}]", "edge+c1 Deleting, edge+c2 Deleting"},
		{"an event that a later one has overtaken", nil, func() appcontext.Head { return first }, "[]", "edge+c1 Deleting, edge+c2 Deleting"},
		{"the same revision, wanted again", func(h *appcontext.Head) { h.Gone = false }, nil, "[{edge+c1 7} {edge+c2 7}]", "edge+c1 Pending, edge+c2 Pending"},
	} {
		if tt.change != nil {
			head = change(t, contexts, head, tt.change)
		}
		e := appcontext.HeadEvent{Head: head}
		if tt.event != nil {
			e.Head = tt.event()
		}
		if due := reconcile(t, s, e); due != tt.due || s.phases() != tt.held {
			t.Errorf("%s: due %s, pairs %s\nwant %s, %s", tt.name, due, s.phases(), tt.due, tt.held)
		}
	}
	if err := contexts.Delete(t.Context(), head.UID); err != nil {
		t.Fatal(err)
	}
	e := appcontext.HeadEvent{Head: appcontext.Head{UID: head.UID}, Deleted: true}
	if due := reconcile(t, s, e); due != "[{edge+c1 7} {edge+c2 7}]" || s.phases() != "edge+c1 Deleting, edge+c2 Deleting" {
		t.Errorf("a deletion: due %s, pairs %s", due, s.phases())
	}
	if len(s.reconciler.reconciled) > 0 {
		t.Errorf("a deleted deployment is remembered: %v", s.reconciler.reconciled)
	}
}

// A head that took over a deployment changes nothing before it has a revision. The
// deployment outlives the other head, even if that is deleted before its handover is seen.
func TestTakenOverPairsStay(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		s, contexts, _ := newShard(t, 0, inFirst)
		from := publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2")
		reconcile(t, s, appcontext.HeadEvent{Head: from})
		const held = "edge+c1 Pending, edge+c2 Pending"
		given := from
		given.MovedTo, given.Rev = "8", 0
		heads, err := contexts.ChangeHeads(t.Context(), appcontext.HeadChange{From: from, To: given}, appcontext.HeadChange{To: appcontext.Head{UID: "8", Inherited: "7"}})
		if err != nil {
			t.Fatal(err)
		}
		events := []appcontext.HeadEvent{{Head: heads[0]}, {Head: heads[1]}}
		if late {
			if err := contexts.Delete(t.Context(), "7"); err != nil {
				t.Fatal(err)
			}
			events = append(events, appcontext.HeadEvent{Head: appcontext.Head{UID: "7"}, Deleted: true})
		}
		for i, e := range events {
			if due := reconcile(t, s, e); due != "[]" || s.phases() != held {
				t.Errorf("late %v, event %d: due %s, pairs %s", late, i, due, s.phases())
			}
		}
		gone := change(t, contexts, heads[1], func(h *appcontext.Head) { h.Gone = true })
		if due := reconcile(t, s, appcontext.HeadEvent{Head: gone}); due != "[{edge+c1 7} {edge+c2 7}]" || s.phases() != "edge+c1 Deleting, edge+c2 Deleting" {
			t.Errorf("late %v, when it is terminated: due %s, pairs %s", late, due, s.phases())
		}
	}
}

func TestAClusterThatLeavesARevisionIsEmptied(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	head := publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2")
	if _, err := s.reconciler.reconcileHead(t.Context(), appcontext.HeadEvent{Head: head}); err != nil {
		t.Fatal(err)
	}
	head = publish(t, contexts, head, "edge+c2", "edge+c3")
	if _, err := s.reconciler.reconcileHead(t.Context(), appcontext.HeadEvent{Head: head}); err != nil {
		t.Fatal(err)
	}
	if got := s.phases(); got != "edge+c1 Deleting, edge+c2 Pending, edge+c3 Pending" {
		t.Errorf("pairs %s", got)
	}
}

func TestAMissingRevisionIsSkipped(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	head := publish(t, contexts, appcontext.Head{}, "edge+c1")
	if err := contexts.Delete(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if err := s.reconciler.handleHead(t.Context(), appcontext.HeadEvent{Head: head}); err != nil || s.phases() != "" {
		t.Errorf("got %v, pairs %s", err, s.phases())
	}
}

func TestALostTermEnds(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	head := publish(t, contexts, appcontext.Head{}, "edge+c1")
	contexttest.Own(t, contexts, route.Group.Shard(0), "a") // the next life of the same process
	if err := s.reconciler.handleHead(t.Context(), appcontext.HeadEvent{Head: head}); err == nil || errs.KindOf(err) != errs.Conflict {
		t.Errorf("got %v, want the ownership to be lost", err)
	}
}

// register registers a cluster that pulls from Git, or a direct one if it has no sync object.
func register(t *testing.T, db *store.DB, name, syncObject string) {
	t.Helper()
	body := `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"` + syncObject + `"}}}`
	if syncObject == "" {
		body = `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{}}}`
	}
	if _, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name), Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

func TestTargetsAreQueuedByRoute(t *testing.T) {
	t.Parallel()
	s, contexts, db := newShard(t, 0, inFirst)
	for name, syncObject := range map[string]string{"c1": "one", "c2": "one", "c3": "two", "c4": "none", "c5": ""} {
		register(t, db, name, syncObject)
	}
	for _, name := range []string{"one", "two"} {
		text := `{"metadata":{"name":"` + name + `"},"spec":{"kv":[{"url":"http://127.0.0.1:1/` + name + `.git","userName":"emco","gitToken":"secret"}]}}`
		_, err := db.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/cluster-sync-objects/" + name), Secret: seal.Secret(text)})
		if err != nil {
			t.Fatal(err)
		}
	}
	head := publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2", "edge+c3", "edge+c4", "edge+c5", "edge+c6")
	due, err := s.reconciler.reconcileHead(t.Context(), appcontext.HeadEvent{Head: head})
	if err != nil {
		t.Fatal(err)
	}
	queued := make(chan string, 10)
	s.queues = queue.NewWorkers(func(_ context.Context, lane string, due []pair.Target) { queued <- fmt.Sprint(lane, " ", len(due)) })
	s.Requeue(t.Context(), due)
	s.queues.Wait()
	close(queued)
	var got []string
	for q := range queued {
		got = append(got, q)
	}
	slices.Sort(got)
	if want := []string{"git http://127.0.0.1:1/one.git main emco 2", "git http://127.0.0.1:1/two.git main emco 1"}; !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q", got, want)
	}
	for cluster, reason := range map[v2.ClusterKey]string{"edge+c4": "cluster-sync-objects/none", "edge+c5": "no kubeconfig", "edge+c6": "not found"} {
		p := s.pairs.Of(pair.Target{Cluster: cluster, Deployment: "7"})[0]
		if p.Phase != appcontext.Failed || !strings.Contains(p.Error, reason) {
			t.Errorf("%s: %s %q, want Failed for %q", cluster, p.Phase, p.Error, reason)
		}
	}
}

// What must be removed from a cluster that is no longer registered is out of reach. A
// registered cluster that cannot be reached may still hold it.
func TestRemovalsFromLostClustersAreForgotten(t *testing.T) {
	t.Parallel()
	s, contexts, db := newShard(t, 0, inFirst)
	register(t, db, "c4", "none")
	head := publish(t, contexts, appcontext.Head{}, "edge+c4", "edge+gone")
	for _, e := range []appcontext.HeadEvent{{Head: head}, {Head: head, Deleted: true}} {
		if e.Deleted {
			if err := contexts.Delete(t.Context(), head.UID); err != nil {
				t.Fatal(err)
			}
		}
		due, err := s.reconciler.reconcileHead(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		s.Requeue(t.Context(), due)
		if want := map[bool]string{false: "edge+c4 Failed, edge+gone Failed", true: "edge+c4 Failed"}[e.Deleted]; s.phases() != want {
			t.Errorf("deleted %v: pairs %s, want %s", e.Deleted, s.phases(), want)
		}
	}
}

// While a cluster's registration changes, each process may take another shard for the one
// that starts there. The orphan sweep starts what no shard has started, and nothing else.
func TestTheOrphanSweepStartsWhatNoShardHas(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, route.Group.Of("7"), func(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
		out := map[v2.ClusterKey]int{}
		for _, c := range clusters {
			out[c] = route.Group.Of("7") + 1 // as processes see it that read another registration
		}
		return out, nil
	})
	head := publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2")
	begun := appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c2", Deployment: "7", App: "web"}, Phase: appcontext.Applied, Shard: "rsync-99"}
	if err := contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{begun}, nil); err != nil {
		t.Fatal(err)
	}
	e := appcontext.HeadEvent{Head: head}
	if due := reconcile(t, s, e); due != "[]" {
		t.Errorf("due %s, want nothing to be this shard's", due)
	}
	if due := reconcile(t, s, e); due != "[]" {
		t.Errorf("due %s before it is time", due)
	}
	s.reconciler.rechecks.add("7", recheck{claim: true})
	if due := reconcile(t, s, e); due != "[{edge+c1 7}]" || s.phases() != "edge+c1 Pending" {
		t.Errorf("due %s, pairs %s; want the cluster on which no shard has started", due, s.phases())
	}
	if due := reconcile(t, s, e); due != "[]" {
		t.Errorf("due %s again", due)
	}
}

// A delivery that fails because the shard stops has not failed.
func TestStoppingIsNoFailure(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	if _, err := s.reconciler.reconcileHead(t.Context(), appcontext.HeadEvent{Head: publish(t, contexts, appcontext.Head{}, "edge+c1", "edge+c2")}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, second := s.pairs.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"})[0], s.pairs.Of(pair.Target{Cluster: "edge+c2", Deployment: "7"})[0]
	s.Record(ended, []pair.Result{
		{Key: first.Key, Bundle: first.Desired, Err: context.Canceled}, {Key: second.Key, Bundle: second.Desired, Commit: "c0ffee"},
	})
	if got := s.phases(); got != "edge+c1 Pending, edge+c2 Applied" {
		t.Errorf("pairs %s: want proof to be recorded, and no failure", got)
	}
}

// once refuses the first write of pairs.
type once struct {
	pairs.PairWriter
	refused bool
}

func (o *once) Write(ctx context.Context, put []appcontext.Pair, remove []appcontext.PairKey) error {
	if len(put) > 0 && !o.refused {
		o.refused = true
		return errs.New(errs.Unavailable, "too slow")
	}
	return o.PairWriter.Write(ctx, put, remove)
}

// Of many results, those that were recorded stay so although others were not.
func TestRecordedResultsSurviveLaterErrors(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	own := s.pairs.Fence()
	s.pairs = pairs.New(pairs.Config{
		AppContext: contexts, Fence: own, Retry: retry,
		NewWriter: func(stored *pairstore.Contents) pairs.PairWriter {
			return &once{PairWriter: contexts.NewWriter(own, stored)}
		},
	})
	stored := pairstore.NewContents("")
	var outcomes []pair.Result
	for i := range recordTogether + 100 {
		k := appcontext.PairKey{Cluster: v2.NewClusterKey("edge", fmt.Sprintf("c%04d", i)), Deployment: "7", App: "web"}
		stored.Records = append(stored.Records, appcontext.Pair{Key: k, Desired: "bundle", Phase: appcontext.Pending})
		outcomes = append(outcomes, pair.Result{Key: k, Bundle: "bundle", Commit: "c0ffee"})
	}
	if err := s.pairs.Load(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	s.Record(t.Context(), outcomes)
	count := map[appcontext.Phase]int{}
	for _, o := range outcomes {
		p := s.pairs.Of(pair.TargetOf(o.Key))[0]
		count[p.Phase]++
	}
	if count[appcontext.Applied] != 100 || count[appcontext.Pending] != recordTogether {
		t.Errorf("phases are %v, want the 100 that were recorded to be applied and the others to wait", count)
	}
}

var retry = pair.Retry{First: time.Second, Longest: 5 * time.Minute}
