package views

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// branches are the records and the writers of some branches.
type branches struct {
	records []gitstate.Branch
	lanes   []batch.Lane
}

func (b branches) Lanes() []batch.Lane { return b.lanes }

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
	w := &world{T: t}
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
			{URL: url, Branch: "down", Err: errs.New(errs.Unavailable, "502"), Since: noon, Resting: noon.Add(time.Minute)},
			{URL: url, Branch: "large", Err: errs.New(errs.TooLarge, "413"), Since: noon},
		},
	}
	router := web.NewRouter()
	Lanes{Branches: b, Writers: b, Now: func() time.Time { return noon }}.mount(router)
	w.api = web.Wrap(slog.New(slog.DiscardHandler), router)
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
