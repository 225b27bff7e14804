package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/httpstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobject"
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
	desk     *httpstatus.Desk
	endpoint *httpstatus.Endpoint
	notes    *intake.Notes
}

// reports puts both ways together: through Git, and by HTTPS. What is read of repositories
// counts against the budget of the credential, which those who write share.
func (a *App) reports(c config.Config, st openStores, seen *mirror.Mirror, m *metrics, rules gitops.Rules, b git.Budget) reportIntake {
	host := plain.New(plain.Options{
		AllowFile: c.Git.AllowFile, Timeout: time.Duration(c.Git.Timeout),
		MaxRepos: reportRepos, MaxTrees: reportTrees, MaxFetch: reportFetch, MaxBlob: reportBlob, Budget: b, Log: a.log,
	})
	a.onClose(host.Close)
	clusters := &clusterFleet{db: st.db, contexts: st.contexts, rules: rules, log: a.log}
	followed := *clusters // what came by HTTPS is known by the mirror, and so is what was to be there then
	followed.seen = seen
	r := reportIntake{notes: intake.NewNotes()}
	count, refresh := m.documents(), time.Duration(c.Status.Stale)/6 // two signs of life may be lost
	o := httpstatus.Options{Queue: c.Status.Queue, Refresh: refresh, Count: count, Notes: r.notes, Log: a.log}
	r.desk = httpstatus.NewDesk(st.contexts, clusters, o)
	r.endpoint = httpstatus.NewEndpoint(r.desk)
	r.https = httpstatus.NewSource(seen, st.contexts, host, &followed, o)
	r.git = gitstatus.New(host, clusters, gitstatus.Options{
		Interval: time.Duration(c.Status.Interval), Refresh: refresh, Count: count, Notes: r.notes, Heard: r.desk.Heard, Log: a.log,
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
	note, ok := r.notes.Of(name)
	if !ok {
		return errs.E(errs.NotFound, "monitor", name, errors.New("it has not reported since this process started"))
	}
	return web.JSON(w, http.StatusOK, note)
}

// clusterFleet answers what the source of reports asks about clusters.
type clusterFleet struct {
	db       *store.DB
	contexts *appcontext.Store
	seen     *mirror.Mirror // where pairs are looked up; nil: in etcd
	rules    gitops.Rules
	log      *slog.Logger
}

// Clusters lists the clusters that are fed through Git. One whose settings cannot be
// read is left out: whoever delivers to it says so.
func (f *clusterFleet) Clusters(ctx context.Context) ([]gitstatus.Cluster, error) {
	objects := map[store.Key]gitops.Object{}
	var out []gitstatus.Cluster
	for doc, err := range f.db.List(ctx, "cluster-providers", store.Query{}) {
		if err != nil {
			return nil, err
		}
		part := strings.Split(string(doc.Key), "/")
		if len(part) != 4 || part[2] != "clusters" {
			continue
		}
		c, err := store.Decode[v2.Cluster](doc)
		if err != nil || c.Direct() {
			continue
		}
		s, err := f.settings(ctx, store.Key("cluster-providers/"+part[1]), c, objects)
		if err != nil {
			f.log.Debug("where a cluster reports is not known", "cluster", part[1]+"+"+part[3], "err", err)
			continue
		}
		if s.Status.Repo.URL == "" { // by HTTPS, or not at all
			continue
		}
		out = append(out, gitstatus.Cluster{Name: part[1] + "+" + part[3], Status: s.Status, Desired: s.Repo})
	}
	return out, nil
}

// Cluster returns what matters of a cluster to those who take its reports.
func (f *clusterFleet) Cluster(ctx context.Context, name string) (httpstatus.Cluster, error) {
	provider, cluster, _ := strings.Cut(name, "+")
	key := store.Key("cluster-providers/" + provider)
	doc, err := f.db.Get(ctx, key+"/clusters/"+store.Key(cluster))
	if err != nil {
		return httpstatus.Cluster{}, err
	}
	c, err := store.Decode[v2.Cluster](doc)
	if err != nil || c.Direct() {
		return httpstatus.Cluster{Identity: doc.UID, Direct: true}, err
	}
	s, err := f.settings(ctx, key, c, map[store.Key]gitops.Object{})
	return httpstatus.Cluster{Identity: doc.UID, Reports: s.Status.Mode == gitops.StatusHTTPS, Desired: s.Repo}, err
}

// settings reads a cluster's sync objects, which many clusters share.
func (f *clusterFleet) settings(ctx context.Context, provider store.Key, c v2.Cluster, known map[store.Key]gitops.Object) (gitops.Settings, error) {
	var both [2]gitops.Object
	for i, name := range []string{c.Spec.GitOps.Reference, c.Spec.GitOps.Resource} {
		key := provider + "/" + store.Key(name)
		o, ok := known[key]
		if !ok {
			var err error
			if o, err = syncobject.Read(ctx, f.db, provider, name); err != nil {
				return gitops.Settings{}, err
			}
			known[key] = o
		}
		both[i] = o
	}
	return gitops.Read(c.Spec.GitOps.Type, both[0], both[1], f.rules)
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
