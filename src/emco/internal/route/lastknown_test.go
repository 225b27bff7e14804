package route_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

// awayFixture is a fleet whose documents can be away, with cluster "fed" in a repository and "direct".
type awayFixture struct {
	clusterFixture
	documents *resourcetest.Outage
	log       *resourcetest.Log
	routes    *route.Resolver
}

func newAwayFleet(t *testing.T) awayFixture {
	t.Helper()
	documents, db := resourcetest.NewOutage(t)
	f := awayFixture{clusterFixture: clusterFixture{t, db}, documents: documents, log: &resourcetest.Log{}}
	f.put(provider, v2.Named{}, "")
	f.syncObject("repo", "https://git.example/fleet", "main")
	f.register("fed", v2.GitOps{Type: "git", Reference: "repo"}, "")
	f.register("direct", v2.GitOps{}, "kubeconfig")
	known := route.NewLastKnown(slog.New(slog.NewTextHandler(f.log, nil)))
	f.routes = &route.Resolver{DB: db, Backends: backends.Backends(), LastKnown: known}
	return f
}

// leave makes the documents be away, and the resolver notice that.
func (f awayFixture) leave() {
	f.documents.SetAway(true)
	_, err := f.db.Changes(f.Context(), 0)
	f.routes.LastKnown.DocumentsAsked(err)
}

// back makes the documents answer, and the resolver notice that.
func (f awayFixture) back() {
	f.documents.SetAway(false)
	f.routes.LastKnown.DocumentsAsked(nil)
}

func (f awayFixture) route(cluster v2.ClusterKey) (route.Route, error) {
	return f.routes.DeliveryLookup().Route(f.Context(), cluster)
}

// wants wants a route to the repository with a token, or the error of documents that are away if token is empty.
func (f awayFixture) wants(when, token string) {
	f.Helper()
	r, err := f.route("edge+fed")
	got := ""
	if err == nil {
		got = r.Settings.Repo.Token.Reveal()
	}
	if token == "" && !errs.Is(err, errs.Unavailable) || token != "" && (err != nil || got != token) {
		f.Errorf("%s: token %q, %v; want %q", when, got, err, token)
	}
}

// setToken changes the token of the repository.
func (f awayFixture) setToken(token string) {
	f.Helper()
	text := strings.Replace(syncObject("repo", "https://git.example/fleet", "main"), `"secret"`, `"`+token+`"`, 1)
	if _, err := f.db.Replace(f.Context(), store.Write{Key: provider + "/cluster-sync-objects/repo", Parent: provider, Secret: seal.Secret(text)}, 0); err != nil {
		f.Fatal(err)
	}
}

// Deliveries use what was read last while the documents are away, and only then.
func TestDeliveriesUseWhatWasReadLastWhileDocumentsAreAway(t *testing.T) {
	t.Parallel()
	f := newAwayFleet(t)
	f.leave()
	f.wants("before anything was read", "")
	f.back()
	before, err := f.route("edge+direct")
	if err != nil {
		t.Fatal(err)
	}
	f.wants("first", "secret")
	f.leave()
	f.wants("while they are away", "secret")
	if r, err := f.route("edge+direct"); err != nil || !r.Recalled || string(r.Kubeconfig) != "kubeconfig" || r.Registration != before.Registration || r.Queue != before.Queue {
		t.Errorf("a direct cluster: %+v, %v, want %+v", r, err, before)
	}
	if _, err := f.routes.Lookup().Route(t.Context(), "edge+fed"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a lookup that is not for deliveries: %v, want Unavailable", err)
	}
	if _, err := f.routes.Shards(t.Context(), []v2.ClusterKey{"edge+fed"}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("the shard of a cluster: %v, want Unavailable", err)
	}
	if !f.routes.LastKnown.Used() || strings.Count(f.log.String(), "the documents are away") != 1 || strings.Contains(f.log.String(), "answer again") {
		t.Errorf("used: %t; the log:\n%s", f.routes.LastKnown.Used(), f.log)
	}

	f.documents.SetAway(false) // nothing has noticed yet
	f.setToken("mended")
	f.wants("as soon as they answer", "mended")
	if r, err := f.route("edge+direct"); err != nil || r.Recalled {
		t.Errorf("as soon as they answer: %+v, %v", r, err)
	}
	f.back()
	f.back()
	if f.routes.LastKnown.Used() || strings.Count(f.log.String(), "answer again") != 1 {
		t.Errorf("used: %t; the log:\n%s", f.routes.LastKnown.Used(), f.log)
	}
	f.leave()
	f.wants("when they are away again", "mended")
	if strings.Contains(f.log.String(), "mended") {
		t.Errorf("the log has the token:\n%s", f.log)
	}
}

// One Unavailable document is no outage: the store answers.
func TestNothingStaleIsUsedWhileDocumentsAnswer(t *testing.T) {
	t.Parallel()
	f := newAwayFleet(t)
	f.wants("first", "secret")
	f.documents.SetAway(true)
	f.wants("a read that fails, though the documents answered last", "")
	f.documents.SetAway(false)

	f.setToken("other") // no lookup reads it
	for name, changes := range map[string]store.Changes{
		"the sync object": {Keys: []store.Key{provider + "/cluster-sync-objects/repo"}},
		"the cluster":     {Keys: []store.Key{provider + "/clusters/fed"}},
		"any document":    {All: true},
	} {
		f.wants("before a change of "+name, "other")
		late := f.routes.DeliveryLookup()
		f.routes.LastKnown.Forget(changes)
		if _, err := late.Route(t.Context(), "edge+fed"); err != nil {
			t.Error(err)
		}
		f.leave()
		f.wants("after a change of "+name+" that only a lookup from before it has read", "")
		f.back()
	}
	f.wants("again", "other")
	f.routes.LastKnown.Forget(store.Changes{Keys: []store.Key{"projects/p", provider + "/clusters/direct"}})
	f.leave()
	f.wants("after a change of other documents", "other")
	f.back()

	if err := f.db.Delete(t.Context(), provider+"/clusters/fed", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.route("edge+fed"); !errs.Is(err, errs.NotFound) {
		t.Errorf("a cluster that was deregistered: %v", err)
	}
	f.leave()
	f.wants("after the cluster was deregistered", "")
}

// A caller that ends gets no route.
func TestNothingIsRecalledForACallerThatEnds(t *testing.T) {
	t.Parallel()
	f := newAwayFleet(t)
	f.wants("first", "secret")
	f.leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.routes.DeliveryLookup().Route(ctx, "edge+fed"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
}

// moves are the last moves of all clusters.
type moves gitstate.Relocation

func (m *moves) Of(context.Context, v2.ClusterKey) (gitstate.Relocation, error) {
	return gitstate.Relocation(*m), nil
}

// A cluster that others have moved since is not fed at its old place.
func TestARouteFromBeforeAMoveIsNotUsed(t *testing.T) {
	t.Parallel()
	f := newAwayFleet(t)
	var last moves
	f.routes.Moves = &last
	f.wants("first", "secret")
	r, err := f.route("edge+fed")
	if err != nil {
		t.Fatal(err)
	}
	f.leave()
	last = moves{Registration: "another", Number: 1}
	f.wants("after a move of a former cluster of the same name", "secret")
	last.Registration = r.Registration
	f.wants("after a move", "")
}
