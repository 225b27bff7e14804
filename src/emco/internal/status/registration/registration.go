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
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/httpstatus"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
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
	changes, err := r.Routes.DB.Changes(ctx, mark) // before the documents are read
	if err != nil {
		return gitstatus.ClusterList{}, err
	}
	list := lister{Reader: r, out: gitstatus.ClusterList{Mark: changes.Mark}}
	changed, all := registrationsIn(changes)
	if !all {
		list.out.Since = true
		lookup := r.Routes.Lookup()
		for _, name := range changed {
			c, err := lookup.FedCluster(ctx, name)
			if err = list.add(c, err); err != nil {
				return gitstatus.ClusterList{}, err
			}
		}
		return list.out, nil
	}
	for c, err := range r.Routes.Lookup().Fed(ctx) {
		if err = list.add(c, err); err != nil {
			return gitstatus.ClusterList{}, err
		}
	}
	return list.out, nil
}

// listFrom is how many clusters are listed with all others instead of read one by one.
const listFrom = 500

// registrationsIn returns the clusters whose registrations are among changes, each once; all if every cluster may report elsewhere now, or so many that a list of all is cheaper.
func registrationsIn(changes store.Changes) (changed []v2.ClusterKey, all bool) {
	for _, k := range changes.Keys {
		if _, ok := route.SyncObjectProvider(k); ok {
			return nil, true
		}
		if c, ok := v2.ClusterOf(string(k)); ok {
			changed = append(changed, c)
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	return changed, changes.All || len(changed) >= listFrom
}

// lister makes a list of clusters.
type lister struct {
	*Reader
	out gitstatus.ClusterList
}

// add adds a cluster, or that it does not report through Git; err is why it was not read.
func (l *lister) add(c route.FedCluster, err error) error {
	switch {
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	case c.Err != nil:
		l.Log.Debug("the place of a cluster's reports is unknown", "cluster", c.Name, "err", c.Err)
		if !errs.Is(c.Err, errs.NotFound) && !errs.Is(c.Err, errs.Invalid) { // those are corrected by writes, which the mark shows
			l.out.Mark = 0
		}
	case err == nil && c.Settings.Status.Repo.URL != "": // else it reports by HTTPS, or not at all
		l.out.Clusters = append(l.out.Clusters, gitstatus.Cluster{Name: c.Name, Status: c.Settings.Status})
		return nil
	}
	if l.out.Since {
		l.out.Gone = append(l.out.Gone, c.Name)
	}
	return nil
}

// Cluster returns what a source of reports needs to know of one cluster.
func (r *Reader) Cluster(ctx context.Context, name v2.ClusterKey) (httpstatus.Cluster, error) {
	lookup := r.Routes.Lookup()
	c, err := lookup.Registration(ctx, name)
	if err != nil || c.Direct() {
		return httpstatus.Cluster{Registration: c.UID, Direct: err == nil}, err
	}
	s, err := lookup.Settings(ctx, name, c.GitOps)
	return httpstatus.Cluster{Registration: c.UID, Reports: s.Status.Mode == syncobjects.StatusHTTPS, Desired: s.Repo}, err
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
