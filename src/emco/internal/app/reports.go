package app

import (
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/httpstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/registration"
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
	https    *httpstatus.Source
	writer   *httpstatus.ReportWriter
	endpoint *httpstatus.Endpoint
	agents   *intake.AgentStatuses
}

// newReportIntake builds both sources. Reads of repositories count against the credential's
// budget, which writers share.
func (a *App) newReportIntake(c config.Config, st openStores, seen *mirror.Mirror, m *metrics, rules gitops.Rules, b git.Budget) reportIntake {
	host := plain.New(plain.Options{
		AllowFile: c.Git.AllowFile, Admit: rules.Outbound.Check, Timeout: time.Duration(c.Git.Timeout),
		MaxRepos: reportRepos, MaxTrees: reportTrees, MaxFetch: reportFetch, MaxBlob: reportBlob, Budget: b, Log: a.log,
	})
	a.onClose(host.Close)
	registry := &registration.Reader{Routes: &route.Resolver{DB: st.db, Rules: rules}, Contexts: st.contexts, Log: a.log}
	mirrored := *registry // the mirror has every report that came by HTTPS, and the pairs of that time
	mirrored.Mirror = seen
	r := reportIntake{agents: intake.NewAgentStatuses()}
	count, refresh := m.documents(), time.Duration(c.Status.Stale)/6 // two heartbeats may be lost
	o := httpstatus.Options{Queue: c.Status.Queue, Refresh: refresh, Count: count, Agents: r.agents, Panics: a.panics(m), Log: a.log}
	r.writer = httpstatus.NewReportWriter(st.contexts, registry, o)
	r.endpoint = httpstatus.NewEndpoint(r.writer)
	r.https = httpstatus.NewSource(seen, st.contexts, host, &mirrored, o)
	r.git = gitstatus.New(host, registry, gitstatus.Options{
		Interval: time.Duration(c.Status.Interval), Refresh: refresh, Count: count, Agents: r.agents, Heartbeat: r.writer.Confirm, Panics: a.panics(m), Log: a.log,
	})
	return r
}

// webhookPath is where Git servers report pushes; they sign their requests.
const webhookPath = "/v2/webhooks/git"

// agentPath is the URL of a cluster's agent.
const agentPath = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor"

// mount adds the routes that Git servers, agents and operators call, and returns the API.
// Because there are many reports, it answers them before it looks at other routes.
func (r reportIntake) mount(router *mux.Router, secret config.Secret) http.Handler {
	for route, h := range map[string]web.HandlerFunc{
		"POST " + webhookPath:            r.git.Webhook(secret.Reveal()),
		"GET " + agentPath:               r.agents.Serve,
		"POST " + agentPath + "/report":  r.endpoint.Report,
		"POST " + agentPath + "/token":   web.WithDryRun(r.endpoint.Make),
		"GET " + agentPath + "/token":    r.endpoint.Show,
		"DELETE " + agentPath + "/token": web.WithDryRun(r.endpoint.Revoke),
	} {
		method, template, _ := strings.Cut(route, " ")
		web.Handle(router, method, template, h)
	}
	return web.Ahead(http.MethodPost, agentPath+"/report", r.endpoint.Report, router)
}
