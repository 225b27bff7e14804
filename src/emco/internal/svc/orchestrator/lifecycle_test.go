package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
)

// equal compares what was got with what is wanted.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s\ngot  %v\nwant %v", what, got, want)
	}
}

// refused wants an action to be answered with a status and a text.
func (g testGroup) refused(action, body string, status int, text string) {
	g.Helper()
	if a := g.act(action, body); a.status != status || !strings.Contains(a.body, text) {
		g.Errorf("%s %s: got %d %s, want %d %s", action, body, a.status, a.body, status, text)
	}
}

func TestStopEndsTheWayToWhatIsDesired(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	g.refused("stop", "", 409, "stop: not allowed in state Created; allowed in Instantiated while it is under way")
	g.acts("approve", "instantiate")
	g.refused("instantiate", "", 409, "not allowed in state Instantiated now, with the status Instantiating; allowed in Approved")
	g.acts("stop")
	p.work()
	p.settle()
	equal(t, "a stopped instantiate leaves", p.holds(g.doc().UID), "")
	if h := g.head(); h.State != appcontext.InstantiateStopped || !h.Stopped || h.Op != nil || h.Rev != 0 {
		t.Errorf("head after the stop: %+v", h)
	}
	g.refused("stop", "", 409, "not allowed in state InstantiateStopped")
	g.refused("instantiate", "", 409, "not allowed in state InstantiateStopped")
	p.want(409, "DELETE "+g.path(), "") // there are children, too; see below for the head alone

	equal(t, "update answers", g.act("update"), apiAnswer{202, "2"})
	if h := g.head(); h.Stopped || h.Op == nil {
		t.Errorf("head after the update: %+v", h)
	}
	p.work()
	p.settle()
	id := g.doc().UID
	equal(t, "after the update clusters hold", p.holds(id), "a v1, b v1")
	g.refused("stop", "", 409, "not allowed in state Instantiated now")

	g.acts("terminate", "stop")
	p.settle()
	equal(t, "a stopped terminate leaves", p.holds(id), "a v1, b v1")
	g.acts("terminate")
	p.settle()
	equal(t, "after another terminate clusters hold", p.holds(id), "")
	g.refused("stop", "", 409, "not allowed in state Terminated now")
	equal(t, "history", g.history(), "Created 0, Approved 0, Instantiated 1, InstantiateStopped 0, Updated 1, Instantiated 2, Terminated 0, TerminateStopped 0, Terminated 0")
}

// A termination that failed may be asked for again. From then on it is under way, and asking
// once more is refused.
func TestF05AFailedTerminationIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	g.acts("terminate")
	g.refused("terminate", "", 409, "Terminated if it failed")
	stuck, err := p.contexts.PairsOf(t.Context(), v2.DeploymentID(g.doc().UID))
	p.must(err)
	for i := range stuck {
		stuck[i].Desired, stuck[i].Phase, stuck[i].At = "", appcontext.Failed, g.head().Terminated
	}
	p.must(p.contexts.PutPairs(t.Context(), appcontext.Fence{}, stuck, nil))
	equal(t, "status after the failure", g.status().DeployedStatus+g.status().Status, "TerminateFailed")
	before := g.head().Terminated
	g.acts("terminate")
	if now := g.head().Terminated; !now.After(before) {
		t.Errorf("the time of the termination is %v, and was %v", now, before)
	}
	equal(t, "status after the request", g.status().DeployedStatus+g.status().Status, "Terminating")
	g.refused("terminate", "", 409, "Terminated if it failed")
	p.settle()
	equal(t, "status after the removal", g.status().DeployedStatus+g.status().Status, "Terminated")
}

