package orchestrator

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// noted has each request note what its user changes.
func (p *controlPlane) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := authn.With(r.Context(), authn.Caller{Subject: web.Actor(r.Context())})
		next.ServeHTTP(w, r.WithContext(store.WithNotary(ctx, p.reviews)))
	})
}

// newWatchedGroup returns a group in a project where callers cannot approve their own changes. "builder" made it.
func newWatchedGroup(t *testing.T) (*controlPlane, testGroup) {
	t.Helper()
	p := &controlPlane{testingT: t, db: resourcetest.DB(t), contexts: contexttest.New(t), renderer: rendertest.Plain{}, project: "shop"}
	p.reviews = &review.Records{DB: p.db, Projects: []string{"shop"}, Now: time.Now}
	p.boot()
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	return p, g
}

// as sends a request of a user that must be answered so.
func (p *controlPlane) as(user string, status int, do, body string, texts ...string) {
	p.Helper()
	a := p.send(apiRequest{do: do, body: body, header: "X-Forwarded-User: " + user})
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			p.Errorf("%s by %s: %q does not say %q", do, user, a.body, text)
		}
	}
	if a.status != status {
		p.Fatalf("%s by %s: %d %s, want %d", do, user, a.status, a.body, status)
	}
}

// runs has bob approve the group and ann instantiate it.
func (g testGroup) runs() {
	g.Helper()
	g.as("bob", 202, "POST "+g.path()+"/approve", "")
	g.as("ann", 202, "POST "+g.path()+"/instantiate", "")
	g.work()
	g.settle()
}

// changedBy changes an intent of the group as a user.
func (g testGroup) changedBy(user, text string) {
	g.Helper()
	places := g.path() + "/generic-placement-intents/places"
	g.as(user, 200, "PUT "+places, `{"metadata":{"name":"places","description":"`+text+`"}}`)
}

func TestNobodyApprovesItsOwnChanges(t *testing.T) {
	t.Parallel()
	_, g := newWatchedGroup(t)
	g.changedBy("ann", "1")
	approve, instantiate := "POST "+g.path()+"/approve", "POST "+g.path()+"/instantiate"
	for _, dry := range []string{"", "?dryRun=true"} {
		g.as("ann", 403, approve+dry, "", "ann may not approve: ann changed "+g.path()+"/generic-placement-intents/places at 2", "another caller must review changes", "auth.fourEyes")
	}
	g.as("anonymous", 403, approve, "") // it made the group
	if g.head().Mod != 0 {
		t.Error("a refused approval left something")
	}
	g.as("bob", 200, approve+"?dryRun=true", "", `"state":"Approved"`)
	g.as("bob", 202, approve, "")
	g.as("ann", 202, approve, "") // nothing has changed: it does nothing
	if got := g.history(); got != "Created 0, Approved 0" {
		t.Errorf("the history is %q", got)
	}

	g.changedBy("ann", "2") // after the approval
	for _, user := range []string{"ann", "bob"} {
		g.as(user, 409, instantiate, "", "has changed since it was approved: ann changed ", "approve it again")
		g.as(user, 409, instantiate+"?dryRun=true", "", "approve it again")
	}
	g.as("ann", 403, approve, "", "another caller must review changes")
	g.as("bob", 202, approve, "")
	g.as("ann", 200, instantiate+"?dryRun=true", "", `"instantiate"`)
	g.as("ann", 202, instantiate, "")
}

// A group that runs cannot be approved again, so another caller's update is the review.
func TestNobodyUpdatesToItsOwnChanges(t *testing.T) {
	t.Parallel()
	p, g := newWatchedGroup(t)
	g.runs()
	update := "POST " + g.path() + "/update"
	g.as("ann", 202, update, "") // of what bob has approved
	p.work()
	p.settle()
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chart("new")) // by anonymous
	for _, dry := range []string{"", "?dryRun=true"} {
		g.as("anonymous", 403, update+dry, "", "anonymous may not update: anonymous changed projects/shop/composite-apps/till/v1/apps/web at 2")
	}
	g.as("bob", 202, update, "")
	p.work()
	p.settle()
	g.as("anonymous", 202, "POST "+g.path()+"/rollback", `{"metadata":{"name":"r"},"spec":{"revision":"1"}}`) // to what was reviewed
	p.work()
	p.settle()
	g.as("anonymous", 202, update, "")
}

