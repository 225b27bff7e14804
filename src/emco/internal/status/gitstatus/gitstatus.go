// Package gitstatus reads the reports that agents push through Git. Each cluster writes one
// document to a branch of its own, or into upstream's path on a shared branch. The source polls
// each repository once per interval, fetches what changed, checks it and stores it, so that
// all processes get it as they get the reports by HTTPS.
//
//	repository ──list──► changed branches ──fetch──► check ──► Store
//	    ▲                                              │
//	    └── interval, or a webhook                     └─► refused: counted, recorded
//
// Several processes share the repositories: each belongs to a shard, and the owner of the shard reads it. The
// store orders reports by their sequence, so a former owner that does not know yet that it lost does no harm.
//
// A writer of a repository may be compromised. A document counts only for the cluster whose
// branch holds it, only if it is newer than the last one, and only within the limits of package
// api/status. A refused document changes nothing.
package gitstatus

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cluster is a cluster that reports through Git.
type Cluster struct {
	Name   v2.ClusterKey
	Status syncobjects.Status
}

// ClusterList is an answer of ClusterSource.
type ClusterList struct {
	Mark     int64           // for the next call
	Since    bool            // Clusters and Gone are what changed since the earlier call; the other clusters are as they were
	Clusters []Cluster       // all, unless Since
	Gone     []v2.ClusterKey // those that do not report through Git now
}

// ClusterSource reads clusters.
type ClusterSource interface {
	// Clusters returns the clusters that report through Git: all, or those that changed since an
	// earlier call returned mark; 0 for the first call. It omits a cluster whose settings it cannot read.
	Clusters(ctx context.Context, mark int64) (ClusterList, error)
	// Last returns the sequence and time of the last report of a cluster that any process
	// accepted; 0 if none did.
	Last(ctx context.Context, cluster v2.ClusterKey) (seq uint64, at time.Time, err error)
}

// Git reads repositories.
type Git interface {
	git.Host
	git.BranchReader
	git.BlobsReader
}

// Store keeps reports for all processes. It is safe for concurrent use.
type Store interface {
	// Store returns when the report is on disk. intake.IsRefusal reports whether an error concerns the report.
	Store(ctx context.Context, r intake.Received) error
}

// Pushes passes on to all processes what Git servers announced to one of them.
type Pushes interface {
	AnnouncePush(ctx context.Context, p gitstate.Push) error
	// Pushes yields what any process announces, until ctx ends. It may skip some: the next poll finds what they announced.
	Pushes(ctx context.Context) iter.Seq[gitstate.Push]
}

// Group is the processes that read repositories; a repository belongs to the shard of its URL.
var Group = shards.Group{Kind: "status", Shards: 16}

// Sharing divides shards among processes.
type Sharing interface {
	ShardRunner(g shards.Group, m shards.Member, work shards.Work) *shards.Runner
}

// Parts are what a Source works with.
type Parts struct {
	Git      Git
	Clusters ClusterSource
	Store    Store
	Pushes   Pushes
	Sharing  Sharing
	Member   shards.Member // this process among those that share the repositories
}

