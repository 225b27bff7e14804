package workflowmgr

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// While the runs are read, a user requests an update with a hook. The hook is not judged by the head from
// before, and a hook that was replaced nevertheless does not let its operation go on.
func TestHooksAreJudgedByTheirOwnHead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := embedded.Start(ctx, embedded.Options{Dir: t.TempDir(), NoFsync: true})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	t.Cleanup(func() { must(server.Close()) })
	users := appcontext.New(server.Client(), "/emco/")
	head, err := users.ChangeHead(ctx, appcontext.Head{}, appcontext.Head{UID: "1", State: appcontext.Instantiated, Rev: 1, LastRev: 1}, nil, nil)
	must(err)

	update := func() {
		to, op := head, appcontext.Operation{ID: "o", UID: "1", Kind: "update", Rev: 2, Hooks: true}
		to.Op = &op
		_, err := users.ChangeHeads(ctx, appcontext.HeadChange{From: head, To: to, Runs: []appcontext.WorkflowRun{
			{Name: appcontext.HookRun("h"), ID: "i", Hook: v2.PreUpdate, Operation: "o", Rev: 2, State: v2.RunWaiting},
		}})
		must(err)
	}
	own := appcontext.New(server.Client(), "/emco/", appcontext.WithOnOp(func(kind string, _ int) {
		if kind == "get" && update != nil {
			now := update
			update = nil
			now()
		}
	}))
	r := &reconciler{reconcilers: &reconcilers{Worker: &Worker{now: time.Now}, contexts: own}, uid: "1", live: map[appcontext.RunName]*execution{}}
	_, err = r.reconcile(ctx)
	must(err)
	h, runs, err := users.HeadAndRuns(ctx, "1")
	must(err)
	if len(runs) != 1 || runs[0].State != v2.RunWaiting || h.Op == nil || !h.Op.Hooks {
		t.Fatalf("after an update while the runs were read: %+v, %+v", h, runs)
	}

	runs[0].State = v2.RunReplaced
	_, err = users.SetRun(ctx, runs[0])
	must(err)
	_, err = r.reconcile(ctx)
	must(err)
	h, runs, err = users.HeadAndRuns(ctx, "1")
	must(err)
	if h.Op == nil || !h.Op.Hooks {
		t.Errorf("a replaced hook let its operation go on: %+v", h.Op)
	}
	if got := workflow.Actions(runs[0], h); len(got) != 3 {
		t.Errorf("users may %q; want retry, skip and abort", got)
	}
}

