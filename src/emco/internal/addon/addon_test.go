package addon_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const thing = "things/t"

// fixture is a server of the actions of one document.
type fixture struct {
	*resourcetest.Server
	deployments addon.Deployments
	contexts    *appcontext.Store
	doc         store.Doc
}

func serve(t *testing.T) fixture {
	t.Helper()
	f := fixture{contexts: contexttest.New(t)}
	f.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		f.deployments = addon.New(db, f.contexts, lifecycle.CloudTable(), "the thing")
		f.deployments.Reader = statusview.New(f.contexts, mirror.New(f.contexts, slog.New(slog.DiscardHandler)), statusview.Default())
		find := func(r *http.Request) (store.Doc, error) { return db.Get(r.Context(), thing) }
		decide := func(_ context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
			m, err := f.deployments.Change(now, ask)
			return []appcontext.HeadChange{m}, err
		}
		for _, a := range []lifecycle.Action{lifecycle.Instantiate, lifecycle.Update, lifecycle.Terminate, lifecycle.Stop} {
			web.Handle(r, http.MethodPost, "/v2/things/t/"+a.String(), authz.Permission{Verb: authz.Public}, web.WithDryRun(f.deployments.Action(a, http.StatusAccepted, find, decide)))
		}
	})
	var err error
	if f.doc, err = f.DB.Create(t.Context(), store.Write{Key: thing, Body: json.RawMessage("{}")}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) do(t *testing.T, action string, status int, text string) {
	t.Helper()
	f.Run(t, resourcetest.Step{Do: "POST /v2/things/t/" + action, Status: status, Text: text})
}

// publish carries out the operation that waits, and returns the next head.
func (f fixture) publish(t *testing.T, clusters ...v2.ClusterKey) appcontext.Head {
	t.Helper()
	head, err := f.contexts.Head(t.Context(), appcontext.HeadID(f.doc.UID))
	if err != nil || head.Op == nil {
		t.Fatalf("no operation waits: %+v %v", head, err)
	}
	r := addon.Revision{App: "prepared"}
	for _, c := range clusters {
		bundle, err := addon.Save(t.Context(), f.contexts, r.App, head.Deployment(), []any{object("z"), object("a")})
		if err != nil {
			t.Fatal(err)
		}
		r.Places = append(r.Places, addon.Place{Cluster: c, Bundle: bundle})
	}
	if head, err = addon.Publish(t.Context(), f.contexts, head, r); err != nil {
		t.Fatal(err)
	}
	return head
}

func object(name string) any {
	return json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"n"}}`)
}

func TestAnAddonIsADeploymentWithOneApp(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do(t, "instantiate?dryRun=true", 200, `"state":"Instantiated"`)
	f.do(t, "instantiate", 202, "=")
	head := f.publish(t, "edge+a", "edge+b")
	if head.Rev != 1 || head.Op != nil || head.State != appcontext.Instantiated {
		t.Errorf("the head is %+v, want revision 1 without an operation", head)
	}
	rev, err := f.contexts.Revision(t.Context(), head.UID, 1)
	if err != nil || len(rev.Apps) != 1 || rev.Apps[0].Name != "prepared" || len(rev.Apps[0].Bundles) != 1 || rev.Kind != "instantiate" {
		t.Fatalf("the revision is %+v %v, want one app with the bundle that both clusters share", rev, err)
	}
	bundle, err := f.contexts.GetBundle(t.Context(), rev.Apps[0].Bundles[0])
	if err != nil || len(bundle.Objects) != 2 || bundle.Objects[0].Name != "a" || bundle.Objects[0].Stamp == "" {
		t.Errorf("the bundle is %+v %v, want its objects sorted and stamped", bundle, err)
	}
	content, err := f.contexts.GetBlob(t.Context(), bundle.Objects[0].Digest)
	if err != nil || !strings.Contains(string(content), "emco/deployment-id") {
		t.Errorf("the object is %s %v, want the label of its deployment", content, err)
	}
	places, err := f.contexts.Placements(t.Context(), head.UID, 1)
	if err != nil || len(places) != 2 || places[0].Cluster != "edge+a" || places[1].Apps["prepared"] != rev.Apps[0].Bundles[0] {
		t.Errorf("the placements are %+v %v, want both clusters", places, err)
	}
}

func TestStatesOfAnAddon(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.do(t, "update", 409, "not allowed in state Created")
	f.do(t, "instantiate", 202, "=")
	f.do(t, "instantiate", 409, "not allowed in state Instantiated")
	f.publish(t, "edge+a")
	if _, err := f.deployments.Idle(t.Context(), f.doc, "wait"); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "the thing is instantiated; wait") {
		t.Errorf("an instantiated addon is idle: %v", err)
	}
	f.do(t, "update", 202, "=")
	if head := f.publish(t); head.Rev != 2 || head.State != appcontext.Instantiated {
		t.Errorf("after the update the head is %+v, want revision 2", head)
	}
	f.do(t, "stop", 202, "=")
	f.do(t, "terminate", 202, "=")

	left := appcontext.PairKey{Cluster: "edge+a", Deployment: appcontext.HeadID(f.doc.UID).Deployment(), App: "prepared"}
	if err := f.contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{{Key: left}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.deployments.Forget(t.Context(), f.doc); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "is being terminated") {
		t.Errorf("an addon of which a cluster holds a part is forgotten: %v", err)
	}
	if err := f.contexts.PutPairs(t.Context(), appcontext.Fence{}, nil, []appcontext.PairKey{left}); err != nil {
		t.Fatal(err)
	}
	head, err := f.deployments.Idle(t.Context(), f.doc, "wait")
	if err != nil || !head.Gone || head.Terminated.After(time.Now()) || head.Terminated.IsZero() {
		t.Errorf("the terminated addon has the head %+v %v, want it gone", head, err)
	}
	if err := f.deployments.Forget(t.Context(), f.doc); err != nil {
		t.Fatal(err)
	}
	if _, err := f.contexts.Head(t.Context(), head.UID); !errs.Is(err, errs.NotFound) {
		t.Errorf("the AppContext still has the addon: %v", err)
	}
}

func TestPublishersAreFoundByCollection(t *testing.T) {
	t.Parallel()
	one := publisher{}
	all := addon.Publishers{"logical-clouds": one}
	for key, want := range map[store.Key]bool{
		"projects/p/logical-clouds/l": true, "projects/logical-clouds": false, "logical-clouds": false, "": false,
		"projects/p/composite-apps/c/v1/deployment-intent-groups/logical-clouds": false,
	} {
		if got, found := all.Of(key); found != want || found && got != addon.Publisher(one) {
			t.Errorf("%q: got %v %v, want %v", key, got, found, want)
		}
	}
}

type publisher struct{ addon.Publisher }