// A label changes so that an update would place an app elsewhere: the status reports it until
// the update.
func TestF11TheStatusNamesAnOutdatedPlacement(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b", "c", "d")
	labels := func(cluster string) string { return "cluster-providers/edge/clusters/" + cluster + "/labels" }
	for _, c := range []string{"c", "d"} {
		p.want(204, "DELETE "+labels(c)+"/all", "")
	}
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	equal(t, "at first", g.status().Outdated, "")
	for _, c := range []string{"c", "d"} {
		p.want(201, "POST "+labels(c), `{"clusterLabel":"all"}`)
	}
	p.want(204, "DELETE "+labels("b")+"/all", "")
	if got, want := g.status().Outdated, "an update would add app web to edge+c and 1 other cluster, remove app web from edge+b"; !strings.HasSuffix(got, want) {
		t.Errorf("after labels changed: %q, want %q", got, want)
	}
	g.acts("update")
	equal(t, "while it is updated", g.status().Outdated, "")
	p.work()
	equal(t, "after the update", g.status().Outdated, "")
}

func TestWhatWasStoppedWhileTerminatingMayBeDeleted(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	id := g.doc().UID
	g.acts("terminate")
	for _, below := range []string{"/intents/all", "/generic-placement-intents/places/app-intents/web", "/generic-placement-intents/places"} {
		p.want(204, "DELETE "+g.path()+below, "")
	}
	if body := p.want(409, "DELETE "+g.path(), ""); !strings.Contains(body, "being terminated") {
		t.Errorf("got %s", body)
	}
	g.acts("stop")
	p.want(204, "DELETE "+g.path(), "")
	p.settle()
	equal(t, "what was left, after its group was deleted", p.holds(id), "")
}

func TestMigrateHandsOverWhatRuns(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	p.onboard("v2")
	from, to := p.runs("v1", "old", "edge"), p.group("v2", "new")
	id := from.doc().UID
	body := `{"metadata":{"description":"to v2"},"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"new"}}`
	from.refused("migrate", body, 404, "DeploymentIntentGroup not found: projects/shop/composite-apps/till/v2")
	to.make("edge")
	from.refused("migrate", body, 409, "is Created; it must be Approved")
	to.acts("approve")
	to.refused("migrate", body, 409, "migrate: not allowed in state Approved; allowed in Instantiated, InstantiateStopped")
	from.refused("migrate", "", 400, "Empty body")
	from.refused("migrate", `{"spec":{"targetCompositeAppVersion":"v2"}}`, 400, "spec.targetDeploymentIntentGroup")
	from.refused("migrate", `{"spec":{"targetCompositeAppVersion":2}}`, 422, "")
	from.refused("migrate", `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"old"}}`, 400, "the group itself")
	before := from.head()

	equal(t, "migrate answers", from.act("migrate", body), apiAnswer{202, ""})
	equal(t, "history of the source", from.history(), "Created 0, Approved 0, Instantiated 1, Updated 1")
	equal(t, "history of the target", to.history(), "Created 0, Approved 0, Instantiated 1")
	if a, b := from.status().States.StatusCtxID, to.status().States.StatusCtxID; a != id || b != id {
		t.Errorf("context ids %s and %s, want %s of both", a, b, id)
	}
	if last := to.status().States.Actions[2].Instance; last == "" || last == id || last == to.doc().UID {
		t.Errorf("the instance is %s, want a new one", last)
	}
	p.settle()
	equal(t, "before the revision is made clusters hold", p.holds(id), "a v1, b v1")
	p.work()
	p.settle()
	equal(t, "after it they hold", p.holds(id), "a v2, b v2")
	if h := from.head(); h.State != appcontext.Updated || string(h.MovedTo) != to.doc().UID || h.Rev != 0 || h.Gone || h.Op != nil || h.LastRev != before.LastRev {
		t.Errorf("head of the source: %+v", h)
	}
	from.refused("update", "", 409, "not allowed in state Updated")
	from.refused("terminate", "", 409, "not allowed in state Updated")

	from.acts("approve", "instantiate") // a deployment of its own, independent of the one that moved
	p.work()
	p.settle()
	fresh := from.status().States.StatusCtxID
	if fresh == id || fresh == to.doc().UID {
		t.Errorf("the source starts again with the id %s", fresh)
	}
	equal(t, "the new deployment", p.holds(fresh), "a v1, b v1")
	equal(t, "the one that moved", p.holds(id), "a v2, b v2")
	equal(t, "history of the source", from.history(), "Created 0, Approved 0, Instantiated 1, Updated 1, Approved 0, Instantiated 2")
	from.refused("rollback", `{"spec":{"revision":"1"}}`, 409, "revision 1 is from before a migration")

	from.acts("terminate")
	p.settle()
	equal(t, "after the source is terminated", p.holds(fresh)+"; "+p.holds(id), "; a v2, b v2")
	from.clear()
	p.want(204, "DELETE "+from.path(), "")
	p.settle()
	equal(t, "after the source is deleted", p.holds(id), "a v2, b v2")
	to.acts("update", "terminate")
	p.settle()
	equal(t, "after the target is terminated", p.holds(id), "")
}

