package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/placementintent"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// testingT is a test of package testing or of package rapid.
type testingT interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// controlPlane is the API of all services over real stores. The test runs the
// orchestrator's work, and settle replaces rsync and the clusters.
type controlPlane struct {
	testingT
	db       *store.DB
	contexts *appcontext.Store
	renderer render.Renderer
	api      http.Handler
	groups   *Groups
	usage    *quota.Usage                             // nil: quotas are not obeyed
	placers  func(v2.Controller) placement.Controller // registered ones; nil: none are called
	reviews  *review.Records                          // nil: callers may approve what they changed
	project  string
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	renderer := rendertest.Plain{}
	return newControlPlaneOn(t, resourcetest.DB(t), contexttest.New(t), renderer)
}

func newControlPlaneOn(t testingT, db *store.DB, contexts *appcontext.Store, renderer render.Renderer) *controlPlane {
	p := &controlPlane{testingT: t, db: db, contexts: contexts, renderer: renderer, project: "shop"}
	p.boot()
	return p
}

// boot builds all services, as at the start of a process.
func (p *controlPlane) boot() {
	r := web.NewRouter()
	clouds := dcm.NewClouds(p.db, p.contexts)
	p.groups = NewGroups(p.db, p.contexts, p.renderer).WithUsage(p.usage).WithExternal(nil, p.placers)
	clm.Resources{DB: p.db, Rules: syncobjects.Rules{}, Backends: backends.Backends(), Delivered: p.contexts.HasApplied, Wanted: p.contexts.HasDesired, Moves: p.contexts}.Mount(r)
	placementintent.Resources{DB: p.db}.Mount(r)
	dcm.NewResources(p.db, clouds).Mount(r)
	clouds.Mount(r)
	Resources{DB: p.db, Archives: tarball.Default(), Groups: p.groups.Guards(), Use: p.groups.Use}.Mount(r)
	p.groups.Mount(r)
	if p.reviews != nil {
		p.groups.WithReviews(p.reviews)
		r.Use(p.noted)
	}
	p.api = web.Wrap(slog.New(slog.DiscardHandler), web.Identify("X-Forwarded-User", r))
}

// apiRequest is a request to the API. Paths are below /v2.
type apiRequest struct {
	do, body, file string // "POST projects"; file makes the body a part of a form
	header         string // "Name: value"
}

// apiAnswer is an answer of the API.
type apiAnswer struct {
	status int
	body   string
}

func (p *controlPlane) send(r apiRequest) apiAnswer {
	p.Helper()
	method, path, _ := strings.Cut(r.do, " ")
	body, kind := bytes.NewBufferString(r.body), "application/json"
	if r.file != "" {
		body = &bytes.Buffer{}
		form := multipart.NewWriter(body)
		p.must(form.WriteField("metadata", r.body))
		part, err := form.CreateFormFile("file", "file")
		p.must(err)
		_, err = part.Write([]byte(r.file))
		p.must(err)
		p.must(form.Close())
		kind = form.FormDataContentType()
	}
	req := httptest.NewRequestWithContext(p.Context(), method, "/v2/"+path, body)
	req.Header.Set("Content-Type", kind)
	if name, value, ok := strings.Cut(r.header, ": "); ok {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.api.ServeHTTP(w, req)
	return apiAnswer{w.Code, strings.TrimSpace(w.Body.String())}
}

// want sends a request that must be answered so, and returns the body.
func (p *controlPlane) want(status int, do, body string) string {
	p.Helper()
	a := p.send(apiRequest{do: do, body: body})
	if a.status != status {
		p.Fatalf("%s %s: got %d %s, want %d", do, body, a.status, a.body, status)
	}
	return a.body
}

func (p *controlPlane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%v", err)
	}
}

