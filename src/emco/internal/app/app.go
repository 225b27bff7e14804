// Package app is the composition root: it alone knows every driver and service, and builds
// the program from a configuration.
//
//	main.go, commands.go     the command line of emco; keys.go and level.go have commands of their own
//	migrate.go               the work of emco migrate
//	resolve.go               what the settings refer to: files, keys, executables
//	app.go                   a start, the servers and the end
//	stores.go                documents, AppContext, audit log and keys
//	storeidentity.go         whether the stores belong together
//	wire.go                  the services, those of -target, and what they share
//	access.go, audit.go      who may do what, and the record of it
//	git.go, sinks.go         repositories, and the writers of what clusters get
//	reports.go               the reports of clusters
//	certificates.go          signed certificates at the clusters of issuers
//	notify.go                the gRPC service StatusNotify
//	workflows.go             the runners of workflows
//	metrics.go, debug.go     all metrics, and the profiler
//	version.go               the answer of /version
//	faults.go                failpoints; faults_on.go and faults_off.go decide whether there are any
package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditfilter"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/websession"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/diskspace"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/logs"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/otlp"
	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// App is the program, ready to run.
type App struct {
	log         *slog.Logger
	names       *logs.Names   // of deployments, in log
	member      shards.Member // this process, as the others see it
	faults      failpointWraps
	sources     []rsync.Source
	group       *run.Group
	disk        *diskspace.Reserve
	exposed     []string // settings of addresses that other machines reach
	listener    net.Listener
	grpc        string              // address
	ops         string              // address
	tls         *tls.Config         // of listeners of the API; nil: plain HTTP
	guard       *access.Guard       // of the API; nil: everyone may do everything
	sessions    *websession.Keeper  // of browsers; nil: none
	auditFilter *auditfilter.Filter // of requests; nil: no audit log
	announce    func(bootstrapToken string)
	clock       func() time.Time // of sessions of browsers and of the limits of sign-ins
	tracer      *tracing.Tracer  // nil: nothing is traced
	farewell    time.Duration    // of tracer: how long it waits for the last spans; 0: as usual
	linger      time.Duration    // how long it goes on accepting when it stops
	stopping    atomic.Bool

	temporal  OpenTemporal // nil: this program has none
	workflows workflow.Runners

	renderHere bool // render in this process
	noFsync    bool // do not wait for the disk

	level  int           // of stored data that this program knows; 0: appcontext.Level
	settle time.Duration // before a level is in force; 0: levelSettle

	keyWait time.Duration // between the creation of a data key and its first use

	patience time.Duration // how long stores may take to answer before a command gives up; 0: a start waits for them

	upkeepAfter time.Duration // from the start to the first sweep, generation and look at the level; 0: as usual

	apart func(context.Context, error) error // see storeidentity.Stores

	closers     []func() error // in order of opening
	description openapi.Pages
}

// Option changes how the program is built.
type Option func(*App)

// WithSource makes rsync read a source of cluster reports in addition to its own.
func WithSource(s rsync.Source) Option { return func(a *App) { a.sources = append(a.sources, s) } }

// WithRenderingHere renders charts in this process instead of a child. It is for tests:
// each child costs a start of the program, and protects the program from hostile charts.
func WithRenderingHere() Option { return func(a *App) { a.renderHere = true } }

// WithBootstrapTo hands a new bootstrap token to f instead of printing it. It is for tests.
func WithBootstrapTo(f func(token string)) Option { return func(a *App) { a.announce = f } }

// WithClock has sessions of browsers and limits of sign-ins ask another clock. It is for tests.
func WithClock(now func() time.Time) Option { return func(a *App) { a.clock = now } }

// WithoutFsync makes an embedded etcd and the file of documents not wait for the disk. It is for tests:
// what was written survives the death of the process, but not that of the machine.
func WithoutFsync() Option { return func(a *App) { a.noFsync = true } }

// WithKeyWait shortens the time between the creation of a data key and its first use. It is for tests of
// one process.
func WithKeyWait(d time.Duration) Option { return func(a *App) { a.keyWait = d } }