// clear removes what is below a group.
func (g testGroup) clear() {
	g.Helper()
	for _, below := range []string{"/intents/all", "/generic-placement-intents/places/app-intents/web", "/generic-placement-intents/places"} {
		g.want(204, "DELETE "+g.path()+below, "")
	}
}

// A deployment may move on, and back to where it came from.
func TestMigrateThereAndBack(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	a, b := p.runs("v1", "a", "edge"), p.group("v1", "b")
	id := a.doc().UID
	b.make("edge")
	b.acts("approve")
	move := func(from, to testGroup) {
		t.Helper()
		equal(t, "migrate", from.act("migrate", `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"`+to.name+`"}}`), apiAnswer{202, ""})
	}
	move(a, b)
	a.acts("approve")
	p.settle()
	move(b, a) // before anything was made of the first one
	p.work()
	p.settle()
	equal(t, "clusters hold", p.holds(id), "a v1")
	if h := a.head(); !h.Owns() || string(h.Deployment()) != id || h.Rev != 2 {
		t.Errorf("head of the first group: %+v", h)
	}
	equal(t, "history of a", a.history(), "Created 0, Approved 0, Instantiated 1, Updated 1, Approved 0, Instantiated 2")
	equal(t, "rollback to what it had before", a.act("rollback", `{"spec":{"revision":"1"}}`), apiAnswer{202, ""})
	p.want(409, "DELETE "+a.path(), "")
	b.clear()
	p.want(204, "DELETE "+b.path(), "")
	p.settle()
	equal(t, "after b is deleted", p.holds(id), "a v1")
}

// What fails after a migration leaves what ran to the target, app by app and as a whole.
func TestAMigrationThatFailsTakesNothingAway(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	p.onboard("v2")
	from, to := p.runs("v1", "old", "edge"), p.group("v2", "new")
	id := from.doc().UID
	to.make("edge")
	to.acts("approve")
	p.upload("PUT projects/shop/composite-apps/till/v2/apps/web", name("web"), p.broken())
	const body = `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"new"}}`
	equal(t, "migrate", from.act("migrate", body), apiAnswer{202, ""})
	to.clear() // so that no revision can be made at all
	p.work()
	p.settle()
	failure := to.head().Failure
	if !strings.Contains(failure, "what was taken over with the id "+id+" keeps running unchanged") {
		t.Errorf("failure %q", failure)
	}
	equal(t, "when no revision could be made clusters hold", p.holds(id), "a v1, b v1")
	p.want(409, "DELETE "+to.path(), "")

	to.intend("edge")
	to.acts("instantiate") // again, since it failed; the app does not render
	p.work()
	p.settle()
	equal(t, "when the app could not be rendered clusters hold", p.holds(id), "a v1, b v1")
	if rev := to.head().Rev; rev != 2 {
		t.Errorf("the target is at revision %d, want 2", rev)
	}
	p.upload("PUT projects/shop/composite-apps/till/v2/apps/web", name("web"), p.chart("v2"))
	to.acts("update")
	p.work()
	p.settle()
	equal(t, "after the repair", p.holds(id), "a v2, b v2")
	var reasons []string
	for _, e := range get[v2.EventsAnswer](p, to.path()+"/events?type=Warning").Events {
		reasons = append(reasons, e.Reason+" "+e.App)
	}
	equal(t, "warnings", strings.Join(reasons, ", "), "OperationFailed , AppFailed web")
}

