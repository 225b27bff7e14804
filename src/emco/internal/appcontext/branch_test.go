package appcontext

import (
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
)

const fleet = "https://git.example.org/fleet.git"

func TestBranchesAreRememberedUntilAdopted(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	_, err := s.Branch(ctx, fleet, "main")
	wantKind(t, err, errs.NotFound)
	_, err = s.Adopt(ctx, fleet, "main")
	wantKind(t, err, errs.NotFound)

	o := own(t, s, "a", time.Minute)
	first, err := s.PutBranch(ctx, o.Fence(), gitstate.Branch{URL: fleet, Name: "main", Commit: "c1"})
	must(t, err)
	_, err = s.PutBranch(ctx, o.Fence(), gitstate.Branch{URL: fleet, Name: "main", Commit: "c2"})
	wantKind(t, err, errs.Conflict)
	_, err = s.PutBranch(ctx, o.Fence(), gitstate.Branch{URL: fleet, Name: "side", Commit: "c3"})
	must(t, err)

	adopted, err := s.Adopt(ctx, fleet, "main")
	must(t, err)
	got, err := s.Branch(ctx, fleet, "main")
	must(t, err)
	if want := (gitstate.Branch{URL: fleet, Name: "main", Adopted: 1, Mod: adopted.Mod}); got != want || got != adopted {
		t.Errorf("adopted: %+v, want %+v", got, want)
	}
	first.Commit = "c4"
	_, err = s.PutBranch(ctx, o.Fence(), first) // from before it was adopted
	wantKind(t, err, errs.Conflict)
	must(t, o.Release(ctx))
	_, err = s.PutBranch(ctx, o.Fence(), got)
	wantFenced(t, err)
}

func TestBranchesAreWatched(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	for _, name := range []string{"main", "side"} {
		_, err := s.PutBranch(ctx, Fence{}, gitstate.Branch{URL: fleet, Name: name, Commit: "c"})
		must(t, err)
	}
	if all := collect(t, s.Branches(ctx)); len(all) != 2 || all[0].Commit != "c" || all[0].Mod == 0 {
		t.Errorf("branches %+v, want both", all)
	}
	seen := map[string]int64{}
	for e, err := range s.WatchBranches(ctx) {
		must(t, err)
		if e.Synced {
			if len(seen) != 2 {
				t.Fatalf("at first there were %v, want both", seen)
			}
			_, err := s.Adopt(ctx, fleet, "side")
			must(t, err)
			continue
		}
		if e.Forgotten {
			if e.Branch.Name != "side" || e.Branch.URL != fleet {
				t.Errorf("forgotten: %+v, want side", e.Branch)
			}
			return
		}
		seen[e.Branch.Name] = e.Branch.Adopted
		if e.Branch.Adopted == 1 && e.Branch.Name == "side" {
			stale := e.Branch
			stale.Mod--
			wantKind(t, s.ForgetBranch(ctx, Fence{}, stale), errs.Conflict)
			must(t, s.ForgetBranch(ctx, Fence{}, e.Branch))
		}
	}
}
