// Package freeresources answers what the nodes of clusters have free: by the reports of agents, and
// for direct clusters by a read of the API server.
//
//	pull-mode cluster ──► last report of its agent, if the agent is alive
//	direct cluster    ──► nodes and pods, read at most every readAge
package freeresources

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/kubehealth/capacity"
)

// Limits of the reads of direct clusters.
const (
	readAge     = 30 * time.Second // how long a read counts, also one that failed
	readTimeout = 10 * time.Second // of one cluster
	allTimeout  = 30 * time.Second // of all clusters of one call
	maxReads    = 16               // at a time, of one call
	maxKept     = 1000             // clusters whose last read is kept
	maxBatch    = 128              // clusters of one request to etcd
)

// Reports has what agents have reported.
type Reports interface {
	AgentsOf(ctx context.Context, clusters []v2.ClusterKey) ([]agents.Agent, error)
	Capacities(ctx context.Context, clusters []v2.ClusterKey) ([]agents.Capacity, error)
}

// Connection reaches the API server of a direct cluster.
type Connection interface {
	Capacity(ctx context.Context) (status.Capacity, error) // reads its nodes and pods
	Close()
}

// Connect connects to a cluster if it is a direct cluster; direct is false if it is not. An error is Unavailable if the
// registration cannot be read now; others concern the cluster.
type Connect func(ctx context.Context, cluster v2.ClusterKey) (c Connection, direct bool, err error)

// Reader answers what clusters have free. Make it with New. It is safe for concurrent use.
type Reader struct {
	reports Reports
	connect Connect
	stale   time.Duration
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	recent map[v2.ClusterKey]read // of direct clusters; guarded by mu
}

// read is the last read of a direct cluster.
type read struct {
	at       time.Time
	capacity status.Capacity
}

// New returns a reader that trusts an agent for a time after its last sign of life.
func New(reports Reports, connect Connect, stale time.Duration, now func() time.Time, log *slog.Logger) *Reader {
	return &Reader{reports: reports, connect: connect, stale: stale, now: now, log: log, recent: map[v2.ClusterKey]read{}}
}

// Of returns what the nodes of clusters have free. Every cluster has an answer; Problem is the reason if nothing is known. An
// error is that of the stores.
func (r *Reader) Of(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]status.Capacity, error) {
	out := make(map[v2.ClusterKey]status.Capacity, len(clusters))
	for len(clusters) > 0 {
		n := min(len(clusters), maxBatch)
		if err := r.reported(ctx, clusters[:n], out); err != nil {
			return nil, err
		}
		clusters = clusters[n:]
	}
	return out, r.readDirect(ctx, out)
}

// reported adds what agents report.
func (r *Reader) reported(ctx context.Context, clusters []v2.ClusterKey, out map[v2.ClusterKey]status.Capacity) error {
	known, err := r.reports.AgentsOf(ctx, clusters)
	if err != nil {
		return err
	}
	said, err := r.reports.Capacities(ctx, clusters)
	if err != nil {
		return err
	}
	heard := map[v2.ClusterKey]time.Time{}
	for _, a := range known {
		heard[a.Cluster] = a.At
	}
	for i, cluster := range clusters {
		at, c := heard[cluster], said[i].Capacity
		switch age := r.now().Sub(at); {
		case at.IsZero():
			c = status.Capacity{Problem: "no monitor has reported"}
		case age > r.stale:
			c = status.Capacity{Problem: "its monitor is silent since " + at.UTC().Format(time.RFC3339)}
		case !c.Known() && c.Problem == "":
			c.Problem = "its monitor does not report free resources; set capacity.report of the monitor's chart"
		}
		out[cluster] = c
	}
	return nil
}

