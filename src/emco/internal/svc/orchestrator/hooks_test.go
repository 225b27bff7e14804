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
