// Package gitstatus reads the reports that agents push through Git. Each cluster writes one
// document to a branch of its own, or into upstream's path on a shared branch. The source polls
// each repository once per interval, fetches what changed, checks it and delivers one report
// per pair.
//
//	repository ──list──► changed branches ──fetch──► check ──► one report per pair
//	    ▲                                              │
//	    └── interval, or a webhook                     └─► refused: counted, recorded
//
// A writer of a repository may be compromised. A document counts only for the cluster whose
// branch holds it, only if it is newer than the last one, and only within the limits of package
// api/status. A refused document changes nothing.
package gitstatus

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cluster is a cluster that reports through Git.
type Cluster struct {
	Name    v2.ClusterKey
	Status  syncobjects.Status
	Desired git.Repo // the branch with its desired state
}

// ClusterList is an answer of ClusterSource.
type ClusterList struct {
	Clusters  []Cluster
	Mark      int64 // for the next call
	Unchanged bool  // they are those of the earlier call; Clusters is empty
}

// ClusterSource reads clusters.
type ClusterSource interface {
	// Clusters returns all clusters that report through Git, unless nothing has changed since an
	// earlier call returned mark; 0 for the first call. It omits a cluster whose settings it cannot read.
	Clusters(ctx context.Context, mark int64) (ClusterList, error)
	// Pairs returns the pairs that a cluster must hold.
	Pairs(ctx context.Context, cluster v2.ClusterKey) ([]intake.Pair, error)
	// Last returns the sequence and time of the last report of a cluster that any process
	// accepted; 0 if none did.
	Last(ctx context.Context, cluster v2.ClusterKey) (seq uint64, at time.Time, err error)
	// SetCapacity stores what a report of a cluster says of its nodes.
	SetCapacity(ctx context.Context, cluster v2.ClusterKey, at time.Time, c status.Capacity) error
}

// Git reads repositories.
type Git interface {
	git.Host
	git.BranchReader
	git.BlobsReader
	git.HistoryReader
}

// Options tune a Source. A zero value means the default given here.
type Options struct {
	Interval     time.Duration         // between two polls of a repository; 15 s
	Refresh      time.Duration         // how often an unchanged report and a heartbeat are repeated; 1 minute
	ListInterval time.Duration         // how often the list of clusters is read; as Interval
	Count        func(result string)   // counts each document by one of intake.Results
	Agents       *intake.AgentStatuses // the status of each agent; its own unless given

	// Heartbeat receives the sequence and time of the last report of a living cluster. It must
	// not block.
	Heartbeat func(cluster v2.ClusterKey, seq uint64, at time.Time)
	Panics    *contain.Panics
	Log       *slog.Logger
	Now       func() time.Time
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{{&o.Interval, 15 * time.Second}, {&o.Refresh, time.Minute}} {
		if *d.at <= 0 {
			*d.at = d.otherwise
		}
	}
	o.ListInterval = cmp.Or(o.ListInterval, o.Interval)
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Heartbeat == nil {
		o.Heartbeat = func(v2.ClusterKey, uint64, time.Time) {}
	}
	if o.Agents == nil {
		o.Agents = intake.NewAgentStatuses()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Source delivers what clusters report. Make it with New.
type Source struct {
	git      Git
	clusters ClusterSource
	options  Options
	agents   *intake.AgentStatuses

	mu      sync.Mutex
	pollers map[reportLocation]*poller // of the current Run, guarded by mu
}

// New returns a source that starts with Run.
func New(g Git, f ClusterSource, o Options) *Source {
	o = o.withDefaults()
	return &Source{git: g, clusters: f, options: o, agents: o.Agents, pollers: map[reportLocation]*poller{}}
}

// reportLocation is what one poller reads: a repository, and the way of reporting.
type reportLocation struct {
	repo         git.Repo
	mode, branch string
}

// Run polls repositories until ctx ends, and calls deliver with each changed report. Several
// goroutines call it, but only one for the reports of a cluster. Report.At is when this process
// received the report. A report without an app means that the cluster has an
// agent.
func (s *Source) Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	tick := time.NewTicker(s.options.ListInterval)
	defer tick.Stop()
	mark := int64(0)
	for {
		list, err := s.clusters.Clusters(ctx, mark)
		switch {
		case err == nil && list.Unchanged:
			mark = list.Mark
		case err == nil:
			s.updatePollers(ctx, list.Clusters, deliver, &running)
			mark = list.Mark
		case ctx.Err() == nil:
			s.options.Log.Warn("clusters not listed; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			s.updatePollers(ctx, nil, nil, &running)
			return nil
		case <-tick.C:
		}
	}
}

// updatePollers starts a poller for each new location, stops those without clusters, and gives
// every poller its clusters.
func (s *Source) updatePollers(ctx context.Context, clusters []Cluster, deliver func(context.Context, appcontext.Report), running *sync.WaitGroup) {
	at := map[reportLocation]map[v2.ClusterKey]Cluster{}
	for _, c := range clusters {
		p := reportLocation{c.Status.Repo, c.Status.Mode, c.Status.Branch}
		if at[p] == nil {
			at[p] = map[v2.ClusterKey]Cluster{}
		}
		at[p][c.Name] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, old := range s.pollers {
		if at[p] == nil {
			old.stop()
			delete(s.pollers, p)
		}
	}
	for p, its := range at {
		if have := s.pollers[p]; have != nil {
			have.setClusters(its)
			continue
		}
		pollCtx, stop := context.WithCancel(ctx)
		fresh := newPoller(s, p, deliver, stop)
		fresh.setClusters(its)
		s.pollers[p] = fresh
		running.Go(func() { fresh.run(pollCtx) })
	}
}
