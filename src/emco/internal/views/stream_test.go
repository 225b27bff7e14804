package views

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

func TestTopicsOfStreamsAreChecked(t *testing.T) {
	t.Parallel()
	w, _ := shop(t)
	for query, want := range map[string]int{
		"":                                   http.StatusBadRequest,
		"?topics=moon":                       http.StatusBadRequest,
		"?topics=cluster:a":                  http.StatusBadRequest,
		"?topics=group:x":                    http.StatusBadRequest,
		"?topic=fleet":                       http.StatusBadRequest,
		"?topics=group:" + groupPath("none"): http.StatusNotFound,
		"?topics=git":                        http.StatusNotFound, // this process writes no branches
		"?topics=fleet" + strings.Repeat(",fleet", maxTopics): http.StatusBadRequest,
	} {
		if got := w.get("/stream" + query); got.Code != want {
			t.Errorf("%s: %d %s, want %d", query, got.Code, got.Body, want)
		}
	}
}

func TestLaneMarksChangeWithBranches(t *testing.T) {
	t.Parallel()
	one, two := batch.Lane{URL: "u", Branch: "a", Commit: "1"}, batch.Lane{URL: "u", Branch: "b"}
	mark := laneMark([]batch.Lane{one, two})
	if laneMark([]batch.Lane{two, one}) != mark {
		t.Error("the order of branches changes the mark")
	}
	for name, change := range map[string]func(*batch.Lane){
		"a commit": func(l *batch.Lane) { l.Commit = "2" },
		"a job":    func(l *batch.Lane) { l.Queued = 1 },
		"an error": func(l *batch.Lane) { l.Err = errors.New("refused") },
	} {
		now := one
		if change(&now); laneMark([]batch.Lane{now, two}) == mark {
			t.Errorf("%s does not change the mark", name)
		}
	}
}

func TestNewEventsChangeTheMark(t *testing.T) {
	t.Parallel()
	var x eventIndex
	before := x.lastChange()
	x.apply(appcontext.EventChange{ID: "2026-1", Event: appcontext.Event{UID: "1", Actor: "ann"}})
	after := x.lastChange()
	x.apply(appcontext.EventChange{ID: "2026-2", Event: appcontext.Event{UID: "1"}})
	if now := x.lastChange(); before == after || now == after {
		t.Errorf("marks: %q, %q, %q", before, after, now)
	}
}
