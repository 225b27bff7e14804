package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/httpstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// What the reader of reports keeps of repositories is small, and nothing that it needs is
// large, whatever somebody put there.
const (
	reportRepos = 256
	reportTrees = 32 << 20
	reportFetch = 256 << 20
	reportBlob  = 64 << 20
)

// reportIntake is how what agents on clusters report comes in.
type reportIntake struct {
	git      *gitstatus.Source
	https    *httpstatus.Source
	desk     *httpstatus.ReportWriter
	endpoint *httpstatus.Endpoint
	notes    *intake.AgentStatuses
}

// reports puts both ways together: through Git, and by HTTPS. What is read of repositories
// counts against the budget of the credential, which those who write share.
func (a *App) reports(c config.Config, st openStores, seen *mirror.Mirror, m *metrics, rules gitops.Rules, b git.Budget) reportIntake {
	host := plain.New(plain.Options{
		AllowFile: c.Git.AllowFile, Timeout: time.Duration(c.Git.Timeout),
		MaxRepos: reportRepos, MaxTrees: reportTrees, MaxFetch: reportFetch, MaxBlob: reportBlob, Budget: b, Log: a.log,
	})
	a.onClose(host.Close)
	clusters := &clusterFleet{clusters: &route.Resolver{DB: st.db, Rules: rules}, contexts: st.contexts, log: a.log}
	followed := *clusters // what came by HTTPS is known by the mirror, and so is what was to be there then
	followed.seen = seen
	r := reportIntake{notes: intake.NewAgentStatuses()}
	count, refresh := m.documents(), time.Duration(c.Status.Stale)/6 // two signs of life may be lost
	o := httpstatus.Options{Queue: c.Status.Queue, Refresh: refresh, Count: count, Agents: r.notes, Log: a.log}
	r.desk = httpstatus.NewReportWriter(st.contexts, clusters, o)
	r.endpoint = httpstatus.NewEndpoint(r.desk)
	r.https = httpstatus.NewSource(seen, st.contexts, host, &followed, o)
	r.git = gitstatus.New(host, clusters, gitstatus.Options{
		Interval: time.Duration(c.Status.Interval), Refresh: refresh, Count: count, Agents: r.notes, Heartbeat: r.desk.Confirm, Log: a.log,
	})
	return r
}

// documents counts what becomes of the documents of agents.
func (m *metrics) documents() func(result string) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "emco_status_documents_total", Help: "Documents of agents on clusters: taken in, or why they were refused.",
	}, []string{"result"})
	m.registry.MustRegister(all)
	for _, result := range intake.Results() {
		all.WithLabelValues(result) // shows 0
	}
	return func(result string) { all.WithLabelValues(result).Inc() }
}

// agent is where an operator finds a cluster's agent, and the agent the control plane.
const clusterAgent = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor"

// ahead has reports answered before other requests are looked at: there are many.
func (r reportIntake) ahead(others http.Handler) http.Handler {
	return web.Ahead(http.MethodPost, clusterAgent+"/report", r.endpoint.Report, others)
}

// routes are what Git servers and operators call.
func (r reportIntake) routes(secret config.Secret) map[string]web.HandlerFunc {
	return map[string]web.HandlerFunc{
		"POST /v2/webhooks/git":             r.git.Webhook(secret.Reveal()),
		"GET " + clusterAgent:               r.note,
		"POST " + clusterAgent + "/report":  r.endpoint.Report,
		"POST " + clusterAgent + "/token":   web.NoDryRun(r.endpoint.Make),
		"GET " + clusterAgent + "/token":    r.endpoint.Show,
		"DELETE " + clusterAgent + "/token": web.NoDryRun(r.endpoint.Revoke),
	}
}

// note tells an operator of the agent of a cluster.
func (r reportIntake) note(w http.ResponseWriter, req *http.Request) error {
	vars, err := web.Vars(req)
	if err != nil {
		return err
	}
	name := vars["clusterProvider"] + "+" + vars["cluster"]
	note, ok := r.notes.Get(name)
	if !ok {
		return errs.E(errs.NotFound, "monitor", name, errors.New("it has not reported since this process started"))
	}
	return web.JSON(w, http.StatusOK, note)
}

// clusterFleet answers what the source of reports asks about clusters.
type clusterFleet struct {
	clusters *route.Resolver
	contexts *appcontext.Store
	seen     *mirror.Mirror // where pairs are looked up; nil: in etcd
	log      *slog.Logger
}

// Clusters lists the clusters that report through Git. One whose settings cannot be read is
// left out: its pairs carry the error.
func (f *clusterFleet) Clusters(ctx context.Context) ([]gitstatus.Cluster, error) {
	var out []gitstatus.Cluster
	for c, err := range f.clusters.Lookup().Fed(ctx) {
		if err != nil {
			return nil, err
		}
		if c.Err != nil {
			f.log.Debug("the place of a cluster's reports is unknown", "cluster", c.Name, "err", c.Err)
			continue
		}
		if c.Settings.Status.Repo.URL == "" { // it reports by HTTPS, or not at all
			continue
		}
		out = append(out, gitstatus.Cluster{Name: c.Name, Status: c.Settings.Status, Desired: c.Settings.Repo})
	}
	return out, nil
}

// Cluster returns what matters of a cluster to those who take its reports.
func (f *clusterFleet) Cluster(ctx context.Context, name string) (httpstatus.Cluster, error) {
	lookup := f.clusters.Lookup()
	c, doc, err := lookup.Cluster(ctx, name)
	if err != nil || c.Direct() {
		return httpstatus.Cluster{Identity: doc.UID, Direct: err == nil}, err
	}
	s, err := lookup.Settings(ctx, name, c.Spec.GitOps)
	return httpstatus.Cluster{Identity: doc.UID, Reports: s.Status.Mode == gitops.StatusHTTPS, Desired: s.Repo}, err
}

// Pairs returns what a cluster is to hold.
func (f *clusterFleet) Pairs(ctx context.Context, cluster string) ([]intake.Pair, error) {
	pairs, err := f.pairsOn(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]intake.Pair, len(pairs))
	for i, p := range pairs {
		if out[i], err = f.pair(ctx, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *clusterFleet) pairsOn(ctx context.Context, cluster string) ([]appcontext.Pair, error) {
	if f.seen != nil {
		if pairs, ok := f.seen.Pairs(cluster); ok {
			return pairs, nil
		}
	}
	return f.contexts.PairsOn(ctx, cluster)
}

func (f *clusterFleet) pair(ctx context.Context, p appcontext.Pair) (intake.Pair, error) {
	out := intake.Pair{Key: p.Key}
	if p.Desired == "" {
		return out, nil
	}
	b, err := f.contexts.GetBundle(ctx, p.Desired)
	if err != nil {
		return out, err
	}
	out.Objects = append(append(out.Objects, b.CRDs...), b.Objects...)
	for _, h := range b.Hooks {
		out.Hooks = append(out.Hooks, h.Ref)
	}
	if p.Applied == p.Desired {
		out.Commit, out.HookCommit = p.Commit, p.Commit
	} else if p.Sent { // a step on the way: its hook is there
		out.HookCommit = p.Commit
	}
	return out, nil
}

// Last returns the sequence of the last report that was written down.
func (f *clusterFleet) Last(ctx context.Context, cluster string) (uint64, time.Time, error) {
	return f.contexts.LastReport(ctx, cluster)
}