// WithUpkeepAfter has the sweep of the AppContext, the looks at the level of stored data and at the readiness, and the first generation
// wait for d after the start. It is for tests that count requests to etcd: those belong to no change.
func WithUpkeepAfter(d time.Duration) Option { return func(a *App) { a.upkeepAfter = d } }

// WithFarewell has the end of the program wait for the last spans for at most d. It is for tests that read spans.
func WithFarewell(d time.Duration) Option { return func(a *App) { a.farewell = d } }

// WithLevel makes the program one that knows stored data up to a level, and raises the level of the stores when all
// processes have known more for settle. It is for tests.
func WithLevel(level int, settle time.Duration) Option {
	return func(a *App) { a.level, a.settle = level, settle }
}

// New opens the stores, wires the services and listens. The caller must run the App; if New
// fails it closes everything that it opened.
func New(ctx context.Context, c config.Config, log *slog.Logger, opts ...Option) (_ *App, err error) {
	a := &App{names: new(logs.Names), member: member(c), announce: announceBootstrap, clock: time.Now, keyWait: keyWait}
	a.log = slog.New(a.names.Handler(log.Handler()))
	for _, o := range opts {
		o(a)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	p, err := resolve(c)
	if err != nil {
		return nil, err
	}
	a.onClose(p.azure.Close)
	if a.workflows, err = a.runners(c, p); err != nil {
		return nil, err
	}
	a.linger = c.HTTP.LingerTime()
	m := newMetrics()
	if p.tls != nil {
		server, err := tlsfiles.Load(*p.tls, a.log)
		if err != nil {
			return nil, fmt.Errorf("http.cert: %w", err)
		}
		a.tls = server.Config()
		m.apiCertificate(server.End)
	} else {
		m.apiCertificate(noEnd)
	}
	m.clientCertificates(clientCertificates(c))
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", fileowner.Explain(err, c.Data))
	}
	if err := a.trace(c, p.traceTLS); err != nil {
		return nil, err
	}
	m.reserve.Set(float64(c.Disk))
	disk := diskspace.New(diskspace.Options{Dir: c.Data, Bytes: c.Disk, OnProbe: m.diskFree, Log: a.log})
	if err := checkDisk(c, disk); err != nil {
		return nil, err
	}
	if made := missingStores(c); len(made) > 0 {
		a.log.Info("new data folder: these stores are not there yet, and begin with nothing", "data", absolute(c.Data), "stores", strings.Join(made, ", "))
	}
	a.disk = disk
	st, err := a.openStores(ctx, c, p, m)
	if err != nil {
		return nil, err
	}
	api, services, err := a.wire(ctx, c, p, st, m)
	if err != nil {
		return nil, err
	}
	if a.listener, err = net.Listen("tcp", c.HTTP.Address); err != nil {
		return nil, fmt.Errorf("http.address: %w", err)
	}
	a.onClose(func() error { _ = a.listener.Close(); return nil }) // closes it if the start fails; otherwise the server has closed it
	profiler, err := a.profiler(c)
	if err != nil {
		return nil, err
	}
	servers, err := a.servers(c)
	if err != nil {
		return nil, err
	}
	probes, err := a.probes(c, m)
	if err != nil {
		return nil, err
	}
	all := slices.Concat([]run.Service{disk, st.level, st.generations}, st.compared, a.auditing(c, p, st, m), []run.Service{st.keys}, services, []run.Service{a.local(c, st)}, profiler, probes)
	for _, s := range servers {
		all = append(all, s)
	}
	a.group = run.NewGroup(a.log, all...).WithLooks(cmp.Or(a.upkeepAfter, readyLook))
	m.ready(func() bool { return a.group.WasReady() && !a.stopping.Load() })
	door := web.Door{Hosts: c.HTTP.Names(), AnyTypes: []string{webhookPath, websession.BackChannelPath}}
	if a.auditFilter != nil {
		door.Refused = a.auditFilter.Foreign
	}
	shares := web.NewShares(c.Projects.Requests, requestPatience, p.weights)
	identified := a.identified(c, web.Traced(a.tracer, shares.Wrap(api.routes)))
	handler := a.handler(web.Observed(m.request, door.Wrap(api.ahead(identified))), m)
	proxies, err := c.HTTP.TrustedProxies()
	if err != nil {
		return nil, fmt.Errorf("http.trustedProxies: %w", err)
	}
	if a.guard != nil {
		a.guard.Proxies = proxies
	}
	if len(proxies) > 0 {
		handler = web.Forwarded(proxies, handler)
	}
	for _, s := range servers {
		s.server.Handler = handler
	}
	a.exposed = c.Exposed()
	return a, nil
}