// Options tune a Source. A zero value means the default given here.
type Options struct {
	Interval     time.Duration                      // between two polls of a repository; 15 s
	ListInterval time.Duration                      // how often the list of clusters is read; as Interval
	Count        func(result string)                // counts each document by one of intake.Results
	Refused      func(d intake.Document, err error) // records a refused document for operators; it must not block
	Panics       *contain.Panics
	Log          *slog.Logger
	Now          func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Interval <= 0 {
		o.Interval = 15 * time.Second
	}
	o.ListInterval = cmp.Or(o.ListInterval, o.Interval)
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Refused == nil {
		o.Refused = func(intake.Document, error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Source reads what clusters report, in the repositories of the shards that this process owns. Make it with New.
type Source struct {
	git      Git
	clusters ClusterSource
	store    Store
	pushes   Pushes
	holder   string // this process
	options  Options
	group    *shards.Runner
	poke     chan struct{} // holds a token when pushes wait to be announced

	mu        sync.Mutex
	locations locationMap                // all that there are, guarded by mu
	changed   chan struct{}              // closed when locations are replaced, guarded by mu
	pollers   map[reportLocation]*poller // of the shards that this process owns, guarded by mu
	announced map[string]bool            // paths of pushes that wait to be announced, guarded by mu
}

// New returns a source that starts with Run.
func New(p Parts, o Options) *Source {
	s := &Source{
		git: p.Git, clusters: p.Clusters, store: p.Store, pushes: p.Pushes, holder: p.Member.Holder, options: o.withDefaults(), poke: make(chan struct{}, 1),
		changed: make(chan struct{}), pollers: map[reportLocation]*poller{}, announced: map[string]bool{},
	}
	s.group = p.Sharing.ShardRunner(Group, p.Member, s.readShard)
	return s
}

// reportLocation is what one poller reads: a repository, and the way of reporting.
type reportLocation struct {
	repo         git.Repo
	mode, branch string
}

// shard returns the shard of a location. All locations of a repository are in one.
func (l reportLocation) shard() int { return Group.Of(l.repo.URL) }

// locationMap holds the clusters of each location.
type locationMap map[reportLocation]map[v2.ClusterKey]Cluster

// Name is "status".
func (s *Source) Name() string { return Group.Kind }

// Ready returns why this process does not read its share yet.
func (s *Source) Ready() error { return s.group.Ready() }

// State reports which part of the repositories this process reads.
func (s *Source) State() string { return s.group.String() }

// Run reads the share of this process until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { s.followClusters(ctx) })
	others.Go(func() { s.announcePushes(ctx) })
	others.Go(func() { s.followPushes(ctx) })
	return s.group.Run(ctx)
}

// followClusters lists the clusters regularly, for all shards.
func (s *Source) followClusters(ctx context.Context) {
	tick := time.NewTicker(s.options.ListInterval)
	defer tick.Stop()
	mark := int64(0)
	for {
		list, err := s.clusters.Clusters(ctx, mark)
		switch {
		case err == nil:
			s.setClusters(list)
			mark = list.Mark
		case ctx.Err() == nil:
			s.options.Log.Warn("clusters not listed; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// setClusters takes in a list of clusters, and informs the shards.
func (s *Source) setClusters(list ClusterList) {
	if list.Since && len(list.Clusters)+len(list.Gone) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := locationMap{}
	if list.Since {
		at = s.locations.without(list)
	}
	for _, c := range list.Clusters {
		p := reportLocation{c.Status.Repo, c.Status.Mode, c.Status.Branch}
		if at[p] == nil {
			at[p] = map[v2.ClusterKey]Cluster{}
		}
		at[p][c.Name] = c
	}
	s.locations = at
	close(s.changed)
	s.changed = make(chan struct{})
}

// without returns a copy that lacks the clusters of a list.
func (m locationMap) without(list ClusterList) locationMap {
	listed := make(map[v2.ClusterKey]bool, len(list.Clusters)+len(list.Gone))
	for _, c := range list.Clusters {
		listed[c.Name] = true
	}
	for _, name := range list.Gone {
		listed[name] = true
	}
	out := make(locationMap, len(m))
	for at, its := range m {
		kept := maps.Clone(its) // a poller reads its map
		maps.DeleteFunc(kept, func(name v2.ClusterKey, _ Cluster) bool { return listed[name] })
		if len(kept) > 0 {
			out[at] = kept
		}
	}
	return out
}

// readShard polls the repositories of a shard until ctx ends. It writes nothing that the ownership must fence: the store
// takes each report once, whoever read it.
func (s *Source) readShard(ctx context.Context, shard int, _ *shards.Ownership) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer s.stopPollers(shard, nil)
	defer cancel()
	for {
		changed := s.updatePollers(ctx, shard, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// updatePollers starts a poller for each new location of a shard, stops those without clusters, and gives every poller its
// clusters. The answer is closed when the clusters change.
func (s *Source) updatePollers(ctx context.Context, shard int, running *sync.WaitGroup) (changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopPollersLocked(shard, s.locations)
	for at, its := range s.locations {
		if at.shard() != shard {
			continue
		}
		if have := s.pollers[at]; have != nil {
			have.setClusters(its)
			continue
		}
		pollCtx, stop := context.WithCancel(ctx)
		fresh := newPoller(s, at, stop)
		fresh.setClusters(its)
		s.pollers[at] = fresh
		running.Go(func() { fresh.run(pollCtx) })
	}
	return s.changed
}

// stopPollers stops the pollers of a shard, except those of some locations.
func (s *Source) stopPollers(shard int, except locationMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopPollersLocked(shard, except)
}

func (s *Source) stopPollersLocked(shard int, except locationMap) {
	for at, p := range s.pollers {
		if at.shard() == shard && except[at] == nil {
			p.stop()
			delete(s.pollers, at)
		}
	}
}
