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
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobject"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
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

// reports is the source of what agents on clusters report through Git.
func (a *App) reports(c config.Config, st stores, m *metrics, rules gitops.Rules) *gitstatus.Source {
	host := plain.New(plain.Options{
		AllowFile: c.Git.AllowFile, Timeout: time.Duration(c.Git.Timeout),
		MaxRepos: reportRepos, MaxTrees: reportTrees, MaxFetch: reportFetch, MaxBlob: reportBlob, Log: a.log,
	})
	a.onClose(host.Close)
	return gitstatus.New(host, &fleet{db: st.db, contexts: st.contexts, rules: rules, log: a.log}, gitstatus.Options{
		Interval: time.Duration(c.Status.Interval), Refresh: time.Duration(c.Status.Stale) / 6, // two signs of life may be lost
		Count: m.documents(), Log: a.log,
	})
}

// documents counts what becomes of the documents of agents.
func (m *metrics) documents() func(result string) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "emco_status_documents_total", Help: "Documents of agents on clusters: taken in, or why they were refused.",
	}, []string{"result"})
	m.registry.MustRegister(all)
	for _, result := range gitstatus.Results() {
		all.WithLabelValues(result) // shows 0
	}
	return func(result string) { all.WithLabelValues(result).Inc() }
}

// reportRoutes are what a Git server calls when something was pushed, and what an
// operator asks about the agent of a cluster.
func reportRoutes(source *gitstatus.Source, secret config.Secret) map[string]web.HandlerFunc {
	return map[string]web.HandlerFunc{
		"POST /v2/webhooks/git": source.Webhook(secret.Reveal()),
		"GET /v2/cluster-providers/{clusterProvider}/clusters/{cluster}/monitor": func(w http.ResponseWriter, r *http.Request) error {
			vars, err := web.Vars(r)
			if err != nil {
				return err
			}
			name := vars["clusterProvider"] + "+" + vars["cluster"]
			note, ok := source.Note(name)
			if !ok {
				return errs.E(errs.NotFound, "monitor", name, errors.New("it has not reported since this process started"))
			}
			return web.JSON(w, http.StatusOK, note)
		},
	}
}

// fleet answers what the source of reports asks about clusters.
type fleet struct {
	db       *store.DB
	contexts *appcontext.Store
	rules    gitops.Rules
	log      *slog.Logger
}

// Clusters lists the clusters that are fed through Git. One whose settings cannot be
// read is left out: whoever delivers to it says so.
func (f *fleet) Clusters(ctx context.Context) ([]gitstatus.Cluster, error) {
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
		if s.Status.Repo.URL == "" { // what is published need not be reported through Git
			continue
		}
		out = append(out, gitstatus.Cluster{Name: part[1] + "+" + part[3], Status: s.Status, Desired: s.Repo})
	}
	return out, nil
}

// settings reads a cluster's sync objects, which many clusters share.
func (f *fleet) settings(ctx context.Context, provider store.Key, c v2.Cluster, known map[store.Key]gitops.Object) (gitops.Settings, error) {
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
func (f *fleet) Pairs(ctx context.Context, cluster string) ([]gitstatus.Pair, error) {
	pairs, err := f.contexts.PairsOn(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]gitstatus.Pair, len(pairs))
	for i, p := range pairs {
		if out[i], err = f.pair(ctx, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *fleet) pair(ctx context.Context, p appcontext.Pair) (gitstatus.Pair, error) {
	out := gitstatus.Pair{Key: p.Key}
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
func (f *fleet) Last(ctx context.Context, cluster string) (uint64, time.Time, error) {
	return f.contexts.LastReport(ctx, cluster)
}