// View returns what a cluster has free by the last report of its agent, for people; nil if it reports nothing about its nodes.
// Direct clusters are not read for it.
func (r *Reader) View(ctx context.Context, cluster v2.ClusterKey) (*v2.ClusterCapacity, error) {
	said, err := r.reports.Capacities(ctx, []v2.ClusterKey{cluster})
	if err != nil || !said[0].Capacity.Known() && said[0].Capacity.Problem == "" {
		return nil, err
	}
	known, err := r.reports.AgentsOf(ctx, []v2.ClusterKey{cluster})
	if err != nil {
		return nil, err
	}
	c := said[0].Capacity
	out := &v2.ClusterCapacity{Changed: said[0].At, Nodes: c.Nodes, Open: c.Cut, Problem: c.Problem}
	if len(known) > 0 {
		out.Reported = known[0].At
	}
	totals := map[string]status.NodeResource{}
	largest := map[string]uint64{}
	for _, class := range c.Classes {
		out.Open += class.Count
		for _, n := range class.Resources {
			t := totals[n.Name]
			t.Free, t.Allocatable = t.Free+n.Free*uint64(class.Count), t.Allocatable+n.Allocatable*uint64(class.Count)
			totals[n.Name], largest[n.Name] = t, max(largest[n.Name], n.Free)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		t := totals[name]
		out.Resources = append(out.Resources, v2.ResourceCapacity{
			Name: name, Free: capacity.Quantity(name, t.Free), Allocatable: capacity.Quantity(name, t.Allocatable), Largest: capacity.Quantity(name, largest[name]),
		})
	}
	return out, nil
}

// readDirect replaces the answers on direct clusters by reads of their API servers.
func (r *Reader) readDirect(ctx context.Context, out map[v2.ClusterKey]status.Capacity) error {
	within, cancel := context.WithTimeout(ctx, allTimeout)
	defer cancel()
	slots := make(chan struct{}, maxReads)
	var mu sync.Mutex // guards out and failed
	var failed error
	var reads sync.WaitGroup
	for cluster, c := range maps.Clone(out) {
		if c.Known() {
			continue
		}
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			c, direct, err := r.direct(within, cluster)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = cmp.Or(failed, err)
				cancel()
			case direct:
				out[cluster] = c
			}
		})
	}
	reads.Wait()
	return cmp.Or(ctx.Err(), failed)
}

// direct returns what a direct cluster has free; false if it is no direct cluster. An error is that of the stores.
func (r *Reader) direct(ctx context.Context, cluster v2.ClusterKey) (c status.Capacity, direct bool, err error) {
	if c, known := r.kept(cluster); known {
		return c, true, nil
	}
	late := status.Capacity{Problem: "there was no time to look at it: API servers of other clusters did not answer"}
	if ctx.Err() != nil {
		return late, true, nil
	}
	connection, direct, err := r.connect(ctx, cluster)
	switch {
	case err != nil && ctx.Err() != nil:
		return late, true, nil
	case errs.Is(err, errs.Unavailable):
		return c, false, err
	case err != nil:
		r.log.Warn("cluster not reached for its free resources", "cluster", cluster, "err", err)
		return status.Capacity{Problem: "it cannot be reached as it is registered"}, true, nil
	case !direct:
		return c, false, nil
	}
	defer connection.Close()
	within, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c, err = connection.Capacity(within)
	switch {
	case err != nil:
		r.log.Warn("free resources of a cluster not read", "cluster", cluster, "err", err)
		c = status.Capacity{Problem: capacity.Problem(err)}
	case !c.Known():
		c.Problem = "it has no nodes"
	}
	if ctx.Err() == nil { // otherwise the caller gave up, and not the cluster
		r.keep(cluster, c)
	}
	return c, true, nil
}

// kept returns the last read of a cluster, if it still counts.
func (r *Reader) kept(cluster v2.ClusterKey) (status.Capacity, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.recent[cluster]
	return last.capacity, known && r.now().Sub(last.at) < readAge
}

func (r *Reader) keep(cluster v2.ClusterKey, c status.Capacity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.recent) >= maxKept {
		maps.DeleteFunc(r.recent, func(_ v2.ClusterKey, have read) bool { return r.now().Sub(have.at) >= readAge })
	}
	if len(r.recent) < maxKept {
		r.recent[cluster] = read{r.now(), c}
	}
}
