package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/archive"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/helm"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/placementintent"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync"
	rsyncapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/api"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// renderChild is the argument under which the program renders one chart for its
// parent; see package isolated.
const renderChild = "render-child"

// wire builds the services that the configuration names: their routes, and what runs
// in the background.
func (a *App) wire(c config.Config, st openStores, m *metrics) (http.Handler, []run.Service, error) {
	r := web.NewRouter()
	var api http.Handler = r
	rules := gitops.Rules{AllowFile: c.Git.AllowFile}
	renderer, err := a.renderer(c, m)
	if err != nil {
		return nil, nil, err
	}
	registry, err := a.backends(c)
	if err != nil {
		return nil, nil, err
	}
	seen := mirror.New(st.contexts, a.log)
	reader := statusview.New(st.contexts, seen, statusOptions(c))
	groups := orchestrator.NewGroups(st.db, st.contexts, renderer).WithStatus(reader)
	clouds := dcm.NewClouds(st.db, st.contexts).WithStatus(reader)
	services := []run.Service{
		&documentUpkeep{db: st.db, log: a.log},
		&etcdSpace{contexts: st.contexts, reclaim: st.reclaim, full: m.full, log: a.log, period: roomPeriod},
	}
	if c.Runs("orchestrator") || c.Runs("dcm") || c.Runs("rsync") {
		services = append(services, seen)
	}
	if c.Runs("clm") {
		clm.Resources{DB: st.db, Rules: rules, Backends: registry, Delivered: st.contexts.HasApplied, Wanted: st.contexts.HasDesired, Moves: st.contexts, Log: a.log}.Mount(r)
	}
	if c.Runs("placementintent") || c.Runs("orchestrator") { // EMCO's clients look for it at the orchestrator's address
		placementintent.Resources{DB: st.db}.Mount(r)
	}
	if c.Runs("dcm") {
		dcm.NewResources(st.db, clouds).Mount(r)
		clouds.Mount(r)
	}
	if c.Runs("orchestrator") {
		orchestrator.Resources{DB: st.db, Archives: archives(c), Groups: groups.Guards()}.Mount(r)
		groups.Mount(r)
		services = append(services, orchestrator.NewWorker(groups, renderer, member(c), a.log))
	}
	if c.Runs("rsync") {
		host, err := a.gitHost(c, m)
		if err != nil {
			return nil, nil, err
		}
		rsyncapi.Branches{Contexts: st.contexts, DB: st.db, Rules: rules, Git: host, Log: a.log}.Mount(r)
		said := a.reports(c, st, seen, m, rules, host.budget)
		for route, h := range said.routes(c.Status.WebhookSecret) {
			method, template, _ := strings.Cut(route, " ")
			web.Handle(r, method, template, h)
		}
		api = said.ahead(r)
		a.sources = append(a.sources, said.git, said.https)
		services = append(services, said.desk, a.rsync(c, st, seen, m, rules, host, registry))
	}
	notifier, err := a.notifier(c, groups, clouds, reader)
	return api, append(services, notifier...), err
}

func statusOptions(c config.Config) statusview.Options {
	o := statusview.Default()
	o.Stale, o.Streams = time.Duration(c.Status.Stale), c.Status.Streams
	return o
}

// archives are the limits of uploads.
func archives(c config.Config) archive.Limits {
	l := archive.Default()
	l.Compressed = c.HTTP.PackageLimit
	return l
}

// renderer renders each chart in a process of its own, so that a template that never
// ends, or eats all memory, harms only itself.
func (a *App) renderer(c config.Config, m *metrics) (render.Renderer, error) {
	r, err := charts(c.Render.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("render.kubeVersion: %w", err)
	}
	if !a.renderHere {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the own program for rendering: %w", err)
		}
		r = isolated.New(r.Edition(), []string{self, renderChild, c.Render.KubeVersion}, renderLimits(c))
	}
	if c.Render.Anew {
		r = uncachedRenderer{r, new(atomic.Int64)}
	}
	return a.faults.renderer(countingRenderer{r, m.renders}), nil
}

func renderLimits(c config.Config) isolated.Limits {
	l := isolated.Default()
	l.Work, l.Time = time.Duration(c.Render.Timeout), isolated.Patience*time.Duration(c.Render.Timeout)
	l.Memory, l.Input = uint64(c.Render.Memory), c.HTTP.PackageLimit
	return l
}

// uncachedRenderer is a renderer of which no result is taken again: each time it is asked it
// calls itself another edition.
type uncachedRenderer struct {
	render.Renderer
	asked *atomic.Int64
}

// Edition is never the same, not even after a restart.
func (f uncachedRenderer) Edition() string {
	return fmt.Sprint(f.Renderer.Edition(), time.Now().UnixNano(), f.asked.Add(1))
}

// charts is the renderer proper.
func charts(kubeVersion string) (render.Renderer, error) {
	o := helm.Default()
	o.KubeVersion = kubeVersion
	return helm.New(o)
}

func (a *App) rsync(c config.Config, st openStores, seen *mirror.Mirror, m *metrics, rules gitops.Rules, host gitHost, registry *syncer.Registry) run.Service {
	writers := a.writers(c, m, host)
	k := kube.Default()
	k.QPS, k.Burst, k.Timeout = float32(c.Kube.QPS), c.Kube.Burst, time.Duration(c.Kube.Timeout)
	k.Wrap = a.faults.kube()
	return rsync.New(rsync.Parts{
		DB: st.db, Contexts: st.contexts, Mirror: seen, Backends: registry, Rules: rules,
		Git: a.faults.commits(writersOf(c, writers)), Kube: kube.New(k), Retry: rsync.Retry{First: time.Duration(c.Retry.First), Longest: time.Duration(c.Retry.Longest)},
		Member: member(c), Workers: c.Kube.Workers, Differ: host, Look: time.Duration(c.Git.Look), Sources: a.sources, Log: a.log,
	})
}

// findPlugins finds the executables that clusters may name.
func findPlugins(c config.Config) (*execplugin.Programs, error) {
	l := execplugin.DefaultLimits()
	l.Time, l.Memory = time.Duration(c.Sync.Timeout), uint64(c.Sync.Memory)
	p, err := execplugin.Find(c.Sync.Plugins, l)
	if err != nil {
		return nil, fmt.Errorf("sync.plugins: %w", err)
	}
	return p, nil
}

// member is this process as the others that share its work see it.
func member(c config.Config) appcontext.Member {
	return appcontext.Member{Holder: holder(c), TTL: time.Duration(c.Lease)}
}

// holder is the name under which this process owns work. With embedded stores there
// is only ever one process, so a new one takes over from a killed one at once.
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