// A group whose instantiation failed cannot be approved.
func TestNobodyRepairsAFailedInstantiationAlone(t *testing.T) {
	t.Parallel()
	p, g := newWatchedGroup(t)
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.broken())
	g.as("bob", 202, "POST "+g.path()+"/approve", "")
	g.as("bob", 202, "POST "+g.path()+"/instantiate", "")
	p.work()
	if got := g.status().DeployedStatus; got != v2.StatusInstantiateFailed {
		t.Fatalf("the status is %s", got)
	}
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chart("new"))
	g.as("anonymous", 403, "POST "+g.path()+"/instantiate", "", "anonymous may not instantiate")
	g.as("bob", 202, "POST "+g.path()+"/instantiate", "")
}

// A migration needs a target whose changes were all approved.
func TestMigrationsNeedAReviewedTarget(t *testing.T) {
	t.Parallel()
	p, g := newWatchedGroup(t)
	g.runs()
	p.onboard("v2")
	next := p.group("v2", "g")
	next.make("edge")
	next.as("bob", 202, "POST "+next.path()+"/approve", "")
	next.changedBy("ann", "2")
	migrate := `{"metadata":{"name":"m"},"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"g"}}`
	for _, dry := range []string{"", "?dryRun=true"} {
		g.as("bob", 409, "POST "+g.path()+"/migrate"+dry, migrate, next.path()+" has changed since it was approved: ann changed")
	}
	next.as("bob", 202, "POST "+next.path()+"/approve", "")
	g.as("ann", 202, "POST "+g.path()+"/migrate", migrate)
}

// Without the option, and in other projects, groups work as upstream's.
func TestOtherProjectsKeepTheirApprovals(t *testing.T) {
	t.Parallel()
	p, _ := newWatchedGroup(t)
	p.reviews.Projects = []string{"bank"}
	g := p.group("v1", "g")
	g.changedBy("ann", "1")
	g.as("ann", 202, "POST "+g.path()+"/approve", "")
	g.changedBy("ann", "2")
	g.as("ann", 202, "POST "+g.path()+"/approve", "")
	if got := g.history(); got != "Created 0, Approved 0" {
		t.Errorf("the history is %q, want one approval", got)
	}
	g.as("ann", 202, "POST "+g.path()+"/instantiate", "")
}

// The documents are read when the operation is carried out, which may be hours after its request if it waits for workflows. What has changed
// meanwhile was reviewed by nobody.
func TestWhatChangesAfterTheRequestIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	p, g := newWatchedGroup(t)
	instantiate, update := "POST "+g.path()+"/instantiate", "POST "+g.path()+"/update"
	failed := func(what, by string) {
		t.Helper()
		if got := g.head().Failure; !strings.Contains(got, "has changed since it was reviewed: "+by+" changed ") || !strings.Contains(got, "auth.fourEyes") {
			t.Errorf("%s: the failure is %q", what, got)
		}
	}
	g.as("bob", 202, "POST "+g.path()+"/approve", "")
	g.as("ann", 202, instantiate, "")
	g.changedBy("ann", "late")
	p.work()
	failed("instantiate", "ann")
	if rev := g.head().Rev; rev != 0 {
		t.Errorf("revision %d is desired", rev)
	}
	g.as("ann", 403, instantiate, "")
	g.as("bob", 202, instantiate, "") // it reviews the change
	p.work()
	p.settle()
	if h := g.head(); h.Rev == 0 || h.Failure != "" {
		t.Errorf("after another caller has reviewed it: %+v", h)
	}

	desired := g.head().Rev
	g.as("bob", 202, update, "")
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chart("new")) // by anonymous
	p.work()
	failed("update", "anonymous")
	if rev := g.head().Rev; rev != desired {
		t.Errorf("revision %d is desired, want %d", rev, desired)
	}
	g.as("anonymous", 202, "POST "+g.path()+"/rollback", `{"metadata":{"name":"r"},"spec":{"revision":"`+strconv.FormatInt(desired, 10)+`"}}`)
	p.work()
	p.settle()
	if h := g.head(); h.Rev == desired || h.Failure != "" {
		t.Errorf("after a rollback: %+v", h)
	}
	g.as("bob", 202, update, "")
	p.work()
	p.settle()
	if h := g.head(); h.Failure != "" {
		t.Errorf("after another caller has reviewed it: %+v", h)
	}
}
