// Package registration answers what the receivers of reports ask about a cluster: where it reports, which apps
// it should hold, and its last report. It reads the documents and the AppContext.
package registration

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/agentreports"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// Reader reads clusters and their pairs.
type Reader struct {
	Routes   *route.Resolver
	Contexts *appcontext.Store
	Mirror   *mirror.Mirror // answers Pairs if it can; nil: etcd answers
	Log      *slog.Logger
}

// Clusters lists the clusters that report through Git. It leaves out clusters whose settings
// cannot be read: their pairs carry the error. It reads only clusters that were written since the mark, unless sync objects, which many
// clusters share, were written too.
func (r *Reader) Clusters(ctx context.Context, mark int64) (gitstatus.ClusterList, error) {
	ctx = readpoint.With(ctx)                      // what the watch has brought needs no read
	changes, err := r.Routes.DB.Changes(ctx, mark) // before the documents are read
	if err != nil {
		return gitstatus.ClusterList{}, err
	}
	list := lister{Reader: r, out: gitstatus.ClusterList{Mark: changes.Mark}}
	changed, all := route.ChangedClusters(changes)
	clusters := r.Routes.Lookup().PullClusters(ctx)
	if !all {
		clusters = r.Routes.Lookup().PullClustersOf(ctx, changed)
	}
	for c, err := range clusters {
		if err != nil {
			return gitstatus.ClusterList{}, err
		}
		list.add(c)
	}
	if list.out.Since = !all; list.out.Since {
		list.out.Gone = without(changed, list.out.Clusters)
	}
	return list.out, nil
}

// without returns the names that no cluster has.
func without(names []v2.ClusterKey, clusters []gitstatus.Cluster) []v2.ClusterKey {
	has := map[v2.ClusterKey]bool{}
	for _, c := range clusters {
		has[c.Name] = true
	}
	return slices.DeleteFunc(names, func(name v2.ClusterKey) bool { return has[name] })
}

// lister makes a list of clusters.
type lister struct {
	*Reader
	out gitstatus.ClusterList
}

// add adds a cluster if it reports through Git.
func (l *lister) add(c route.PullCluster) {
	switch {
	case c.Err != nil:
		l.Log.Debug("the place of a cluster's reports is unknown", "cluster", c.Name, "err", c.Err)
		if !errs.Is(c.Err, errs.NotFound) && !errs.Is(c.Err, errs.Invalid) { // those are corrected by writes, which the mark shows
			l.out.Mark = 0
		}
	case c.Settings.Status.Repo.URL != "": // else it reports by HTTPS, or not at all
		l.out.Clusters = append(l.out.Clusters, gitstatus.Cluster{Name: c.Name, Status: c.Settings.Status})
		l.out.Gone = slices.DeleteFunc(l.out.Gone, func(gone v2.ClusterKey) bool { return gone == c.Name })
	}
}

// Cluster returns what a source of reports needs to know of one cluster.
func (r *Reader) Cluster(ctx context.Context, name v2.ClusterKey) (agentreports.Cluster, error) {
	lookup := r.Routes.Lookup()
	c, err := lookup.Registration(ctx, name)
	if err != nil || c.Direct() {
		return agentreports.Cluster{Registration: c.UID, Direct: err == nil}, err
	}
	s, err := lookup.Settings(ctx, name, c.GitOps)
	return agentreports.Cluster{Registration: c.UID, Reports: s.Status.Mode == syncobjects.StatusHTTPS, Desired: s.Repo}, err
}

// Pairs returns what a cluster should hold.
func (r *Reader) Pairs(ctx context.Context, cluster v2.ClusterKey) ([]intake.Pair, error) {
	var pairs []appcontext.Pair
	known := false
	if r.Mirror != nil {
		pairs, known = r.Mirror.Pairs(cluster)
	}
	if !known {
		var err error
		if pairs, err = r.Contexts.PairsOn(ctx, cluster); err != nil {
			return nil, err
		}
	}
	reports := r.lastReports(cluster)
	out := make([]intake.Pair, len(pairs))
	for i, p := range pairs {
		var err error
		if out[i], err = r.pair(ctx, p); err != nil {
			return nil, err
		}
		if last := reports[p.Key]; last != nil {
			out[i].Proof = last.Proof
		}
	}
	return out, nil
}

// lastReports returns what a cluster reported last on its pairs; none without a mirror.
func (r *Reader) lastReports(cluster v2.ClusterKey) map[appcontext.PairKey]*mirror.Report {
	out := map[appcontext.PairKey]*mirror.Report{}
	if r.Mirror != nil {
		for _, p := range r.Mirror.Cluster(cluster) {
			out[appcontext.PairKey{Cluster: cluster, Deployment: p.UID, App: p.App}] = p.Report
		}
	}
	return out
}

func (r *Reader) pair(ctx context.Context, p appcontext.Pair) (intake.Pair, error) {
	out := intake.Pair{Key: p.Key}
	if p.Desired == "" {
		return out, nil
	}
	b, err := r.Contexts.GetBundle(ctx, p.Desired)
	if err != nil {
		return out, err
	}
	out.Objects = append(append(out.Objects, b.CRDs...), b.Objects...)
	for _, h := range b.Hooks {
		out.Hooks = append(out.Hooks, h.Ref)
	}
	switch {
	case p.Applied == p.Desired:
		out.Commit, out.HookCommit = p.Commit, p.Commit
	case p.Sent: // the commit of a step: it has the step's hook, and not all objects
		out.HookCommit = p.Commit
	}
	return out, nil
}

// Last returns the sequence number and the time of a cluster's last recorded report.
func (r *Reader) Last(ctx context.Context, cluster v2.ClusterKey) (uint64, time.Time, error) {
	return r.Contexts.LastReport(ctx, cluster)
}
