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
	if r.Stage != gitstate.MoveAsked || r.Finish || !r.IsAtLeast("r", 1) || r.IsAtLeast("r", 2) || r.IsAtLeast("q", 1) || r.At.IsZero() {
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

func TestF12AMoveTurnsBackBeforeItsPointOfNoReturn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stage  gitstate.MoveStage
		finish bool
		ok     bool
	}{
		{gitstate.MoveAsked, false, true},
		{gitstate.MoveWritten, false, false},
		{gitstate.MoveTaken, false, true},
		{gitstate.MoveTaken, true, false},
		{gitstate.MoveDone, false, false},
	} {
		s := newStore(t)
		ctx := t.Context()
		rec, err := s.PutRelocation(ctx, Fence{}, gitstate.Relocation{Cluster: "p+c", Registration: "7", Number: 3, Stage: tt.stage, Finish: tt.finish})
		must(t, err)
		err = s.TurnBack(ctx, "p+c", "7", 3)
		if (err == nil) != tt.ok || err != nil && !errs.Is(err, errs.Conflict) {
			t.Errorf("%s, finish %v: got %v", tt.stage, tt.finish, err)
		}
		now, err := s.Relocation(ctx, "p+c")
		must(t, err)
		if tt.ok && (now.Number != 4 || now.Stage != gitstate.MoveAsked || now.Finish) || !tt.ok && now.Mod != rec.Mod {
			t.Errorf("%s, finish %v: the record is %+v", tt.stage, tt.finish, now)
		}
		if tt.ok {
			must(t, s.TurnBack(ctx, "p+c", "7", 3)) // again, after a crash
			if again, err := s.Relocation(ctx, "p+c"); err != nil || again.Mod != now.Mod {
				t.Errorf("turned twice: %+v, %v", again, err)
			}
		}
	}
}