// fleet registers clusters with the label "all" and makes a logical cloud of them, which
// is instantiated.
func (p *controlPlane) fleet(provider string, clusters ...string) {
	p.Helper()
	at := "cluster-providers/" + provider
	p.want(201, "POST cluster-providers", name(provider))
	p.want(201, "POST "+at+"/cluster-sync-objects", `{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"http://127.0.0.1:1/fleet.git"},{"userName":"emco"},{"gitToken":"t"},{"branch":"main"}]}}`)
	p.want(201, "POST projects", name(p.project))
	p.want(201, "POST "+p.clouds(), `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	for _, c := range clusters {
		p.want(201, "POST "+at+"/clusters", `{"metadata":{"name":"`+c+`"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`)
		p.want(201, "POST "+at+"/clusters/"+c+"/labels", `{"clusterLabel":"all"}`)
		p.want(201, "POST "+p.clouds()+"/stores/cluster-references", `{"metadata":{"name":"`+c+`"},"spec":{"clusterProvider":"`+provider+`","cluster":"`+c+`"}}`)
	}
	p.want(202, "POST "+p.clouds()+"/stores/instantiate", "")
}

func (p *controlPlane) clouds() string { return "projects/" + p.project + "/logical-clouds" }

func name(s string) string { return `{"metadata":{"name":"` + s + `"}}` }

// onboard makes a version of the composite app "till" with the app "web". Its one ConfigMap
// holds the version's name.
func (p *controlPlane) onboard(version string) {
	p.Helper()
	all := "projects/" + p.project + "/composite-apps"
	p.want(201, "POST "+all, `{"metadata":{"name":"till"},"spec":{"compositeAppVersion":"`+version+`"}}`)
	at := all + "/till/" + version
	p.upload("POST "+at+"/apps", name("web"), p.chart(version))
	p.want(201, "POST "+at+"/composite-profiles", name("small"))
	p.upload("POST "+at+"/composite-profiles/small/profiles", `{"metadata":{"name":"web"},"spec":{"app":"web"}}`, p.pack(map[string]string{
		"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "a: b\n",
	}))
}

// chart holds one ConfigMap.
func (p *controlPlane) chart(content string) string {
	return p.pack(map[string]string{
		"web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"web/templates/object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  content: " + fmt.Sprintf("%q", content) + "\n",
	})
}

// broken is a chart that does not render to anything that a cluster would take.
func (p *controlPlane) broken() string {
	return p.pack(map[string]string{
		"web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"web/templates/object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels: {a: b}\n",
	})
}

func (p *controlPlane) pack(files map[string]string) string {
	p.Helper()
	packed, err := rendertest.Pack(files)
	p.must(err)
	return string(packed)
}

func (p *controlPlane) upload(do, body, file string) {
	p.Helper()
	if a := p.send(apiRequest{do: do, body: body, file: file}); a.status != 201 && a.status != 200 {
		p.Fatalf("%s: got %d %s", do, a.status, a.body)
	}
}

// testGroup is a deployment intent group by its path.
type testGroup struct {
	*controlPlane
	version, name string
}

func (p *controlPlane) group(version, name string) testGroup { return testGroup{p, version, name} }

func (g testGroup) path() string {
	return "projects/" + g.project + "/composite-apps/till/" + g.version + "/deployment-intent-groups/" + g.name
}

// make creates the group, with "web" on all clusters with the label.
func (g testGroup) make(provider string) {
	g.Helper()
	all, _, _ := strings.Cut(g.path(), "/"+g.name)
	g.want(201, "POST "+all, `{"metadata":{"name":"`+g.name+`"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	g.intend(provider)
}

// newMadeGroup returns a group that is made, of one app on one cluster.
func newMadeGroup(t *testing.T) (p *controlPlane, g testGroup) {
	t.Helper()
	p = newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g = p.group("v1", "g")
	g.make("edge")
	return p, g
}

// newLevel1Group returns a group that is made, of one app on one cluster, in a logical cloud of level 1
// with the namespace "team".
func newLevel1Group(t *testing.T) (p *controlPlane, g testGroup) {
	t.Helper()
	p = newControlPlane(t)
	return p, p.level1Group()
}

// level1Group makes the instantiated logical cloud "team" of level 1, and a group in it of one app on one cluster.
func (p *controlPlane) level1Group() testGroup {
	p.Helper()
	p.fleet("edge", "a")
	p.onboard("v1")
	team := p.clouds() + "/team"
	p.want(201, "POST "+p.clouds(), `{"metadata":{"name":"team"},"spec":{"level":"1","namespace":"team","user":{"userName":"ann"}}}`)
	p.want(201, "POST "+team+"/cluster-references", `{"metadata":{"name":"a"},"spec":{"clusterProvider":"edge","cluster":"a"}}`)
	p.want(201, "POST "+team+"/user-permissions", `{"metadata":{"name":"own"},"spec":{"namespace":"team","apiGroups":["*"],"resources":["*"],"verbs":["*"]}}`)
	p.want(202, "POST "+team+"/instantiate", "")
	g := p.group("v1", "g")
	p.want(201, "POST "+strings.TrimSuffix(g.path(), "/g"), `{"metadata":{"name":"g"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"team"}}`)
	g.intend("edge")
	return g
}

// intend makes what is below the group.
func (g testGroup) intend(provider string) {
	g.Helper()
	g.want(201, "POST "+g.path()+"/generic-placement-intents", name("places"))
	g.want(201, "POST "+g.path()+"/generic-placement-intents/places/app-intents",
		`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"`+provider+`","clusterLabel":"all"}]}}}`)
	g.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`)
}

// act posts an action, with a body if there is one, and returns the answer.
func (g testGroup) act(name string, body ...string) apiAnswer {
	g.Helper()
	return g.send(apiRequest{do: "POST " + g.path() + "/" + name, body: strings.Join(body, "")})
}

// acts posts actions that must be accepted.
func (g testGroup) acts(names ...string) {
	g.Helper()
	for _, name := range names {
		if a := g.act(name); a.status != 202 {
			g.Fatalf("%s of %s: got %d %s", name, g.path(), a.status, a.body)
		}
	}
}

// runs makes a group that is delivered.
func (p *controlPlane) runs(version, name, provider string) testGroup {
	p.Helper()
	g := p.group(version, name)
	g.make(provider)
	g.acts("approve", "instantiate")
	p.work()
	p.settle()
	return g
}

func (g testGroup) head() appcontext.Head {
	g.Helper()
	head, err := g.contexts.Head(g.Context(), appcontext.HeadID(g.doc().UID))
	if !errs.Is(err, errs.NotFound) {
		g.must(err)
	}
	return head
}

func (g testGroup) doc() store.Doc {
	g.Helper()
	doc, err := g.db.Get(g.Context(), store.Key(g.path()))
	g.must(err)
	return doc
}

func (g testGroup) status() v2.Status {
	return get[v2.Status](g.controlPlane, g.path()+"/status?status=deployed")
}

// get decodes an answer.
func get[T any](p *controlPlane, path string) (out T) {
	p.Helper()
	p.must(json.Unmarshal([]byte(p.want(200, "GET "+path, "")), &out))
	return out
}

// history is the group's states in short: "Created 0, Approved 0, Instantiated 1".
func (g testGroup) history() string {
	g.Helper()
	var out []string
	for _, a := range g.status().States.Actions {
		out = append(out, fmt.Sprint(a.State, " ", a.Revision))
	}
	return strings.Join(out, ", ")
}

// work executes all queued operations.
func (p *controlPlane) work() {
	p.Helper()
	p.workWith(p.Context(), p.renderer)
}

func (p *controlPlane) workWith(ctx context.Context, renderer render.Renderer) {
	p.Helper()
	w := &Worker{db: p.db, contexts: p.contexts, planner: p.groups.planner, quotas: p.groups.quotas, reviewed: p.groups.reviewed, renderer: renderer, log: slog.New(slog.DiscardHandler)}
	for op, err := range p.contexts.Operations(p.Context()) {
		p.must(err)
		w.execute(ctx, revision.Builder{Contexts: p.contexts, Renderer: renderer, Blobs: p.contexts, Placed: p.groups.placed, Admit: w.admit, Recipients: w.planner.Recipients, CheckRegistered: w.planner.CheckRegistered}, op)
	}
}

// settle makes all clusters hold what is desired, as rsync would. It changes nothing for
// stopped deployments, nor for those that a group took over without a revision yet. It
// removes what no head owns.
func (p *controlPlane) settle() {
	p.Helper()
	keep, wanted := map[v2.DeploymentID]bool{}, map[appcontext.PairKey]appcontext.Pair{}
	for h, err := range p.contexts.Heads(p.Context()) {
		p.must(err)
		if !h.Owns() {
			continue
		}
		if h.Stopped || h.Rev == 0 && h.Inherited != "" && !h.Gone {
			keep[h.Deployment()] = true
			continue
		}
		if h.Rev == 0 || h.Gone {
			continue
		}
		places, err := p.contexts.Placements(p.Context(), h.UID, h.Rev)
		p.must(err)
		for _, place := range places {
			for app, d := range place.Apps {
				k := appcontext.PairKey{Cluster: place.Cluster, Deployment: h.Deployment(), App: app}
				wanted[k] = appcontext.Pair{Key: k, Rev: h.Rev, Desired: d, Applied: d, Held: []appcontext.Digest{d}, Phase: appcontext.Applied}
			}
		}
	}
	var put []appcontext.Pair
	var gone []appcontext.PairKey
	for pair, err := range p.contexts.Pairs(p.Context()) {
		p.must(err)
		if _, stays := wanted[pair.Key]; !stays && !keep[pair.Key.Deployment] {
			gone = append(gone, pair.Key)
		}
	}
	for _, pair := range wanted {
		put = append(put, pair)
	}
	p.must(p.contexts.PutPairs(p.Context(), appcontext.Fence{}, put, gone))
}

// holds returns what clusters have of a deployment: "cluster content", in order.
func (p *controlPlane) holds(id string) string {
	p.Helper()
	pairs, err := p.contexts.PairsOf(p.Context(), v2.DeploymentID(id))
	p.must(err)
	var out []string
	for _, pair := range pairs {
		b, err := p.contexts.GetBundle(p.Context(), pair.Applied)
		p.must(err)
		text, err := p.contexts.GetBlob(p.Context(), b.Objects[0].Digest)
		p.must(err)
		var object struct {
			Metadata struct{ Labels map[string]string }
			Data     struct{ Content string }
		}
		p.must(json.Unmarshal(text, &object))
		if label := object.Metadata.Labels["emco/deployment-id"]; label != id+"-"+pair.Key.App {
			p.Errorf("%s holds an object with the label %s, want %s", pair.Key.Cluster, label, id)
		}
		_, cluster, _ := strings.Cut(string(pair.Key.Cluster), "+")
		out = append(out, cluster+" "+object.Data.Content)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
