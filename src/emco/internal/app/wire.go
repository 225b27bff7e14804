package app

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition/opa"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/dtc"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/external"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/gac"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/hpa"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/httpvalue"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/ovnaction"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/sfc"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/tac"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/documenttally"
	"github.com/emco-orchestrator/emco/src/emco/internal/etcdspace"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	externalplacement "github.com/emco-orchestrator/emco/src/emco/internal/placement/external"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/freeresources"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/upkeep"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	dtcapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/dtc"
	gacapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/gac"
	hpaapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/hpa"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ncm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
	ovnapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/ovnaction"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ownresource"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/placementintent"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/policyintents"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync"
	rsyncapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/api"
	sfcapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/sfc"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/workflowmgr"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
	"github.com/emco-orchestrator/emco/src/emco/internal/views"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// renderChild is the argument that makes the program render charts for its parent; see
// package isolated.
const renderChild = "render-child"

// api is what the services serve.
type api struct {
	routes http.Handler
	ahead  func(next http.Handler) http.Handler // answers what has credentials of its own, and comes very often
}

// wire builds the services that the configuration names. It returns their routes and what
// runs in the background.
//
// Each process may run other services on the same stores. So what several services use is built in all of them, and then each
// service is added: its routes, and what it does in the background. Access comes first, because policy intents ask it what their
// actors may do, and the views last, because they show the queues of rsync.
func (a *App) wire(ctx context.Context, c config.Config, p resolvedSettings, st openStores, m *metrics) (api, []run.Service, error) {
	w, err := a.newWiring(c, p, st, m)
	if err != nil {
		return api{}, nil, err
	}
	if err := w.addAccess(ctx); err != nil {
		return api{}, nil, err
	}
	ownresource.Resources{DB: st.db, Types: p.schemas}.Mount(w.router) // below documents of any service
	if c.Runs("clm") {
		w.addClusters()
	}
	if c.Runs("placementintent") || c.Runs("orchestrator") { // upstream's clients look for it at the orchestrator's address
		placementintent.Resources{DB: st.db}.Mount(w.router)
	}
	if c.Runs("dcm") {
		w.addLogicalClouds()
	}
	if c.Runs("orchestrator") {
		w.addOrchestrator()
	}
	if c.Runs("rsync") {
		w.addRsync()
	}
	if c.Runs("orchestrator") || c.Runs("dcm") || c.Runs("rsync") {
		w.addViews()
	}
	a.description = openapi.PagesOf(w.router, version.Read().Version)
	notifier, err := a.notifier(c, w.groups, w.clouds, w.networks, w.reader)
	return api{routes: w.router, ahead: w.ahead}, append(w.services, notifier...), err
}

// wiring is what services share while they are built, and what they add.
type wiring struct {
	*App
	c  config.Config
	p  resolvedSettings
	st openStores
	m  *metrics

	rules    syncobjects.Rules // for new sync objects
	stored   syncobjects.Rules // for those that are stored
	backends *syncer.Registry
	renderer render.Renderer
	mirror   *mirror.Mirror
	reader   *statusview.Reader // of the mirror
	groups   *orchestrator.Groups
	clouds   *dcm.Clouds
	networks *ncm.Networks
	free     *freeresources.Reader // of clusters

	router   *mux.Router
	ahead    func(next http.Handler) http.Handler // see api
	lanes    *views.Lanes                         // nil without rsync
	branches *doctor.Branches                     // nil without rsync
	services []run.Service
}

// newWiring builds what services share.
func (a *App) newWiring(c config.Config, p resolvedSettings, st openStores, m *metrics) (*wiring, error) {
	w := &wiring{App: a, c: c, p: p, st: st, m: m, router: web.NewRouter(), ahead: func(next http.Handler) http.Handler { return next }}
	w.router.Use(web.RefuseStoring(a.disk.Refusal), web.RefuseChanges(st.level.Ready))
	w.stored = storedRules(c, p)
	w.rules = w.stored
	w.rules.PlainHTTP = c.Git.PlainHTTP
	w.backends = backends.On(backends.Platforms{Azure: p.azure, Plugins: p.plugins})
	w.mirror = mirror.New(st.contexts, a.log)
	a.names.Set(func(id string) string { return w.mirror.Document(v2.DeploymentID(id)) })
	w.reader = statusview.New(st.contexts, w.mirror, statusOptions(c))
	var err error
	if w.renderer, err = a.renderer(c, p, m); err != nil {
		return nil, err
	}
	dial := grpccall.Dialer{Admit: p.outward.Check, TLS: p.controllerTLS, PlainText: c.Controllers.PlainText}
	w.free = a.freeResources(c, st, w.stored)
	usage := quota.NewUsage()
	w.mirror.Observe(usage)
	w.groups = orchestrator.NewGroups(st.db, st.contexts, w.renderer).WithStatus(w.reader).WithUsage(usage).WithPlaced(w.mirror).
		WithControllers(controllers(st.db, p.values), p.values).
		WithPlacement(placementControllers(st.db, w.free)).
		WithLevel(st.level.InForce).
		WithExternal(external.Controllers(dial), externalplacement.Controllers(dial))
	w.clouds = dcm.NewClouds(st.db, st.contexts).WithStatus(w.reader)
	w.networks = ncm.New(st.db, st.contexts).WithStatus(w.reader)
	documents := documenttally.New(st.db, a.log)
	m.documentCounts(documents.Counts)
	w.services = []run.Service{
		documents,
		&upkeep.Service{DB: st.db, Log: a.log},
		&etcdspace.Service{Contexts: st.contexts, Reclaim: st.reclaim(), OnProbe: m.etcdFull, Log: a.log, Place: etcdPlace(c)},
	}
	return w, nil
}