func TestAMigrationWantsATargetThatIsCleared(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	from, to := p.runs("v1", "from", "edge"), p.runs("v1", "to", "edge")
	const body = `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"to"}}`
	from.refused("migrate", body, 409, "is Instantiated")
	to.acts("terminate", "approve")
	from.refused("migrate", body, 409, "1 placements are left")
	p.settle()
	equal(t, "when nothing is left", from.act("migrate", body), apiAnswer{202, ""})
	p.settle()
	equal(t, "before the revision is made", p.holds(from.doc().UID), "a v1")
}

func TestRevisionsAreListed(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	list := func() (out []string) {
		t.Helper()
		for _, r := range get[v2.RevisionsAnswer](p, g.path()+"/revisions").Revisions {
			out = append(out, fmt.Sprintf("%d %s from %d by %s because %q current %v kept %v apps %d", r.Number, r.Kind, r.From, r.Author, r.Reason, r.Current, r.Kept, len(r.Apps)))
		}
		return out
	}
	if got := list(); got != nil {
		t.Errorf("nothing was instantiated: got %q", got)
	}
	g.acts("approve")
	send := func(action, body string) {
		t.Helper()
		if a := p.send(apiRequest{do: "POST " + g.path() + "/" + action, body: body, header: "X-Forwarded-User: ada"}); a.status != 202 {
			t.Fatalf("%s: got %d %s", action, a.status, a.body)
		}
	}
	send("instantiate?reason=opening+day", "")
	p.work()
	p.settle()
	send("update", "")
	send("rollback", `{"metadata":{"description":"as it was"},"spec":{"revision":"1"}}`) // overtakes revision 2
	p.work()
	for range 12 {
		send("update", "")
		p.work()
	}
	p.must(p.contexts.RecordCommit(t.Context(), appcontext.HeadID(g.doc().UID), 15, appcontext.RevisionCommit{Repository: "http://git/fleet", Branch: "main", Commit: "c0ffee", Clusters: 2}))
	equal(t, "all", strings.Join(list()[11:], "\n"), strings.Join([]string{
		`4 update from 0 by ada because "" current false kept true apps 1`,
		`3 rollback from 1 by ada because "as it was" current false kept true apps 1`,
		`2 update from 0 by ada because "" current false kept false apps 0`,
		`1 instantiate from 0 by ada because "opening day" current false kept true apps 1`,
	}, "\n"))

	newest := get[v2.Revision](p, g.path()+"/revisions/15")
	if !newest.Current || len(newest.Commits) != 1 || newest.Commits[0] != (v2.RevisionCommit{Repository: "http://git/fleet", Branch: "main", Commit: "c0ffee", Clusters: 2}) ||
		newest.Apps[0].Name != "web" || newest.Apps[0].Clusters != 2 || len(newest.Apps[0].Bundles) != 1 {
		t.Errorf("the newest revision is %+v", newest)
	}
	for _, none := range []string{"0", "16", "x"} {
		p.want(404, "GET "+g.path()+"/revisions/"+none, "")
	}
	g.acts("terminate")
	if newest = get[v2.Revision](p, g.path()+"/revisions/15"); newest.Current || !newest.Kept {
		t.Errorf("after terminate the newest revision is %+v", newest)
	}
}

// Of a revision whose content was swept the history still knows number, time and author.
func TestARevisionThatWasSweptKeepsItsLine(t *testing.T) {
	t.Parallel()
	renderer := rendertest.Plain{}
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newControlPlaneOn(t, resourcetest.DB(t), appcontext.New(server.Client(), "/emco", appcontext.WithGrace(0)), renderer)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	for range 2 {
		p.send(apiRequest{do: "POST " + g.path() + "/update?reason=again", header: "X-Forwarded-User: ada"})
		p.work()
		p.settle()
	}
	_, err = p.contexts.Sweep(t.Context(), 1)
	p.must(err)
	var got []string
	for _, r := range get[v2.RevisionsAnswer](p, g.path()+"/revisions").Revisions {
		got = append(got, fmt.Sprint(r.Number, " ", r.Kind, " ", r.Author, " ", r.Reason, " ", r.Kept, " ", r.Time.IsZero()))
	}
	equal(t, "revisions", strings.Join(got, ", "), "3 update ada again true false, 2 update ada again false false, 1 instantiate anonymous  false false")
	g.refused("rollback", `{"spec":{"revision":"2"}}`, 404, "revision 2 not found")
}

