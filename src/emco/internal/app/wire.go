package app

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
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
	"github.com/emco-orchestrator/emco/src/emco/internal/etcdspace"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
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
	ovnapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/ovnaction"
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
func (a *App) wire(ctx context.Context, c config.Config, p parts, st openStores, m *metrics) (api, []run.Service, error) {
	r := web.NewRouter()
	r.Use(web.RefuseChanges(a.disk.Refusal), web.RefuseChanges(st.level.Ready))
	out := api{routes: r, ahead: func(next http.Handler) http.Handler { return next }}
	rules := syncobjects.Rules{AllowFile: c.Git.AllowFile, PlainHTTP: c.Git.PlainHTTP, Outbound: p.outward}
	stored := rules
	stored.PlainHTTP = true // sync objects of older versions still work; only new ones are refused
	renderer, err := a.renderer(c, p, m)
	if err != nil {
		return out, nil, err
	}
	registry := backends.On(backends.Platforms{Azure: p.azure, Plugins: p.plugins})
	seen := mirror.New(st.contexts, a.log)
	a.names.Set(func(id string) string { return seen.Document(v2.DeploymentID(id)) })
	reader := statusview.New(st.contexts, seen, statusOptions(c))
	dial := grpccall.Dialer{Admit: p.outward.Check, TLS: p.controllerTLS, PlainText: c.Controllers.PlainText}
	free := a.freeResources(c, st, stored)
	groups := orchestrator.NewGroups(st.db, st.contexts, renderer).WithStatus(reader).WithControllers(controllers(st.db, p.values), p.values).WithPlacement(placementControllers(st.db, free)).WithExternal(external.Controllers(dial), externalplacement.Controllers(dial))
	clouds := dcm.NewClouds(st.db, st.contexts).WithStatus(reader)
	networks := ncm.New(st.db, st.contexts).WithStatus(reader)
	usage := orchestrator.NewUsage()
	seen.Observe(usage)
	groups.WithUsage(usage)
	services := []run.Service{
		&upkeep.Service{DB: st.db, Log: a.log},
		&etcdspace.Service{Contexts: st.contexts, Reclaim: st.reclaim(), OnProbe: m.etcdFull, Log: a.log},
	}
	guarding, err := a.openAccess(ctx, c, p, st.db, st.keys.Ring.Sealer(), r)
	if err != nil {
		return out, nil, err
	}
	services = append(services, guarding...)
	a.audit(st, r)
	if c.Runs("clm") {
		clm.Resources{DB: st.db, Rules: rules, Backends: registry, Delivered: st.contexts.HasApplied, Wanted: st.contexts.HasDesired, Moves: st.contexts, Networks: networks.Guards(), Log: a.log}.Mount(r)
	}
	if c.Runs("placementintent") || c.Runs("orchestrator") { // upstream's clients look for it at the orchestrator's address
		placementintent.Resources{DB: st.db}.Mount(r)
	}
	if c.Runs("dcm") {
		dcm.NewResources(st.db, clouds).Mount(r)
		clouds.Mount(r)
		networks.Mount(r)
	}
	if c.Runs("orchestrator") {
		certificates := cacert.New(st.db, st.contexts, signedCertificates{a.kube(c, stored.Outbound.Check), st.db}).WithStatus(reader)
		cacert.Resources{DB: st.db, Authorities: certificates.Guards()}.Mount(r)
		certificates.Mount(r)
		renewals := cacert.NewRenewals(certificates, a.member, a.log, m.renewalFailed)
		m.certificates(renewals.FirstEnd)
		seen.Observe(renewals)
		services = append(services, renewals)
		addons := certificates.Publishers()
		addons["logical-clouds"], addons["clusters"] = clouds, networks
		orchestrator.Resources{DB: st.db, Archives: archives(c), Groups: groups.Guards(), Live: groups.Live}.Mount(r)
		gacapi.Resources{DB: st.db}.Mount(r)
		dtcapi.Resources{DB: st.db}.Mount(r)
		hpaapi.Resources{DB: st.db}.Mount(r)
		ovnapi.Resources{DB: st.db}.Mount(r)
		sfcapi.Resources{DB: st.db}.Mount(r)
		a.policies(st.db, groups, p.engine).Mount(r)
		groups.Mount(r)
		workflowmgr.Resources{DB: st.db, Contexts: st.contexts, Runners: a.workflows, Now: time.Now}.Mount(r)
		services = append(services, workflowmgr.NewWorker(workflowmgr.Parts{
			DB: st.db, Contexts: st.contexts, Reader: reader, Mirror: seen, Runners: a.workflows, Panics: a.panics(m), Member: a.member, Log: a.log, Now: time.Now,
		}))
		worker := orchestrator.NewWorker(groups, addons, renderer, a.member, a.panics(m), a.log).WithWitness(a.carriedOut).WithTracer(a.tracer)
		if a.upkeepAfter > 0 {
			worker = worker.WithFirstSweep(a.upkeepAfter)
		}
		services = append(services, worker)
	}
	var lanes *views.Lanes // nil without rsync
	if c.Runs("rsync") {
		host := a.gitHost(c, p, st, m)
		rsyncapi.Branches{Contexts: st.contexts, DB: st.db, Rules: stored, Git: host, Log: a.log}.Mount(r)
		reports := a.newReportIntake(c, st, seen, m, stored, host.budget)
		out.ahead = reports.mount(r, c.Status.WebhookSecret)
		a.sources = append(a.sources, reports.https)
		clusters := a.kube(c, stored.Outbound.Check)
		rsyncapi.Kubeconfigs{DB: st.db, Contexts: st.contexts, Kube: clusters}.Mount(r)
		writers := a.writers(c, m, host)
		routes := &route.Resolver{DB: st.db, Rules: stored}
		lanes = &views.Lanes{Branches: st.contexts, Writers: writers, Logs: host.logs(routes, a.panics(m)), Now: time.Now}
		services = append(services, reports.writer, reports.refusals, reports.git, a.rsync(c, p, st, seen, stored, host, writers, clusters, registry, a.panics(m)))
	}
	if c.Runs("orchestrator") || c.Runs("dcm") || c.Runs("rsync") {
		overview := a.views(c, m, st, seen, reader, groups.Queries(), free, lanes)
		overview.Mount(r)
		services = append(services, seen, overview)
	}
	a.describe = describe(r)
	notifier, err := a.notifier(c, groups, clouds, networks, reader)
	return out, append(services, notifier...), err
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
		if registered, _, err := lookup.Cluster(ctx, cluster); err != nil || !registered.Direct() {
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
func (a *App) views(c config.Config, m *metrics, st openStores, seen *mirror.Mirror, reader *statusview.Reader, planner views.Planner, free *freeresources.Reader, lanes *views.Lanes) *views.Views {
	counts := tally.New(time.Duration(c.Status.Stale), time.Now)
	seen.Observe(counts)
	m.fleet(counts.Totals)
	return views.New(views.Parts{
		DB: st.db, Tally: counts, Pairs: seen, Deployments: reader, Revisions: st.contexts,
		Inventory: inventory.New(st.db, cloud.New), Planner: planner, Events: st.contexts, Commits: st.contexts, Lanes: lanes, Capacity: free.View, Streams: c.Status.Streams, Now: time.Now,
	})
}

func statusOptions(c config.Config) statusview.Options {
	o := statusview.Default()
	o.Stale, o.Streams = time.Duration(c.Status.Stale), c.Status.Streams
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
func (a *App) renderer(c config.Config, p parts, m *metrics) (render.Renderer, error) {
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

func (a *App) rsync(c config.Config, p parts, st openStores, seen *mirror.Mirror, rules syncobjects.Rules, host gitHost, writers *batch.Writers, clusters *kube.Sink, registry *syncer.Registry, panics *contain.Panics) run.Service {
	admit := rules.Outbound.Check
	return rsync.New(rsync.Parts{
		DB: st.db, Contexts: st.contexts, Mirror: seen, Backends: registry, Rules: rules,
		Git: a.faults.commits(sinksOf(c, admit, writers)), Kube: clusters, Retry: rsync.Retry{First: time.Duration(c.Retry.First), Longest: time.Duration(c.Retry.Longest)},
		Member: a.member, Workers: c.Kube.Workers, Weight: p.weights, Differ: host, Interval: time.Duration(c.Git.Look), Sources: a.sources, Panics: panics, Tracer: a.tracer, Log: a.log,
	})
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