// storedRules are the rules for sync objects that are stored. Those of older versions still work; only new ones with plain HTTP
// are refused.
func storedRules(c config.Config, p resolvedSettings) syncobjects.Rules {
	return syncobjects.Rules{AllowFile: c.Git.AllowFile, PlainHTTP: true, Outbound: p.outward}
}

// addAccess adds users, tokens and roles, and the audit log of what they do.
func (w *wiring) addAccess(ctx context.Context) error {
	guarding, err := w.openAccess(ctx, w.c, w.p, w.st.db, w.st.keys.Ring.Sealer(), w.groups, w.router)
	if err != nil {
		return err
	}
	w.services = append(w.services, guarding...)
	w.audit(w.st, w.router)
	return nil
}

// addClusters adds clusters and their sync objects.
func (w *wiring) addClusters() {
	places := clm.Resources{
		DB: w.st.db, Rules: w.rules, Backends: w.backends, Delivered: w.st.contexts.HasApplied, Wanted: w.st.contexts.HasDesired, Moves: w.st.contexts,
		Networks: w.networks.Guards(), Log: w.log,
	}.Mount(w.router)
	w.services = append(w.services, places)
}

// addLogicalClouds adds logical clouds, and the networks of clusters.
func (w *wiring) addLogicalClouds() {
	dcm.NewResources(w.st.db, w.clouds).Mount(w.router)
	w.clouds.Mount(w.router)
	w.networks.Mount(w.router)
}

// addOrchestrator adds projects, apps and deployment intent groups with their intents and workflows, and what executes the
// operations of all deployments, also of addons.
func (w *wiring) addOrchestrator() {
	addons := w.addCertificates()
	addons["logical-clouds"], addons["clusters"] = w.clouds, w.networks
	orchestrator.Resources{DB: w.st.db, Archives: archives(w.c), Groups: w.groups.Guards(), Use: w.groups.Use, Level: w.st.level.InForce}.Mount(w.router)
	w.addIntents()
	w.groups.Mount(w.router)
	w.addWorkflows()
	worker := orchestrator.NewWorker(w.groups, addons, w.renderer, w.member, w.panics(w.m), w.log).WithWitness(w.carriedOut).WithTracer(w.tracer)
	if w.upkeepAfter > 0 {
		worker = worker.WithFirstSweep(w.upkeepAfter)
	}
	w.services = append(w.services, worker)
}

// addCertificates adds certificate authorities and their renewal. It returns who publishes their stages, by collection.
func (w *wiring) addCertificates() addon.Publishers {
	certificates := cacert.New(w.st.db, w.st.contexts, signedCertificates{w.kube(w.c, w.stored.Outbound.Check), w.st.db}).WithStatus(w.reader)
	cacert.Resources{DB: w.st.db, Authorities: certificates.Guards()}.Mount(w.router)
	certificates.Mount(w.router)
	renewals := cacert.NewRenewals(certificates, w.member, w.log, w.m.renewalFailed)
	w.m.certificates(renewals.FirstEnd)
	w.mirror.Observe(renewals)
	w.services = append(w.services, renewals)
	return certificates.Publishers()
}

// addIntents adds the documents of action controllers, and policy intents.
func (w *wiring) addIntents() {
	gacapi.Resources{DB: w.st.db}.Mount(w.router)
	dtcapi.Resources{DB: w.st.db}.Mount(w.router)
	hpaapi.Resources{DB: w.st.db}.Mount(w.router)
	ovnapi.Resources{DB: w.st.db}.Mount(w.router)
	sfcapi.Resources{DB: w.st.db}.Mount(w.router)
	w.policies(w.st.db, w.groups, w.p.engine).Mount(w.router)
}