// requestPatience is how long a request waits while its project has too many.
const requestPatience = 15 * time.Second

// missingStores returns the stores of the data folder that a start makes: all if the setting has a typo, or a disk is not mounted.
func missingStores(c config.Config) (names []string) {
	missing := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	if len(c.Etcd.Endpoints) == 0 && missing(c.Path("etcd", "data")) {
		names = append(names, "etcd")
	}
	if documentDriver(c) == drivers.SQLite && missing(documentsFile(c)) {
		names = append(names, filepath.Base(documentsFile(c)))
	}
	return names
}

// absolute returns a path from the root; the path itself if the working directory is not known.
func absolute(path string) string {
	if p, err := filepath.Abs(path); err == nil {
		return p
	}
	return path
}

// readyLook is the time between two looks at the readiness, for its metric.
const readyLook = 5 * time.Second

// checkDisk refuses a start without the space that opening the stores takes.
func checkDisk(c config.Config, disk *diskspace.Reserve) error {
	_, err := os.Stat(c.Path("etcd", "data"))
	first := len(c.Etcd.Endpoints) == 0 && errors.Is(err, fs.ErrNotExist)
	return disk.CheckStart(first)
}

// trace makes the tracer; none without trace.endpoint. It ends after all that is traced.
func (a *App) trace(c config.Config, secure *tls.Config) error {
	if c.Trace.Endpoint == "" {
		return nil
	}
	exporter, err := otlp.Open(c.Trace.Endpoint, secure)
	if err != nil {
		return fmt.Errorf("trace.endpoint: %w", err)
	}
	tracer := tracing.New(tracing.Options{
		Exporter: exporter, Endpoint: c.Trace.Endpoint, Ratio: float64(c.Trace.Ratio),
		Service: "emco", Version: version.Read().Version, Instance: a.member.Holder, Farewell: a.farewell, Log: a.log,
	})
	a.tracer = tracer
	a.onClose(func() error { tracer.Close(); return nil })
	return nil
}

// servers returns the servers of the API: that of http.address, and those of the ports of
// upstream EMCO's services if the configuration asks for them. All serve the same.
func (a *App) servers(c config.Config) ([]*httpService, error) {
	serve := func(l net.Listener) *httpService {
		return &httpService{name: "http", listener: l, server: web.Server{Log: a.log, Limits: limits(c), TLS: a.tls}}
	}
	out := []*httpService{serve(a.listener)}
	if !c.HTTP.EMCOPorts {
		return out, nil
	}
	host, own, err := net.SplitHostPort(a.Address())
	if err != nil {
		return nil, fmt.Errorf("http.emcoPorts: %w", err)
	}
	for _, p := range upstream.Ports() {
		port := strconv.Itoa(p.Number)
		if port == own {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return nil, fmt.Errorf("http.emcoPorts: the port of %s: %w", p.Service, err)
		}
		a.onClose(func() error { _ = l.Close(); return nil })
		out = append(out, serve(l))
	}
	return out, nil
}

func limits(c config.Config) web.Limits {
	l := web.DefaultLimits()
	l.Drain = time.Duration(c.HTTP.Drain)
	return l
}

// Address returns the API's address, including the port that was chosen if none was set.
func (a *App) Address() string { return a.listener.Addr().String() }

