// Package gitstatus takes in what the agents of clusters report through Git. Each
// cluster writes one document to a branch of its own, or into EMCO's path on a branch
// that clusters share; here each repository is looked at once in an interval, and what
// changed is fetched, checked and handed on.
//
//	repository ──listing──► changed branches ──fetch──► check ──► one report per pair
//	    ▲                                                 │
//	    └── interval, or a webhook                        └─► refused: counted, noted
//
// Whoever writes to a repository may be compromised. A document counts only for the
// cluster whose branch it is on, only if it is newer than the last one, and only within
// the limits of package api/status. What is refused changes nothing.
package gitstatus

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cluster is a cluster that reports through Git.
type Cluster struct {
	Name    string // <provider>+<cluster>
	Status  gitops.Status
	Desired git.Repo // where its desired state is
}

// Fleet is what the source asks about clusters.
type Fleet interface {
	// Clusters returns all clusters that report through Git. One whose settings cannot be
	// read is left out.
	Clusters(ctx context.Context) ([]Cluster, error)
	// Pairs returns what a cluster is to hold.
	Pairs(ctx context.Context, cluster string) ([]intake.Pair, error)
	// Last returns the sequence of the last report of a cluster that was taken in, by
	// whichever process, and when that was; 0 for none.
	Last(ctx context.Context, cluster string) (seq uint64, at time.Time, err error)
}

// Git reads repositories.
type Git interface {
	git.Host
	git.BranchReader
	git.BlobsReader
	git.HistoryReader
}

// Options tune a Source. Zero values mean the defaults given here.
type Options struct {
	Interval time.Duration         // between two looks at a repository; 15 s
	Refresh  time.Duration         // what is no news, and that a cluster lives, is said again after so long; 1 minute
	Fleet    time.Duration         // the list of clusters is read anew after so long; as Interval
	Count    func(result string)   // told of each document: one of intake.Results
	Notes    *intake.AgentStatuses // of agents; its own unless given

	// Heard is told that a cluster lives: the sequence of its last report, and when that
	// was received. It must not wait.
	Heard func(cluster string, seq uint64, at time.Time)
	Log   *slog.Logger
	Now   func() time.Time
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
	o.Fleet = cmp.Or(o.Fleet, o.Interval)
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Heard == nil {
		o.Heard = func(string, uint64, time.Time) {}
	}
	if o.Notes == nil {
		o.Notes = intake.NewAgentStatuses()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Source hands on what clusters report. Make it with New.
type Source struct {
	git     Git
	fleet   Fleet
	options Options
	notes   *intake.AgentStatuses

	mu      sync.Mutex
	pollers map[place]*poller // of the Run that is under way
}

// New returns a source. It does nothing before Run.
func New(g Git, f Fleet, o Options) *Source {
	o = o.withDefaults()
	return &Source{git: g, fleet: f, options: o, notes: o.Notes, pollers: map[place]*poller{}}
}

// place is what is looked at in one go: a repository, with a way of reporting.
type place struct {
	repo         git.Repo
	mode, branch string
}

// Run looks at repositories until ctx ends, and calls deliver with what is new. It is
// called by several goroutines, with the reports of a cluster by one of them. At is when
// a report was received: it tells how old the news may be. A report that names a cluster
// and no app says that the cluster has an agent.
func (s *Source) Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	tick := time.NewTicker(s.options.Fleet)
	defer tick.Stop()
	for {
		clusters, err := s.fleet.Clusters(ctx)
		switch {
		case err == nil:
			s.arrange(ctx, clusters, deliver, &running)
		case ctx.Err() == nil:
			s.options.Log.Warn("clusters that report through Git cannot be listed", "err", err)
		}
		select {
		case <-ctx.Done():
			s.arrange(ctx, nil, nil, &running)
			return nil
		case <-tick.C:
		}
	}
}

// arrange starts a poller for each place that is new, ends those of places that no
// cluster reports to any more, and tells all which clusters they are for.
func (s *Source) arrange(ctx context.Context, clusters []Cluster, deliver func(context.Context, appcontext.Report), running *sync.WaitGroup) {
	at := map[place]map[string]Cluster{}
	for _, c := range clusters {
		p := place{c.Status.Repo, c.Status.Mode, c.Status.Branch}
		if at[p] == nil {
			at[p] = map[string]Cluster{}
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
			have.set(its)
			continue
		}
		pollCtx, stop := context.WithCancel(ctx)
		fresh := newPoller(s, p, deliver, stop)
		fresh.set(its)
		s.pollers[p] = fresh
		running.Go(func() { fresh.run(pollCtx) })
	}
}
