package appcontext

import (
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
)

func TestRelocationsGoOnAndAreReplacedByLaterOnes(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	_, err := s.Relocation(ctx, "p+c")
	wantKind(t, err, errs.NotFound)
	ask := gitstate.Relocation{Cluster: "p+c", Registration: "r", Number: 1}
	must(t, s.AskRelocation(ctx, ask))
	r, err := s.Relocation(ctx, "p+c")
	must(t, err)
	if r.Stage != gitstate.MoveAsked || r.Finish || !r.Of("r", 1) || r.Of("r", 2) || r.Of("q", 1) || r.At.IsZero() {
		t.Errorf("asked: %+v", r)
	}

	o := own(t, s, "a", time.Minute)
	next := r
	next.Stage, next.Written = gitstate.MoveWritten, "c0ffee"
	next, err = s.PutRelocation(ctx, o.Fence(), next)
	must(t, err)
	_, err = s.PutRelocation(ctx, o.Fence(), r) // as it was before
	wantKind(t, err, errs.Conflict)
	must(t, s.AskRelocation(ctx, ask)) // again: it goes on where it is
	ask.Finish = true
	must(t, s.AskRelocation(ctx, ask))
	if r, err = s.Relocation(ctx, "p+c"); err != nil || r.Stage != gitstate.MoveWritten || r.Written != "c0ffee" || !r.Finish {
		t.Errorf("to be finished: %+v, %v", r, err)
	}

	must(t, s.AskRelocation(ctx, gitstate.Relocation{Cluster: "p+c", Registration: "r", Number: 2}))
	if r, err = s.Relocation(ctx, "p+c"); err != nil || r.Stage != gitstate.MoveAsked || r.Finish || r.Written != "" {
		t.Errorf("the next move: %+v, %v", r, err)
	}
	must(t, s.LeaveRelocation(ctx, "p+c", "r", gitstate.LeftPlace{Type: "git", Shard: "s001"}))
	for e, err := range s.WatchRelocations(ctx) {
		must(t, err)
		if e.Synced {
			break
		}
		if r = e.Relocation; r.Cluster != "p+c" || r.Stage != gitstate.MoveLeft || r.Left.Shard != "s001" {
			t.Errorf("left: %+v", r)
		}
	}
	must(t, o.Release(ctx))
	wantFenced(t, s.DropRelocation(ctx, o.Fence(), r))
	must(t, s.DropRelocation(ctx, own(t, s, "b", time.Minute).Fence(), r))
	must(t, s.ForgetRelocation(ctx, "p+c"))
}