// OpsAddress returns the address for probes; empty without one.
func (a *App) OpsAddress() string { return a.ops }

// Run serves until ctx ends or a service fails, then stops and closes everything.
func (a *App) Run(ctx context.Context) error {
	a.log.Info("emco serves", "address", a.Address(), "grpc", a.grpc, "ops", a.ops, "tls", a.tls != nil, "authentication", a.guard != nil)
	if text := a.insecure(); text != "" {
		a.log.Warn(text)
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { a.stop(serving); end() })()
	return errors.Join(a.group.Run(serving), a.close())
}

// stop makes /readyz answer 503, and returns when load balancers have had the time to notice, or when a
// service has failed meanwhile.
func (a *App) stop(serving context.Context) {
	a.stopping.Store(true)
	if a.linger == 0 {
		return
	}
	a.log.Info("emco stops; it accepts requests a while longer", "linger", a.linger)
	select {
	case <-time.After(a.linger):
	case <-serving.Done():
	}
}

// onClose registers a function that runs after all services have stopped, last one first.
func (a *App) onClose(f func() error) { a.closers = append(a.closers, f) }

func (a *App) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// handler serves the API, metrics, health checks and the version.
func (a *App) handler(api http.Handler, m *metrics) http.Handler {
	metrics := m.handler()
	if a.guard != nil {
		metrics = a.guard.Protect(authz.Permission{Verb: authz.Get, Type: "metrics"}, metrics)
	}
	mux := a.opsMux(metrics)
	a.description.Mount(mux)
	v2 := web.Wrap(a.log, a.faults.routes(mux, api))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close") // the next request of this client goes elsewhere
		}
		if strings.HasPrefix(r.URL.Path, "/v2/") { // ServeMux would redirect unclean paths, and a redirected POST loses its body
			v2.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// opsMux serves metrics, health checks and the version.
func (a *App) opsMux(metrics http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /version", serveVersion)
	mux.Handle("/", web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		get := &http.Request{Method: http.MethodGet, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(get); pattern == "/" {
			return web.NoRoute()
		}
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}))
	return mux
}

// probes returns the server of ops.address; none without that setting.
func (a *App) probes(c config.Config, m *metrics) ([]run.Service, error) {
	if c.Ops.Address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", c.Ops.Address)
	if err != nil {
		return nil, fmt.Errorf("ops.address: %w", err)
	}
	a.onClose(func() error { _ = l.Close(); return nil })
	a.ops = l.Addr().String()
	return []run.Service{&httpService{name: "ops", listener: l, server: web.Server{Log: a.log, Limits: limits(c), Handler: a.opsMux(m.handler())}}}, nil
}

// readyz answers 503 and the reason while a service is not ready; "?verbose" adds the state
// of each service.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	report, err := a.group.Report()
	if a.stopping.Load() {
		err = errors.New("this process stops")
	}
	text := "ok\n"
	if err != nil {
		text = err.Error() + "\n"
	}
	if r.URL.Query().Has("verbose") {
		text = report
		if warning := a.insecure(); warning != "" {
			text += "insecure: " + warning + "\n"
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(text))
}

// insecure warns of addresses that other machines reach; empty without such.
func (a *App) insecure() string {
	if len(a.exposed) == 0 {
		return ""
	}
	return "everyone who reaches " + strings.Join(a.exposed, ", ") + " may do everything: there is no authentication (http.insecure)"
}

// httpService runs a server of HTTP.
type httpService struct {
	name     string
	listener net.Listener
	server   web.Server
}

func (s *httpService) Name() string { return s.name }
func (s *httpService) Ready() error { return nil }
func (s *httpService) Run(ctx context.Context) error {
	return s.server.Serve(ctx, s.listener)
}

// NewLogger returns the configured logger, which writes to standard error.
func NewLogger(c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(c.Level))); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(logs.Limit(logs.New(os.Stderr, logs.Options{Level: level, Text: c.Format == "text"}).Handler()))
}
