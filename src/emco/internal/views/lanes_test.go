package views

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

// branches are the records and the writers of some branches.
type branches struct {
	records []gitstate.Branch
	lanes   []batch.Lane
}

func (b branches) Lanes() []batch.Lane { return b.lanes }

// view is the view of the branches, of a process that delivers to no cluster and has no limits.
func (b branches) view(w *world) *Lanes {
	return &Lanes{
		Branches: b, Writers: b, Users: users{}, Owners: owners{}, Budgets: budget.New(budget.Options{}), Edited: w.tally.Edited,
		Now: func() time.Time { return noon },
	}
}

// users are the clusters on each branch.
type users map[string][]v2.ClusterKey

func (u users) OnBranch(_, branch string, numbers map[v2.ClusterKey]int) (clusters, sum int) {
	for _, c := range u[branch] {
		sum += numbers[c]
	}
	return len(u[branch]), sum
}

// owners are the owners of shards.
type owners map[int]string

func (o owners) ShardOwners(context.Context, shards.Group) (map[int]string, error) { return o, nil }

func (b branches) Branches(context.Context) iter.Seq2[gitstate.Branch, error] {
	return func(yield func(gitstate.Branch, error) bool) {
		for _, r := range b.records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestLanesAreListedWorstFirst(t *testing.T) {
	t.Parallel()
	const url = "https://git/fleet.git"
	w := newWorld(t)
	w.tally.Advanced(1)
	b := branches{
		records: []gitstate.Branch{
			{URL: url, Name: "main", Commit: "c0ffee"},
			{URL: url, Name: "adopted", Adopted: 2, Rewritten: 1},
			{URL: url, Name: "elsewhere", Commit: "abcdef"},
		},
		lanes: []batch.Lane{
			{URL: url, Branch: "main", Queued: 3, Oldest: noon, Pushed: noon.Add(-time.Minute), Commit: "c0ffee", Since: noon.Add(-time.Hour)},
			{URL: url, Branch: "protected", Err: &batch.ProposedError{Branch: "protected", Proposal: git.Proposal{URL: "https://git/pull/1"}}, Since: noon},
			{URL: url, Branch: "lost", Err: &batch.RewrittenError{Branch: "lost", Base: "c0ffee"}, Since: noon},
			{URL: url, Branch: "down", Err: errs.New(errs.Unavailable, "502"), Since: noon, CoolingUntil: noon.Add(time.Minute)},
			{URL: url, Branch: "large", Err: errs.New(errs.TooLarge, "413"), Since: noon},
		},
	}
	w.views.Lanes = b.view(w)
	w.mount()
	page := read[v2.LaneViews](w, "/git")
	var got []string
	for _, l := range page.Items {
		got = append(got, l.Branch+"="+l.State)
	}
	if want := "[lost=rewritten large=refused down=resting protected=waitingPullRequest adopted=decided elsewhere=ok main=ok]"; fmt.Sprint(got) != want || page.Total != 7 {
		t.Errorf("got %v, want %s", got, want)
	}
	if l := page.Items[6]; l.Queued != 3 || !l.OldestQueued.Equal(noon) || !l.LastPush.Equal(noon.Add(-time.Minute)) || l.Commit != "c0ffee" || len(l.Lane) != 12 {
		t.Errorf("one that works: %+v", l)
	}
	if l := page.Items[2]; !l.NextTry.Equal(noon.Add(time.Minute)) || l.Why != "502" {
		t.Errorf("one that rests: %+v", l)
	}
	first := read[v2.LaneViews](w, "/git?limit=2")
	next := read[v2.LaneViews](w, "/git?limit=2&continue="+first.Continue)
	if len(first.Items) != 2 || len(next.Items) != 2 || next.Items[0].Branch != "down" {
		t.Errorf("pages: %+v, then %+v", first.Items, next.Items)
	}
	if page = read[v2.LaneViews](w, "/git?state=resting&state=ok&q=MAIN"); page.Total != 1 || page.Items[0].Branch != "main" {
		t.Errorf("filtered: %+v", page.Items)
	}
	if got := w.get("/git?state=failed"); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "rewritten, refused") {
		t.Errorf("a state that lanes do not have: %d %s", got.Code, got.Body)
	}
}

// A branch shows how many clusters it has, who writes it, what is left of its server's limits, and what others have changed.
func TestALaneNamesItsWriterBudgetAndEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const url = "https://github.com/shop/fleet.git"
	pairOf := func(edit *appcontext.ExternalEdit) *mirror.Entry {
		return &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Rev: 2, Desired: "d", Applied: "d", Phase: appcontext.Applied, Edit: edit})}
	}
	uid := w.group("autumn")
	w.put("edge+a", uid, "web", pairOf(&appcontext.ExternalEdit{Commit: "1", Held: true}))
	w.put("edge+a", uid, "db", pairOf(&appcontext.ExternalEdit{Commit: "1"}))
	w.put("edge+b", uid, "web", pairOf(&appcontext.ExternalEdit{Commit: "1", Undone: "2"}))
	w.put("edge+c", uid, "web", pairOf(&appcontext.ExternalEdit{Commit: "1"}))
	w.tally.Advanced(1)
	b := branches{lanes: []batch.Lane{
		{URL: url, Branch: "main", Repo: git.Repo{URL: url, Token: "secret"}},
		{URL: url, Branch: "other", Repo: git.Repo{URL: url, Token: "secret"}},
		{URL: "https://git.example.org/x.git", Branch: "free", Repo: git.Repo{URL: "https://git.example.org/x.git"}},
	}}
	view := b.view(w)
	view.Users = users{"main": {"edge+a", "edge+b"}, "other": {"edge+c"}}
	view.Owners = owners{route.Branch{URL: url, Name: "main"}.Shard(): "emco-1"}
	limited := budget.New(budget.Options{})
	if err := limited.Spend(t.Context(), git.Repo{URL: url, Token: "secret"}, git.Cost{Pushes: 1, Calls: 1}); err != nil {
		t.Fatal(err)
	}
	view.Budgets = limited
	w.views.Lanes = view
	w.mount()
	items := map[string]v2.LaneView{}
	for _, item := range read[v2.LaneViews](w, "/git").Items {
		items[item.Branch] = item
	}
	main, other, free := items["main"], items["other"], items["free"]
	if main.Clusters != 2 || main.Foreign != 2 || main.Writer != "emco-1" || other.Clusters != 1 || other.Foreign != 1 {
		t.Errorf("main is %+v, other is %+v", main, other)
	}
	if main.Budget == nil || main.Budget.Pushes == nil || main.Budget.Pushes.Left != 0 || main.Budget.Pushes.Of != 1 || main.Budget.Pushes.Resets.IsZero() ||
		main.Budget.API == nil || main.Budget.API.Left >= main.Budget.API.Of {
		t.Errorf("the budget of main is %+v", main.Budget)
	}
	if free.Budget != nil || free.Clusters != 0 {
		t.Errorf("free is %+v", free)
	}
	if d := read[v2.DeploymentViews](w, "/deployments").Items[0]; d.Foreign != 3 {
		t.Errorf("%d pairs of the deployment are edited, want 3: %+v", d.Foreign, d)
	}
	w.put("edge+a", uid, "web", nil)
	w.put("edge+a", uid, "db", pairOf(nil))
	if l := read[v2.LaneViews](w, "/git?q=main").Items[0]; l.Foreign != 0 {
		t.Errorf("nothing on main is edited any longer: %+v", l)
	}
}
