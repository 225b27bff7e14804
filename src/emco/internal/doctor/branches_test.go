package doctor_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// A branch that cannot be read is named, and does not end the check of the others. Pages follow each other, and a page reads
// no more branches than it was asked for.
func TestBranchesAreReadInPages(t *testing.T) {
	t.Parallel()
	server, err := gittest.Serve(t.TempDir(), gittest.User{Name: "emco", Token: "t", Write: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	bare, err := server.Seed(t.Context(), "fleet", "main")
	must(t, err)
	var lists atomic.Int32
	contexts := contexttest.New(t, appcontext.WithOnOp(func(kind string, _ int) {
		if kind == "list" {
			lists.Add(1)
		}
	}))
	stores := doctor.Stores{Contexts: contexts, Documents: resourcetest.DB(t)}
	for _, name := range []string{"a", "b", "c", "d"} {
		_, err := stores.Contexts.PutBranch(t.Context(), appcontext.Fence{}, gitstate.Branch{URL: server.URL("fleet"), Name: name})
		must(t, err)
		if name == "b" {
			continue // it was deleted
		}
		_, err = bare.CommitExternal(t.Context(), name, map[string]gittest.File{"clusters/p+x/context/1/app/web/x.yaml": {Content: "a: 1\n"}})
		must(t, err)
	}
	host := plain.New(plain.Options{})
	t.Cleanup(func() { _ = host.Close() })
	read := 0
	check := doctor.Branches{Stores: stores, Host: host, Repo: func(_ context.Context, b gitstate.Branch) (git.Repo, error) {
		read++
		return git.Repo{URL: b.URL, User: "emco", Token: "t"}, nil
	}}
	var seen []string
	report := func(subject, fault string) {
		seen = append(seen, strings.Fields(subject)[1]+": "+strings.Join(strings.Fields(fault)[:2], " "))
	}
	lists.Store(0)
	lane, err := check.Check(t.Context(), "", 3, report)
	must(t, err)
	if n := lists.Load(); n != 2 {
		t.Errorf("%d lists are read for a page, want one of the branches and one of the deployments", n)
	}
	if lane == "" || read != 3 {
		t.Errorf("the first page has read %d branches and goes on at %q, want 3 and a lane", read, lane)
	}
	lane, err = check.Check(t.Context(), lane, 3, report)
	must(t, err)
	slices.Sort(seen)
	want := []string{"a: folder clusters/p+x/context/1", "b: its files", "c: folder clusters/p+x/context/1", "d: folder clusters/p+x/context/1"}
	if lane != "" || read != 4 || !slices.Equal(seen, want) {
		t.Errorf("both pages have read %d branches, go on at %q and name %q, want 4 and %q", read, lane, seen, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
