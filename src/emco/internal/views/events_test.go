package views

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// happens gives the views an event some seconds after noon.
func (w *world) happens(seconds int, e appcontext.Event) {
	e.At = noon.Add(time.Duration(seconds) * time.Second)
	if e.Type == "" {
		e.Type = appcontext.Normal
	}
	w.views.log.apply(appcontext.EventChange{Event: e, ID: fmt.Sprintf("%019d-x", e.At.UnixNano())})
}

func reasons(page v2.EventViews) string {
	var out []string
	for _, e := range page.Items {
		out = append(out, e.Reason)
	}
	return strings.Join(out, " ")
}

func TestEventsOfAllDeploymentsAreFound(t *testing.T) {
	t.Parallel()
	w, prod := shop(t)
	other := w.group("other")
	w.tally.Advanced(8)
	if got := w.get("/events"); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "not-yet") {
		t.Errorf("before all events were read: %d %s", got.Code, got.Body)
	}
	w.happens(3, appcontext.Event{UID: other, Reason: "Updated", Actor: "ann"})
	w.happens(1, appcontext.Event{UID: prod, Reason: "Approved", Actor: "bob"})
	w.happens(2, appcontext.Event{UID: prod, Reason: "Failed", Type: appcontext.Warning, App: "web", Cluster: "edge+b", Message: "=1+2 no space"})
	w.happens(4, appcontext.Event{UID: "gone", Reason: "Deleted", Actor: "ann"})
	w.views.log.apply(appcontext.EventChange{UpTo: 9})
	for query, want := range map[string]string{
		"":                                   "Updated Failed Approved",
		"?type=action":                       "Updated Approved",
		"?type=Warning":                      "Failed",
		"?actor=bob&actor=eve":               "Approved",
		"?cluster=edge%2Bb&app=web":          "Failed",
		"?before=2026-11-21T12:00:03Z":       "Failed Approved",
		"?after=2026-11-21T12:00:01Z":        "Updated Failed",
		"?project=shop&q=SPACE":              "Failed",
		"?project=none":                      "",
		"?after=2026-11-21T13:00:01%2B01:00": "Updated Failed",
	} {
		if page := read[v2.EventViews](w, "/events"+query); reasons(page) != want || page.Total != len(page.Items) || page.Mark != 9 {
			t.Errorf("%s: %s, %d in all, mark %d; want %s", query, reasons(page), page.Total, page.Mark, want)
		}
	}
	first := read[v2.EventViews](w, "/events?limit=2")
	w.happens(9, appcontext.Event{UID: prod, Reason: "Later"})
	next := read[v2.EventViews](w, "/events?limit=2&continue="+first.Continue)
	if reasons(first) != "Updated Failed" || reasons(next) != "Approved" || next.Continue != "" || next.Total != 4 {
		t.Errorf("pages: %s, then %s, %d in all", reasons(first), reasons(next), next.Total)
	}
	for query, want := range map[string]string{"?type=x": "give action, Normal or Warning", "?before=now": "is not a time", "?state=ready": "use type", "?actr=x": "did you mean actor"} {
		if got := w.get("/events" + query); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %d %s", query, got.Code, got.Body)
		}
	}
	got := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/views/events?type=Warning", nil)
	r.Header.Set("Accept", "text/csv")
	w.api.ServeHTTP(got, r)
	want := "time,type,reason,actor,deployment,revision,app,cluster,message\n2026-11-21T12:00:02Z,Warning,Failed,," + groupPath("prod") + ",0,web,edge+b,'=1+2 no space\n"
	if got.Body.String() != want {
		t.Errorf("as a table: %q, want %q", got.Body, want)
	}
}

// F24: actions of people stay, however many events of the program follow.
func TestF24ActionsAreNotDisplacedByTheMachine(t *testing.T) {
	t.Parallel()
	w, prod := shop(t)
	w.happens(0, appcontext.Event{UID: prod, Reason: "Approved", Actor: "bob"})
	for i := range 2 * keptOthers {
		w.happens(i+1, appcontext.Event{UID: prod, Reason: "Applied"})
	}
	w.views.log.apply(appcontext.EventChange{UpTo: 9})
	if page := read[v2.EventViews](w, "/events?type=action"); reasons(page) != "Approved" {
		t.Errorf("people's actions: %s", reasons(page))
	}
	if page := read[v2.EventViews](w, "/events"); page.Total < keptOthers+1 || page.Total > keptOthers*5/4+1 {
		t.Errorf("%d events are kept", page.Total)
	}
	w.views.log.apply(appcontext.EventChange{Event: appcontext.Event{UID: prod}, ID: fmt.Sprintf("%019d-x", noon.UnixNano()), Gone: true})
	if page := read[v2.EventViews](w, "/events?type=action"); page.Total != 0 {
		t.Errorf("an event that its log has dropped: %s", reasons(page))
	}
	w.views.log.apply(appcontext.EventChange{Restart: true})
	if got := w.get("/events"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("after a restart: %d", got.Code)
	}
}