// addWorkflows adds the workflows of deployment intent groups.
func (w *wiring) addWorkflows() {
	workflowmgr.Resources{DB: w.st.db, Contexts: w.st.contexts, Runners: w.workflows, Now: time.Now}.Mount(w.router)
	w.services = append(w.services, workflowmgr.NewWorker(workflowmgr.Parts{
		DB: w.st.db, Contexts: w.st.contexts, Reader: w.reader, Mirror: w.mirror, Runners: w.workflows, Panics: w.panics(w.m), Member: w.member, Log: w.log, Now: time.Now,
	}))
}

// addRsync adds what delivers to clusters, and what takes their reports.
func (w *wiring) addRsync() {
	host := w.gitHost(w.c, w.p, w.st, w.m)
	rsyncapi.Branches{Contexts: w.st.contexts, DB: w.st.db, Rules: w.stored, Git: host, Log: w.log}.Mount(w.router)
	reports := w.newReportIntake(w.c, w.st, w.mirror, w.m, w.stored, host.budget)
	w.ahead = reports.mount(w.router, w.c.Status.WebhookSecret, w.st.level.Ready)
	w.sources = append(w.sources, reports.https)
	clusters := w.kube(w.c, w.stored.Outbound.Check)
	rsyncapi.Kubeconfigs{DB: w.st.db, Contexts: w.st.contexts, Kube: clusters}.Mount(w.router)
	writers := w.writers(w.c, w.m, host)
	routes := &route.Resolver{DB: w.st.db, Rules: w.stored}
	w.lanes = &views.Lanes{Branches: w.st.contexts, Writers: writers, Logs: host.logs(routes, w.panics(w.m)), Now: time.Now}
	w.branches = doctor.NewBranches(w.compared(), host, routes)
	delivering := w.rsync(w.c, w.p, w.m, w.st, w.mirror, w.stored, host, writers, clusters, w.backends, w.panics(w.m))
	w.lanes.Users, w.lanes.Owners, w.lanes.Budgets = delivering, w.st.contexts, host.budget
	w.services = append(w.services, reports.writer, reports.refusals, reports.git, delivering)
}

// addViews adds the views of the whole fleet, and the mirror that they follow.
func (w *wiring) addViews() {
	overview := w.views(w.c, w.m, w.st, w.mirror, w.reader, w.groups, w.free, w.lanes)
	overview.Mount(w.router)
	doctor.NewRoutes(w.compared(), w.branches).Mount(w.router)
	w.services = append(w.services, w.mirror, overview)
}

// compared returns the stores that doctor compares.
func (w *wiring) compared() doctor.Stores {
	return doctor.Stores{Contexts: w.st.contexts, Documents: w.st.db}
}

// controllers returns the action controllers of the program, by name.
func controllers(db *store.DB, values *httpvalue.Reader) map[string]customize.Controller {
	out := map[string]customize.Controller{
		dtc.Name: dtc.New(db), gac.Name: gac.New(db, values.Admit),
		ovnaction.Name: ovnaction.New(db), sfc.Name: sfc.New(db), sfc.ClientName: sfc.NewClient(db), tac.Name: tac.New(db),
	}
	for _, name := range hpa.ActionNames {
		out[name] = hpa.New(db, nil)
	}
	return out
}

// policies returns the service of policy intents, whose events act on groups.
func (a *App) policies(db *store.DB, groups *orchestrator.Groups, engine *opa.Engine) *policyintents.Service {
	s := &policyintents.Service{DB: db, Actions: eventActions{groups}, Engine: engine, Log: a.log, Now: time.Now}
	if a.guard != nil {
		s.Grants, s.Lives = a.guard.Grants.Current, a.guard.Grants.Lives
	}
	return s
}

// eventActions has groups carry out what events ask for.
type eventActions struct{ *orchestrator.Groups }

func (e eventActions) Act(ctx context.Context, r policyintents.Request) error {
	return e.Groups.Act(ctx, orchestrator.EventAction(r))
}

// placementControllers returns the placement controllers of the program, by name.
func placementControllers(db *store.DB, free *freeresources.Reader) map[string]placement.Controller {
	out := map[string]placement.Controller{}
	for _, name := range hpa.PlacementNames {
		out[name] = hpa.New(db, free.Of)
	}
	return out
}

// freeResources returns what clusters have free, by reports and by reads of direct clusters.
func (a *App) freeResources(c config.Config, st openStores, rules syncobjects.Rules) *freeresources.Reader {
	clusters, routes := a.kube(c, rules.Outbound.Check), &route.Resolver{DB: st.db, Rules: rules}
	connect := func(ctx context.Context, cluster v2.ClusterKey) (api freeresources.Connection, direct bool, err error) {
		lookup := routes.Lookup()
		if registered, err := lookup.Registration(ctx, cluster); err != nil || !registered.Direct() {
			return nil, false, err
		}
		r, err := lookup.Route(ctx, cluster)
		if err == nil {
			api, err = clusters.Connect(r.Kubeconfig)
		}
		return api, true, err
	}
	return freeresources.New(st.contexts, connect, time.Duration(c.Status.Stale), time.Now, a.log)
}