func TestEventsSayWhoDidWhatAndWhatCameOfIt(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.broken())
	g := p.group("v1", "g")
	g.make("edge")
	p.send(apiRequest{do: "POST " + g.path() + "/approve", header: "X-Forwarded-User: ada"})
	g.acts("instantiate?reason=a+test")
	p.work()
	g.acts("terminate")
	var got []string
	answer := get[v2.EventsAnswer](p, g.path()+"/events")
	for _, e := range answer.Events {
		message, _, _ := strings.Cut(e.Message, ";")
		got = append(got, fmt.Sprintf("%s %s %s %d %s: %.42s", e.Type, e.Reason, e.Actor, e.Revision, e.App, message))
	}
	equal(t, "events of "+answer.Name, strings.Join(got, "\n"), strings.Join([]string{
		"Normal Approved ada 0 : approved",
		"Normal Instantiated anonymous 1 : revision 1 was requested: a test",
		"Normal RevisionPublished anonymous 1 : revision 1 is desired",
		"Warning AppFailed  1 web: rendering: web/templates/object.yaml:1: Co",
		"Normal Terminated anonymous 0 : nothing is desired any longer",
	}, "\n"))
}

// The same request, sent eight times at once to a real server by clients that do not
// know of each other, and again after a restart, has one effect and one answer.
func TestH32OneEffectForARepeatedRequest(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g, to := p.group("v1", "g"), p.group("v1", "to")
	g.make("edge")
	to.make("edge")
	to.acts("approve")
	for _, tt := range []struct{ action, body, answer string }{
		{"approve", "", "202 "},
		{"instantiate", "", "202 "},
		{"update", "", "202 2\n"},
		{"rollback", `{"spec":{"revision":"1"}}`, "202 "},
		{"stop", "", "202 "},
		{"update", "", "202 4\n"},
		{"terminate", "", "202 "},
		{"instantiate", "", "202 "},
		{"migrate", `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"to"}}`, "202 "},
	} {
		key := fmt.Sprintf("%s-%d", tt.action, len(g.status().States.Actions))
		want := strings.Join([]string{tt.answer, tt.answer, tt.answer, tt.answer, tt.answer, tt.answer, tt.answer, tt.answer}, "|")
		equal(t, tt.action+" eight times at once", g.flood(8, tt.action, tt.body, key), want)
		once := g.history()
		if tt.action != "rollback" && tt.action != "stop" {
			p.work()
		}
		p.boot()
		equal(t, tt.action+" once more", g.flood(1, tt.action, tt.body, key), tt.answer)
		equal(t, "history after that", g.history(), once)
	}
	equal(t, "history", g.history(), "Created 0, Approved 0, Instantiated 1, Updated 1, Instantiated 2, Updated 2, Instantiated 3, InstantiateStopped 0, Updated 3, Instantiated 4, Terminated 0, Instantiated 5, Updated 5")
	equal(t, "history of the target", to.history(), "Created 0, Approved 0, Instantiated 1")
	equal(t, "the key of the rollback for another revision", g.flood(1, "rollback", `{"spec":{"revision":"2"}}`, "rollback-5")[:3], "422")
	equal(t, "a key that is none", g.flood(1, "update", "", strings.Repeat("k", 129))[:3], "400")
	equal(t, "a key that was refused, and the reason is gone", g.flood(1, "terminate", "", "late")[:3]+g.flood(1, "approve", "", "late")[:3], "409202")
}

// flood sends a request n times at once over the network and returns "status body" of
// all answers.
func (g testGroup) flood(n int, action, body, key string) string {
	g.Helper()
	server := httptest.NewServer(g.api)
	defer server.Close()
	answers := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r, err := http.NewRequest(http.MethodPost, server.URL+"/v2/"+g.path()+"/"+action, strings.NewReader(body))
			if err == nil {
				r.Header.Set("Idempotency-Key", key)
				var res *http.Response
				if res, err = http.DefaultClient.Do(r); err == nil {
					defer res.Body.Close()
					var text []byte
					text, err = io.ReadAll(res.Body)
					answers[i] = fmt.Sprint(res.StatusCode, " ", string(text))
				}
			}
			if err != nil {
				g.Errorf("%s: %v", action, err)
			}
		})
	}
	all.Wait()
	return strings.Join(answers, "|")
}

