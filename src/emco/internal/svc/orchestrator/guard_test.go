package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
)

// failingDriver is a document store that fails one read: the one after the next left reads.
type failingDriver struct {
	store.Driver
	left  atomic.Int64 // below 0: none fails
	fired atomic.Bool
}

// arm has the read fail that comes after n others.
func (f *failingDriver) arm(n int64) {
	f.fired.Store(false)
	f.left.Store(n)
}

// fault is the error of a read whose turn it is.
func (f *failingDriver) fault() error {
	if f.left.Add(-1) != -1 {
		return nil
	}
	f.fired.Store(true)
	return errs.E(errs.Unavailable, "read", "documents", errors.New("the disk is away"))
}

func (f *failingDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := f.fault(); err != nil {
		return store.Doc{}, err
	}
	return f.Driver.Get(ctx, k)
}

func (f *failingDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if err := f.fault(); err != nil {
			yield(store.Doc{}, err)
			return
		}
		for doc, err := range f.Driver.List(ctx, under, q) {
			if err == nil {
				err = f.fault()
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

// newFailingPlane returns a control plane whose reads of documents can fail.
func newFailingPlane(t *testing.T) (*controlPlane, *failingDriver) {
	t.Helper()
	driver, blobs := resourcetest.Driver(t)
	renderer := rendertest.Plain{}
	f := &failingDriver{Driver: driver}
	f.arm(-1)
	return newControlPlaneOn(t, store.New(f, blobs, seal.New(seal.NewKey())), contexttest.New(t), renderer), f
}

func clusterNames(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("c%02d", i))
	}
	return out
}

// An error while placements are worked out is an error, at whichever read it comes, and
// never a shorter list; what is short nevertheless has to be confirmed.
func TestH61AnEmptyPlacementNeverEmptiesAFleet(t *testing.T) {
	t.Run("reads that fail", failingReads)
	t.Run("labels with typing errors", typingErrors)
}

func failingReads(t *testing.T) {
	t.Parallel()
	p, f := newFailingPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	id, before := g.doc().UID, g.history()
	reads := int64(0)
	for ; ; reads++ {
		f.arm(reads)
		a := g.act("update")
		f.left.Store(-1)
		if !f.fired.Load() {
			equal(t, "an update without a fault", a, apiAnswer{202, "2"})
			break
		}
		if a.status != 503 || !strings.Contains(a.body, "the disk is away") || g.history() != before {
			t.Fatalf("read %d of the request failed: got %d %s, history %s", reads, a.status, a.body, g.history())
		}
	}

	w := &Worker{db: p.db, contexts: p.contexts, planner: p.groups.planner, renderer: p.renderer, log: slog.New(slog.DiscardHandler)}
	b := revision.Builder{Contexts: p.contexts, Renderer: p.renderer, Blobs: p.contexts}
	op := *g.head().Op
	n := int64(0)
	for ; ; n++ {
		f.arm(n)
		err := w.try(t.Context(), b, op, w.log)
		f.left.Store(-1)
		if !f.fired.Load() {
			p.must(err)
			break
		}
		if h := g.head(); !errs.Is(err, errs.Unavailable) || h.Rev != 1 || h.Op == nil || h.Failure != "" {
			t.Fatalf("read %d of the operation failed: got %v, head %+v", n, err, h)
		}
	}
	if reads < 10 || n < 10 {
		t.Errorf("only %d and %d reads failed", reads, n)
	}
	p.settle()
	equal(t, "in the end clusters hold", p.holds(id), "a v1, b v1")
}

func typingErrors(t *testing.T) {
	t.Parallel()
	names := clusterNames(24)
	p := newControlPlane(t)
	p.fleet("edge", names...)
	p.onboard("v1")
	p.want(201, "POST cluster-providers/edge/clusters/c00/labels", `{"clusterLabel":"al"}`)
	g, other := p.group("v1", "g"), p.group("v1", "other")
	label := func(g testGroup, label string) {
		t.Helper()
		p.want(200, "PUT "+g.path()+"/generic-placement-intents/places/app-intents/web",
			`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","clusterLabel":"`+label+`"}]}}}`)
	}
	g.make("edge")
	label(g, "al")
	g.acts("approve", "instantiate")
	p.work()
	p.settle()
	label(g, "all")
	g.acts("update")
	p.work()
	p.settle()
	id, all := g.doc().UID, g.history()
	intact := func(when string) {
		t.Helper()
		p.work()
		p.settle()
		if n := strings.Count(p.holds(id), "v1"); n != 24 {
			t.Fatalf("%s: %d of 24 clusters are left", when, n)
		}
	}

	const text = "this would remove 23 of 24 placements; if that is meant, confirm it with ?force=true"
	label(g, "al")
	g.refused("update", "", 409, text)
	label(g, "a")
	g.refused("update?force=true", "", 400, "no cluster of provider edge has the label a")
	g.refused("rollback", `{"spec":{"revision":"1"}}`, 409, text)
	other.make("edge")
	label(other, "al")
	other.acts("approve")
	const body = `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"other"}}`
	g.refused("migrate", body, 409, text)
	equal(t, "history", g.history(), all)
	intact("after refusals")

	label(g, "all")
	g.acts("update") // which is right, but then, before it is carried out:
	label(g, "al")
	intact("after a typing error behind the back of an update")
	if failure := g.head().Failure; failure != text {
		t.Errorf("failure %q, want %q", failure, text)
	}
	g.refused("instantiate", "", 409, text) // it failed, so it may be instantiated again
	intact("after an instantiate")

	g.acts("update?force=true")
	p.work()
	p.settle()
	equal(t, "when it is meant", p.holds(id), "c00 v1")
}

// A chart that renders to nothing by mistake must not delete what runs: not by an update, nor by another
// action that makes a revision. The plan says so before.
func TestAnEmptyChartDeletesNothingUnlessConfirmed(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	id, app := g.doc().UID, "projects/shop/composite-apps/till/v1/apps"
	empty := p.pack(map[string]string{"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n"})
	p.upload("PUT "+app+"/web", name("web"), empty)

	const text = "app web would have 0 instead of 1 objects on edge+a and clusters like it, and lose v1 ConfigMap default/web; if that is meant, confirm it with ?force=true"
	confirm := func(action, body, want string) {
		t.Helper()
		a := g.act(action+"?dryRun=true", body)
		var plan v2.Plan
		p.must(json.Unmarshal([]byte(a.body), &plan))
		equal(t, "the plan of "+action, plan.Confirm, want)
	}
	for _, action := range []string{"update", "instantiate"} { // after the failure, instantiate is allowed
		confirm(action, "", text)
		g.acts(action)
		p.work()
		p.settle()
		equal(t, "the failure of "+action, g.head().Failure, text)
		equal(t, "clusters hold", p.holds(id), "a v1, b v1")
	}
	other := p.group("v1", "other")
	other.make("edge")
	other.acts("approve")
	confirm("migrate", `{"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"other"}}`, text)

	g.acts("update?force=true")
	p.work()
	equal(t, "when it is meant", g.head().Failure, "")
	first := fmt.Sprint(g.head().Rev)
	p.upload("PUT "+app+"/web", name("web"), p.chart("v2"))
	g.acts("update")
	p.work()
	p.settle()
	equal(t, "clusters hold what came back", p.holds(id), "a v2, b v2")

	// What a rollback would bring is known when it is requested.
	back := `{"spec":{"revision":"` + first + `"}}`
	confirm("rollback", back, text)
	g.refused("rollback", back, 409, text)
	equal(t, "a rollback that is meant", g.act("rollback?force=true", back).status, 202)
	p.work()
	equal(t, "the rollback", g.head().Failure, "")
}

// A rollback cannot bring apps back to clusters that are no longer registered. It says so before it begins, or, if
// they go meanwhile, instead of a revision that would wait for them for ever.
func TestARollbackNamesClustersThatAreNoLongerRegistered(t *testing.T) {
	t.Parallel()
	names := clusterNames(8)
	p := newControlPlane(t)
	p.fleet("edge", names...)
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	for _, c := range names[1:] {
		p.want(204, "DELETE cluster-providers/edge/clusters/"+c+"/labels/all", "")
	}
	g.acts("update")
	p.work()
	p.settle()
	id := g.doc().UID
	equal(t, "clusters hold", p.holds(id), "c00 v1")
	deregister := func(c string) {
		t.Helper()
		p.want(204, "DELETE "+p.clouds()+"/stores/cluster-references/"+c, "")
		p.want(204, "DELETE cluster-providers/edge/clusters/"+c, "")
	}
	register := func(c string) {
		t.Helper()
		p.want(201, "POST cluster-providers/edge/clusters", `{"metadata":{"name":"`+c+`"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`)
	}
	const back = `{"spec":{"revision":"1"}}`
	refusal := func(named string) string {
		return "revision 1 is not restored: it has apps on clusters that are not registered any longer: " + named +
			"; register them again, or update, which uses the clusters that are registered now"
	}

	before := g.history()
	deregister("c01")
	g.refused("rollback", back, 400, refusal("edge+c01"))
	g.refused("rollback?dryRun=true", back, 400, refusal("edge+c01"))
	for _, c := range names[2:] {
		deregister(c)
	}
	g.refused("rollback?force=true", back, 400, refusal("edge+c01, edge+c02, edge+c03, edge+c04, edge+c05 and 2 more"))
	equal(t, "history", g.history(), before)

	for _, c := range names[1:] {
		register(c)
	}
	equal(t, "the rollback", g.act("rollback", back).status, 202)
	p.want(204, "DELETE cluster-providers/edge/clusters/c03", "") // before it is carried out
	p.work()
	p.settle()
	equal(t, "the failure", g.head().Failure, refusal("edge+c03"))
	equal(t, "clusters hold", p.holds(id), "c00 v1")

	register("c03")
	equal(t, "the rollback with all clusters", g.act("rollback", back).status, 202)
	p.work()
	p.settle()
	equal(t, "the failure", g.head().Failure, "")
	equal(t, "clusters hold", strings.Count(p.holds(id), "v1"), 8)
}
