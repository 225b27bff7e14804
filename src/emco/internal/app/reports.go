package app

import (
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/agentreports"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/registration"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// Limits of the Git host that reads reports. Reports are small, and other content of users'
// repositories must not cost memory.
const (
	reportRepos = 256
	reportTrees = 32 << 20
	reportFetch = 256 << 20
	reportBlob  = 64 << 20
)

// reportIntake takes in the reports of agents on clusters, through Git and by HTTPS.
type reportIntake struct {
	git      *gitstatus.Source
	https    *agentreports.Source
	writer   *agentreports.ReportWriter
	endpoint *agentreports.Endpoint
	refusals *agentreports.RefusalRecorder
}

// newReportIntake builds both sources. Reads of repositories count against the credential's
// budget, which writers share.
func (a *App) newReportIntake(c config.Config, st openStores, seen *mirror.Mirror, m *metrics, rules syncobjects.Rules, b git.Budget) reportIntake {
	host := plain.New(plain.Options{
		AllowFile: c.Git.AllowFile, Admit: rules.Outbound.Check, Timeout: time.Duration(c.Git.Timeout),
		MaxRepos: reportRepos, MaxTrees: reportTrees, MaxFetch: reportFetch, MaxBlob: reportBlob, Budget: b, Log: a.log,
	})
	a.onClose(host.Close)
	registry := &registration.Reader{Routes: &route.Resolver{DB: st.db, Rules: rules}, Contexts: st.contexts, Log: a.log}
	mirrored := *registry // the mirror has every report that came by HTTPS, and the pairs of that time
	mirrored.Mirror = seen
	r := reportIntake{refusals: agentreports.NewRefusalRecorder(st.contexts, a.log)}
	refused := func(d intake.Document, err error) { r.refusals.Add(d, err, time.Now()) }
	count, refresh := m.documents(), time.Duration(c.Status.Stale)/6 // two heartbeats may be lost
	o := agentreports.Options{Queue: c.Status.Queue, Refresh: refresh, Count: count, Refused: refused, Panics: a.panics(m), Log: a.log}
	r.writer = agentreports.NewReportWriter(st.contexts, registry, o)
	r.endpoint = agentreports.NewEndpoint(r.writer)
	r.https = agentreports.NewSource(seen, st.contexts, host, &mirrored, o)
	r.git = gitstatus.New(gitstatus.Parts{Git: host, Clusters: registry, Store: r.writer, Pushes: st.contexts, Sharing: st.contexts, Member: a.member}, gitstatus.Options{
		Interval: time.Duration(c.Status.Interval), Count: count, Refused: refused, Panics: a.panics(m), Log: a.log,
	})
	return r
}

// webhookPath is where Git servers report pushes; they sign their requests.
const webhookPath = "/v2/webhooks/git"

// agentPath is the URL of a cluster's agent.
const agentPath = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor"

// mount adds the routes that Git servers, agents and operators call, and returns a handler of reports: because
// there are many, it answers them before next looks at a request. While ready returns an error, that is the answer.
func (r reportIntake) mount(router *mux.Router, secret config.Secret, ready func() error) func(next http.Handler) http.Handler {
	tokens := func(verb string) authz.Permission { return authz.Permission{Verb: verb, Type: "report-tokens"} }
	own := authz.Permission{Verb: authz.Public, Type: "reports"} // they have credentials of their own
	handle := func(method, template string, need authz.Permission, h web.HandlerFunc) {
		web.Handle(router, method, template, need, h)
	}
	handle(http.MethodPost, webhookPath, own, r.git.Webhook(secret.Reveal()))
	handle(http.MethodGet, agentPath, authz.Permission{Verb: authz.Get, Type: "clusters"}, r.https.Monitor)
	web.HandleFreeing(router, http.MethodPost, agentPath+"/report", own, r.endpoint.Report) // the answer tells agents when to retry
	handle(http.MethodPost, agentPath+"/token", tokens(authz.Create), web.WithDryRun(r.endpoint.Make))
	handle(http.MethodGet, agentPath+"/token", tokens(authz.List), r.endpoint.Show)
	handle(http.MethodDelete, agentPath+"/token", tokens(authz.Delete), web.WithDryRun(r.endpoint.Revoke))
	report := func(w http.ResponseWriter, req *http.Request) error {
		if err := ready(); err != nil {
			return err
		}
		return r.endpoint.Report(w, req)
	}
	return func(next http.Handler) http.Handler {
		return web.Ahead(http.MethodPost, agentPath+"/report", report, next)
	}
}
