package workflowmgr

import (
	"context"
	"log/slog"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
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
	head, err := users.Step(ctx, appcontext.Head{}, appcontext.Head{UID: "1", State: appcontext.Instantiated, Rev: 1, LastRev: 1}, nil, nil)
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

// At its start a process sees the last runs of all deployments. Those that need nothing cost no goroutine.
func TestRunsThatAreOverWakeNothing(t *testing.T) {
	t.Parallel()
	ended, stop := context.WithCancel(t.Context())
	stop()
	contexts := contexttest.New(t)
	w := &Worker{now: time.Now, mirror: mirror.New(contexts, slog.New(slog.DiscardHandler))}
	for _, c := range []struct {
		hook, state string
		wakes       bool
	}{
		{v2.PostUpdate, v2.RunSucceeded, false},
		{v2.PostTermination, v2.RunSkipped, false},
		{"", v2.RunFailed, false},
		{"", v2.RunCanceled, false},
		{v2.PreUpdate, v2.RunSucceeded, true},
		{v2.PostUpdate, v2.RunWaiting, true},
		{v2.PostUpdate, v2.RunFailed, true},
		{"", v2.RunRunning, true},
	} {
		s := &reconcilers{Worker: w, contexts: contexts, by: map[appcontext.HeadID]chan struct{}{}}
		s.wake(ended, appcontext.WorkflowRun{UID: "1", Hook: c.hook, State: c.state})
		s.running.Wait()
		if woken := len(s.by) == 1; woken != c.wakes {
			t.Errorf("%s hook that is %s: woken %v", c.hook, c.state, woken)
		}
	}
}