// Revision numbers are never reused, so a number identifies one revision of the group.
// Upstream EMCO starts counting again after each instantiate.
func TestConformance10RollbackAfterTerminateAndInstantiate(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	id := g.doc().UID
	edition := func(content string) {
		t.Helper()
		p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chart(content))
	}
	done := func() {
		p.work()
		p.settle()
	}
	edition("second")
	g.acts("update")
	done()
	g.acts("terminate")
	done()
	edition("third")
	g.acts("instantiate")
	done()
	edition("fourth")
	g.acts("update")
	done()
	equal(t, "before the rollback", p.holds(id), "a fourth")
	for _, tt := range []struct {
		revision, holds string
	}{{"3", "a third"}, {"1", "a v1"}, {"2", "a second"}, {"4", "a fourth"}, {"5", "a third"}} {
		equal(t, "rollback to "+tt.revision, g.act("rollback", `{"spec":{"revision":"`+tt.revision+`"}}`), apiAnswer{202, ""})
		done()
		equal(t, "after the rollback to "+tt.revision, p.holds(id), tt.holds)
	}
	g.refused("rollback", `{"spec":{"revision":"10"}}`, 404, "revision 10 not found")
	equal(t, "history", g.history(), "Created 0, Approved 0, Instantiated 1, Updated 1, Instantiated 2, Terminated 0, "+
		"Instantiated 3, Updated 3, Instantiated 4, Updated 4, Instantiated 5, Updated 5, Instantiated 6, Updated 6, Instantiated 7, Updated 7, Instantiated 8, Updated 8, Instantiated 9")
	var numbers []int64
	for _, r := range get[v2.RevisionsAnswer](p, g.path()+"/revisions").Revisions {
		numbers = append(numbers, r.Number)
	}
	equal(t, "revisions", fmt.Sprint(numbers), "[9 8 7 6 5 4 3 2 1]")
}

// A group that is deleted while it is instantiated: the deletion is refused, or it was
// first; never both, and never a deployment without a document.
func TestDeletionAndInstantiationExcludeEachOther(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	for round := range 10 {
		g := p.group("v1", fmt.Sprint("g", round))
		g.make("edge")
		g.acts("approve")
		uid := g.doc().UID
		head := g.head()
		op := appcontext.Operation{ID: "o", UID: appcontext.HeadID(uid), Kind: "instantiate", Rev: 1}
		to := head
		to.State, to.LastRev = appcontext.Instantiated, 1
		g.clear()
		asked := make(chan error, 1)
		go func() {
			_, err := p.contexts.ChangeHead(t.Context(), head, to, nil, &op)
			asked <- err
		}()
		status := p.send(apiRequest{do: "DELETE " + g.path()}).status
		err := <-asked
		if (err == nil) == (status == 204) || status != 204 && status != 409 {
			t.Fatalf("round %d: the deletion was answered %d, the instantiation %v", round, status, err)
		}
		if _, unread := p.contexts.Head(t.Context(), appcontext.HeadID(uid)); (unread == nil) != (err == nil) {
			t.Fatalf("round %d: the head is %v, the deletion was answered %d", round, unread, status)
		}
	}
}

func TestQueriesOfActionsAreChecked(t *testing.T) {
	t.Parallel()
	_, g := newMadeGroup(t)
	for query, text := range map[string]string{
		"?force=1":                             "Invalid query force",
		"?dryRun=1":                            "Invalid query dryRun",
		"?reason=" + strings.Repeat("x", 1025): "Invalid query reason",
	} {
		g.refused("instantiate"+query, "", 400, text)
	}
	if a := g.act("approve?dryRun=true"); a.status != 200 || strings.TrimSpace(a.body) != `{"action":"approve","state":"Approved"}` {
		t.Errorf("a dry run of approve: got %+v", a)
	}
	g.refused("stop?dryRun=true", "", 409, "not allowed in state Created")
	equal(t, "history", g.history(), "Created 0")
	var plan v2.Plan
	g.acts("approve")
	a := g.act("instantiate?dryRun=true")
	if err := json.Unmarshal([]byte(a.body), &plan); err != nil || a.status != 200 || plan.Summary.Add != 1 {
		t.Errorf("dry run: got %+v, %+v, %v", a, plan, err)
	}
	equal(t, "history", g.history(), "Created 0, Approved 0")
}

