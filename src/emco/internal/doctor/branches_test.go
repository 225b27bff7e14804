package doctor_test

import (
	"context"
	"iter"
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

// hostileTree is the host of a branch with some paths.
type hostileTree []string

func (hostileTree) Head(context.Context, git.Repo, string) (git.Hash, error) { return "", nil }

func (h hostileTree) Tree(context.Context, git.Repo, git.Hash, string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		for _, path := range h {
			if !yield(git.Entry{Path: path}, nil) {
				return
			}
		}
	}
}

// Paths that EMCO does not write, such as very long ones or ones that change a terminal, are neither kept nor reported.
func TestHostilePathsOfABranchAreNotReported(t *testing.T) {
	t.Parallel()
	stores := doctor.Stores{Contexts: contexttest.New(t), Documents: resourcetest.DB(t)}
	_, err := stores.Contexts.PutBranch(t.Context(), appcontext.Fence{}, gitstate.Branch{URL: "https://git.example.org/fleet", Name: "main"})
	must(t, err)
	long := strings.Repeat("long/", 1<<18)
	tree := hostileTree{
		"clusters/" + long + "x/context/1/app/x.yaml",
		"clusters/" + strings.Repeat("x", 1<<20) + "/context/2/app/x.yaml",
		"clusters/p+x/context/" + strings.Repeat("3", 1<<20) + "/app/x.yaml",
		"clusters/p+\x1b[2Jx/context/4/app/x.yaml",
		"clusters/p+x\nall is well/context/5/app/x.yaml",
		"clusters/p+x/context/6/" + long + "x.yaml",
	}
	check := doctor.Branches{Stores: stores, Host: tree, Repo: func(context.Context, gitstate.Branch) (git.Repo, error) { return git.Repo{}, nil }}
	var faults []string
	_, err = check.Check(t.Context(), "", 1, func(_, fault string) { faults = append(faults, fault) })
	must(t, err)
	if len(faults) != 1 || !strings.HasPrefix(faults[0], "folder clusters/p+x/context/6 belongs to no deployment") {
		t.Errorf("%d faults, %.200q; want the folder of 6 alone", len(faults), faults)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
