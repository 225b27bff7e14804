package orchestrator

import (
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// hook adds a hook to the group. No worker of this test runs it.
func (g testGroup) hook(kind string) {
	g.Helper()
	body := `{"metadata":{"name":"` + kind + `"},"spec":{"hookType":"` + kind + `","temporal":{"workflowClientName":"w"}}}`
	_, err := g.db.Create(g.Context(), store.Write{Key: store.Key(g.path() + "/" + workflow.HookCollection + "/" + kind), Body: []byte(body)})
	g.must(err)
}

// release lets the group's operation go on, as workflowmgr does when its hooks are complete.
func (g testGroup) release() {
	g.Helper()
	_, err := g.contexts.ChangeHeads(g.Context(), workflow.Release(g.head(), time.Now()))
	g.must(err)
}

// waits checks whether the group's operation waits for hooks.
func (g testGroup) waits(want bool) {
	g.Helper()
	if h := g.head(); (h.Op != nil && h.Op.Hooks) != want {
		g.Fatalf("the operation %+v waits for hooks: want %v", h.Op, want)
	}
}

// A hook may wait for days. Content that nothing needs goes meanwhile, and the operation is done after the hook.
func TestWaitingHooksHoldNoSweepBack(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	p.work() // the logical cloud
	garbage := manifest.DigestOf([]byte("garbage"))
	p.must(p.contexts.PutBlobs(t.Context(), map[appcontext.Digest][]byte{garbage: []byte("garbage")}))
	g.hook(v2.PreInstall)
	g.acts("approve", "instantiate")
	g.waits(true)
	p.work()
	if h := g.head(); h.Rev != 0 || h.Op == nil {
		t.Fatalf("the operation was done before its hook: %+v", h)
	}
	removed := 0
	for range 2 {
		swept, err := p.contexts.Sweep(t.Context(), keptRevisions)
		p.must(err)
		if removed += swept.Removed; swept.Held > 0 {
			t.Errorf("a waiting hook holds content back: %+v", swept)
		}
	}
	if removed == 0 {
		t.Error("unused content is left")
	}
	g.release()
	g.waits(false)
	p.work()
	if h := g.head(); h.Rev != 1 || h.Op != nil {
		t.Errorf("after its hook: %+v", h)
	}
}

// abort ends the group's operation, as a user does at its hook.
func (g testGroup) abort(kind string) {
	g.Helper()
	head, runs, err := g.contexts.HeadAndRuns(g.Context(), g.head().UID)
	g.must(err)
	for _, r := range runs {
		if r.Name != appcontext.HookRun(kind) {
			continue
		}
		m, err := workflow.Abort(*head, r, "", "ann", time.Now())
		g.must(err)
		_, err = g.contexts.ChangeHeads(g.Context(), m)
		g.must(err)
		return
	}
	g.Fatalf("there is no run of %s", kind)
}

// While a termination waits for its hooks everything still runs: it cannot be deleted, and it counts.
func TestATerminationThatWaitsRemovesNothing(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	uses := p.counted(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	g.hook(v2.PreTermination)
	g.acts("terminate")
	g.waits(true)
	uses(1, 1)
	if a := g.act("approve"); a.status != 409 {
		t.Errorf("approve: got %d %s", a.status, a.body)
	}
	g.want(409, "DELETE "+g.path(), "")
	g.acts("stop")
	if h := g.head(); h.State != appcontext.InstantiateStopped || h.Gone || h.Rev != 1 {
		t.Errorf("a stopped termination: %+v", h)
	}
	uses(1, 0)
	if a := g.act("approve"); a.status != 409 {
		t.Errorf("approve after stop: got %d %s", a.status, a.body)
	}
	g.want(409, "DELETE "+g.path(), "")
	g.acts("terminate")
	g.waits(true)
	g.release()
	p.settle()
	if h := g.head(); h.State != appcontext.Terminated || !h.Gone {
		t.Errorf("after the hooks: %+v", h)
	}
	uses(0, 0)
}

// What a group took over runs until its hooks are complete, although it has no revision of its own.
func TestHooksRunBeforeWhatWasTakenOverIsRemoved(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	p.onboard("v2")
	old, next := p.runs("v1", "old", "edge"), p.group("v2", "next")
	next.make("edge")
	next.hook(v2.PreTermination)
	next.acts("approve")
	if a := old.act("migrate", `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"next"}}`); a.status != 202 {
		t.Fatalf("migrate: got %d %s", a.status, a.body)
	}
	if !next.head().TookOver() {
		t.Fatalf("the target: %+v", next.head())
	}
	next.acts("terminate")
	next.waits(true)
	p.settle()
	if p.holds(string(next.head().Deployment())) == "" {
		t.Error("everything was removed before the hook")
	}
	next.release()
	p.settle()
	if left := p.holds(string(next.head().Deployment())); left != "" {
		t.Errorf("after the hook %s is left", left)
	}
}

// An aborted termination reports what it undid, and what it did not.
func TestAnAbortedTerminationTellsWhatFailedBefore(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	g.hook(v2.PreTermination)
	failed := g.head()
	failed.Failure = "render: no such file"
	_, err := p.contexts.ChangeHead(t.Context(), g.head(), failed, nil, nil)
	p.must(err)
	g.acts("terminate")
	g.abort(v2.PreTermination)
	if h := g.head(); h.State != appcontext.Instantiated || h.Failure != failed.Failure {
		t.Errorf("the failure before the termination is lost: %+v", h)
	}
	g.acts("update", "terminate")
	g.abort(v2.PreTermination)
	if h := g.head(); h.State != appcontext.Instantiated || h.Failure != "revision 2 was dropped by a termination that was aborted; update again" {
		t.Errorf("after an abort that dropped an update: %+v", h)
	}
}