// At its start a process sees the last runs of all deployments. Those that need nothing cost no goroutine, and no
// request to etcd.
func TestRunsThatAreOverWakeNothing(t *testing.T) {
	t.Parallel()
	ended, stop := context.WithCancel(t.Context())
	stop()
	contexts := contexttest.New(t)
	heads := mirror.New(contexts, slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(func() { leave(); running.Wait() })
	running.Go(func() { _ = heads.Run(ctx) })
	var last appcontext.Head
	for _, h := range []appcontext.Head{
		{UID: "quiet", State: appcontext.Instantiated, Rev: 2, LastRev: 2},
		{UID: "gated", State: appcontext.Instantiated, Rev: 1, LastRev: 2, Op: &appcontext.Operation{ID: "now", UID: "gated", Kind: "update", Rev: 2, Hooks: true}},
	} {
		var err error
		if last, err = contexts.ChangeHead(t.Context(), appcontext.Head{}, h, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := heads.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	for known := false; !known; _, known = heads.HeadSince(last.UID, last.Mod) {
		heads.CatchUp(t.Context()) // waits about a second at most, which a busy machine may need
	}
	w := &Worker{now: time.Now, mirror: heads}
	for _, c := range []struct {
		uid                    appcontext.HeadID
		hook, state, operation string
		mod                    int64
		wakes                  bool
	}{
		{"quiet", v2.PostUpdate, v2.RunSucceeded, "", 0, false},
		{"quiet", v2.PostTermination, v2.RunSkipped, "", 0, false},
		{"quiet", "", v2.RunFailed, "", 0, false},
		{"quiet", "", v2.RunCanceled, "", 0, false},
		{"quiet", v2.PostUpdate, v2.RunWaiting, "", 0, true},
		{"quiet", v2.PostUpdate, v2.RunFailed, "", 0, true},
		{"quiet", "", v2.RunRunning, "", 0, true},
		{"quiet", v2.PreUpdate, v2.RunSucceeded, "now", last.Mod, false},
		{"quiet", v2.PreUpdate, v2.RunReplaced, "now", last.Mod, false},
		{"quiet", v2.PreUpdate, v2.RunFailed, "now", last.Mod, true},
		{"quiet", v2.PreUpdate, v2.RunSucceeded, "now", last.Mod + 1<<40, true}, // the mirror is behind
		{"unknown", v2.PreUpdate, v2.RunSucceeded, "now", last.Mod, false},
		{"gated", v2.PreUpdate, v2.RunSucceeded, "before", last.Mod, false},
		{"gated", v2.PreUpdate, v2.RunSucceeded, "now", last.Mod, true},
		{"gated", v2.PreUpdate, v2.RunReplaced, "now", last.Mod, true},
	} {
		s := &reconcilers{Worker: w, contexts: contexts, by: map[appcontext.HeadID]chan struct{}{}}
		s.wake(ended, appcontext.WorkflowRun{UID: c.uid, Hook: c.hook, State: c.state, Operation: c.operation, Mod: c.mod})
		s.running.Wait()
		if woken := len(s.by) == 1; woken != c.wakes {
			t.Errorf("%+v: woken %v", c, woken)
		}
	}
}

// A hook that failed waits for its user: reports of clusters, which may be many, lead to no look at it.
func TestOnlyHooksThatWaitForTheStatusFollowReports(t *testing.T) {
	t.Parallel()
	for state, follows := range map[string]bool{v2.RunWaiting: true, v2.RunFailed: false} {
		ctx, contexts := t.Context(), contexttest.New(t)
		head, err := contexts.ChangeHead(ctx, appcontext.Head{}, appcontext.Head{UID: "1", State: appcontext.Instantiated, LastRev: 1}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		to := head
		to.Op = &appcontext.Operation{ID: "o", UID: "1", Kind: "instantiate", Rev: 1}
		if _, err := contexts.ChangeHeads(ctx, appcontext.HeadChange{From: head, To: to, Runs: []appcontext.WorkflowRun{
			{Name: appcontext.HookRun("h"), ID: "i", Hook: v2.PostInstall, Operation: "o", Rev: 1, State: state},
		}}); err != nil {
			t.Fatal(err)
		}
		seen := mirror.New(contexts, slog.New(slog.DiscardHandler)) // without an index its answers come from etcd
		w := &Worker{now: time.Now, mirror: seen, reader: statusview.New(contexts, seen, statusview.Default())}
		r := &reconciler{reconcilers: &reconcilers{Worker: w, contexts: contexts}, uid: "1", live: map[appcontext.RunName]*execution{}}
		got, err := r.reconcile(ctx)
		if err != nil || got.done || got.status != follows || len(got.topics.Deployments) == 1 != follows || len(got.topics.Heads) != 1 {
			t.Errorf("a hook that is %s: %+v, %v", state, got, err)
		}
	}
}

// cancels notes each cancellation that it gets: whether it terminates.
type cancels struct {
	workflow.Runner // nil: nothing else is called
	got             []bool
}

func (*cancels) Admit(v2.WorkflowSpec) error { return nil }

func (c *cancels) Cancel(_ context.Context, j workflow.Job) error {
	c.got = append(c.got, j.Terminate)
	return nil
}

// The runs are read while an execution records its end. That reading starts the execution no second time, which would
// cancel the workflow again, in the other way.
func TestWhatWasReadBeforeAnEndStartsNothing(t *testing.T) {
	t.Parallel()
	ctx, contexts, db := t.Context(), contexttest.New(t), resourcetest.DB(t)
	const group = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g"
	head, err := contexts.ChangeHead(ctx, appcontext.Head{}, appcontext.Head{UID: "1", State: appcontext.Instantiated, LastRev: 1}, nil, nil)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	_, err = db.Create(ctx, store.Write{
		Key: group + "/" + workflow.WorkflowCollection + "/w", Body: []byte(`{"metadata":{"name":"w"},"spec":{"runner":"http"}}`),
	})
	must(err)
	before, err := contexts.SetRun(ctx, appcontext.WorkflowRun{
		UID: head.UID, Group: group, Name: appcontext.StartedRun("w"), ID: "i", State: v2.RunRunning, Cancel: "by a user", Terminate: true,
	})
	must(err)
	runner := &cancels{}
	w := &Worker{
		db: db, now: time.Now, log: slog.New(slog.DiscardHandler), runners: workflow.Runners{"http": runner},
		shares: fairshare.New(fairshare.Options{Permits: 1, PerTenant: 1}),
	}
	r := &reconciler{reconcilers: &reconcilers{Worker: w, contexts: contexts}, uid: head.UID, changed: make(chan struct{}, 1), live: map[appcontext.RunName]*execution{}}
	for range 2 {
		r.start(ctx, before)
		r.jobs.Wait()
	}
	now, err := contexts.Run(ctx, head.UID, before.Name)
	must(err)
	if now.State != v2.RunCanceled || !slices.Equal(runner.got, []bool{true}) {
		t.Errorf("the run is %s, its cancellations terminate: %v; want one that does", now.State, runner.got)
	}
	if got, err := r.reconcile(ctx); err != nil || !got.done {
		t.Errorf("after the runs are read again: %+v, %v", got, err)
	}
}