// Between the check of the logical cloud and the write of the operation, the cloud may be
// terminated. The write must fail then: the request is decided again, and refused.
func TestInstantiateFailsIfItsCloudIsTerminatedMeanwhile(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	g.acts("approve")
	snapshot, err := p.groups.executor.Load(t.Context(), g.doc())
	p.must(err)
	moves, err := p.groups.instantiate(t.Context(), snapshot, actionRequest{request: lifecycle.Request{Action: lifecycle.Instantiate}})
	p.must(err)

	p.want(202, "POST projects/shop/logical-clouds/stores/terminate", "")
	if _, err := p.contexts.ChangeHeads(t.Context(), moves...); !errors.Is(err, appcontext.ErrOvertaken) {
		t.Errorf("the operation is queued after the cloud was terminated: %v, want ErrOvertaken", err)
	}
	g.refused("instantiate", "", 409, "the logical cloud is not instantiated")
}

// A body gives each member once, in one spelling, and the name of its URL: what one reader takes and another one
// does not see is refused, with the member's name.
func TestH12MembersAreGivenOnce(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	for body, want := range map[string]string{
		`{"metadata":{"name":"a"},"metadata":{"name":"b"}}`: "- metadata: given twice",
		`{"metadata":{"name":"a"},"Metadata":{"name":"b"}}`: `- Metadata: given twice, as "metadata" and as "Metadata"`,
		`{"metadata":{"name":"a","name":"b"}}`:              "- metadata.name: given twice",
		`{"metadata":{"name":"a","Name":"b"}}`:              "- metadata.Name: given twice",
	} {
		if a := p.send(apiRequest{do: "POST projects", body: body}); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: got %d %s, want 400 with %q", body, a.status, a.body, want)
		}
	}
	p.want(201, "POST projects", name("a"))
	if a := p.send(apiRequest{do: "PUT projects/a", body: name("b")}); a.status != 400 || !strings.Contains(a.body, "Mismatched name") {
		t.Errorf("another name than that of the URL: %d %s", a.status, a.body)
	}
	p.want(404, "GET projects/b", "")
}

// The profile of an app is protected while a group runs the app, or while an action may use it. That of an app that was
// added later is not.
func TestProfilesInUseAreProtected(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	const app = "projects/shop/composite-apps/till/v1"
	const profiles = app + "/composite-profiles/small/profiles"
	g := p.group("v1", "g")
	g.make("edge")
	deletion := func(profile string, status int, text string) {
		t.Helper()
		if a := p.send(apiRequest{do: "DELETE " + profiles + "/" + profile}); a.status != status || !strings.Contains(a.body, text) {
			t.Errorf("DELETE of %s: got %d %s, want %d %s", profile, a.status, a.body, status, text)
		}
	}
	g.acts("approve", "instantiate")
	deletion("web", 409, "an action of "+g.path()+" is in progress and may use it")
	p.work()
	p.settle()
	deletion("web", 409, g.path()+" is instantiated with it")

	profile := p.pack(map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "a: b\n"})
	p.upload("POST "+app+"/apps", name("web2"), p.pack(map[string]string{
		"web2/Chart.yaml": "apiVersion: v2\nname: web2\nversion: 0.1.0\n", "web2/templates/object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web2}\n",
	}))
	p.upload("POST "+profiles, `{"metadata":{"name":"web2"},"spec":{"app":"web2"}}`, profile)
	deletion("web2", 204, "")
	deletion("web", 409, g.path()+" is instantiated with it")
	g.acts("terminate")
	p.settle()
	deletion("web", 204, "")
}