// views returns the views of the whole fleet, which follow the mirror.
func (a *App) views(c config.Config, m *metrics, st openStores, seen *mirror.Mirror, reader *statusview.Reader, groups *orchestrator.Groups, free *freeresources.Reader, lanes *views.Lanes) *views.Views {
	counts := tally.New(time.Duration(c.Status.Stale), time.Now)
	seen.Observe(counts)
	m.fleet(counts.Totals)
	if lanes != nil {
		lanes.Edited = counts.Edited
	}
	return views.New(views.Parts{
		DB: st.db, Tally: counts, Pairs: seen, Deployments: reader, Revisions: st.contexts,
		Inventory: groups.Inventory(), Planner: groups.Queries(), Events: st.contexts, Commits: st.contexts, History: st.contexts, Lanes: lanes, Capacity: free.View, Streams: c.Status.Streams, Now: time.Now,
	})
}

func statusOptions(c config.Config) statusview.Options {
	o := statusview.Default()
	o.Stale, o.Streams, o.UpstreamWords = time.Duration(c.Status.Stale), c.Status.Streams, c.Status.UpstreamWords
	return o
}

// archives returns the limits of uploads.
func archives(c config.Config) tarball.Limits {
	l := tarball.Default()
	l.Compressed = c.HTTP.PackageLimit
	return l
}

// renderer returns a renderer that works in child processes: a template that never ends, or takes all
// memory, harms only its process.
func (a *App) renderer(c config.Config, p resolvedSettings, m *metrics) (render.Renderer, error) {
	r := p.charts
	if !a.renderHere {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the own program for rendering: %w", err)
		}
		r = isolated.New(r.Edition(), []string{self, renderChild, c.Render.KubeVersion}, renderLimits(c, p.weights))
	}
	r = render.Scrubbed(r)
	if c.Render.Anew {
		r = render.Uncached(r)
	}
	return a.faults.renderer(measuredRenderer{r, m, a.tracer}), nil
}

func renderLimits(c config.Config, weights func(project string) int) isolated.Limits {
	l := isolated.Default()
	l.Work, l.Time = time.Duration(c.Render.Timeout), isolated.Patience*time.Duration(c.Render.Timeout)
	l.Weight = weights
	l.Memory, l.Input = uint64(c.Render.Memory), c.HTTP.PackageLimit
	return l
}

// charts returns the renderer that runs in the process.
func charts(kubeVersion string) (render.Renderer, error) {
	o := helm.Default()
	o.KubeVersion = kubeVersion
	return helm.New(o)
}

func (a *App) rsync(c config.Config, p resolvedSettings, m *metrics, st openStores, seen *mirror.Mirror, rules syncobjects.Rules, host gitHost, writers *batch.Writers, clusters *kube.Sink, registry *syncer.Registry, panics *contain.Panics) *rsync.Service {
	admit := rules.Outbound.Check
	s := rsync.New(rsync.Parts{
		DB: st.db, Contexts: st.contexts, Mirror: seen, Backends: registry, Rules: rules,
		Git: a.faults.commits(sinksOf(c, admit, writers)), Kube: clusters, Retry: rsync.Retry{First: time.Duration(c.Retry.First), Longest: time.Duration(c.Retry.Longest)},
		Member: a.member, Workers: c.Kube.Workers, Weight: p.weights, Differ: host, Interval: time.Duration(c.Git.Look), Sources: a.sources, Panics: panics, Tracer: a.tracer, Log: a.log,
	})
	m.lastKnown(s.UsesLastKnown)
	return s
}

// kube returns how API servers of clusters are reached.
func (a *App) kube(c config.Config, admit func(netip.Addr) error) *kube.Sink {
	k := kube.Default()
	k.QPS, k.Burst, k.Timeout = float32(c.Kube.QPS), c.Kube.Burst, time.Duration(c.Kube.Timeout)
	k.Wrap, k.Admit = a.faults.kube(), admit
	return kube.New(k)
}

// panics contains panics, and logs and counts them.
func (a *App) panics(m *metrics) *contain.Panics {
	return &contain.Panics{Log: a.log, Count: m.panicked}
}

// member describes this process to the others that share its work. Each call gives it another name.
func member(c config.Config) shards.Member {
	return shards.Member{Holder: holder(c), TTL: time.Duration(c.Lease)}
}

// holder returns the name under which this process owns shards. Embedded stores have only
// one process, so a new process takes over the shards of a killed one at once.
func holder(c config.Config) string {
	if len(c.Etcd.Endpoints) == 0 {
		return "embedded"
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%d", strings.TrimSpace(host), os.Getpid(), time.Now().UnixNano())
}
