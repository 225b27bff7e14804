// Package fleet simulates many clusters in one process. They pull from Git, apply what they
// pulled to an inventory, and report with the monitor's own code. A few workers run them in
// turns; a cluster has no goroutine of its own.
package fleet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/monitor/publish"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/fetch"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/scheduler"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
)

// Options describe the fleet and its behaviour.
type Options struct {
	Clusters []v2.ClusterKey
	Branch   string            // to pull; {cluster} stands for the name of each
	Branches map[string]string // other branches to pull, by name of the cluster
	Repo     git.Repo          // to pull
	Status   git.Repo          // to report to
	Prefix   string            // of the branches to report to
	Silent   bool              // do not report

	Control string                // control plane to report to by HTTPS; empty: report through Git
	CA      string                // certificates to trust there, in addition to the system's
	Tokens  map[string]git.Secret // for the control plane, by name of the cluster

	Interval  time.Duration // between two polls of the branch, plus or minus a tenth
	Apply     time.Duration // longest time to apply a change
	Settle    time.Duration // about how long workloads are in progress
	Gather    time.Duration // how long changes are collected before a report; default as in the monitor
	Report    time.Duration // shortest time between two reports; default as in the monitor
	Heartbeat time.Duration // longest time between two reports; default as in the monitor

	Own     bool          // each cluster fetches alone; else each branch is fetched once for all
	Refresh time.Duration // between two polls of a branch that is fetched for all
	Workers int           // clusters that run at the same time
	Seed    uint64
	Orders  []script.Order // sorted by time
	Agent   string         // name and version in reports
}

// maxObjects bounds the cache of parsed files.
const maxObjects = 500_000

// Fleet is made with New.
type Fleet struct {
	options      Options
	objects      *inventory.ObjectCache
	fetcher      fetch.Fetcher
	host         *plain.Host           // for reports
	controlPlane *publish.ControlPlane // for reports by HTTPS; nil if they go through Git
	clusters     []*cluster
	scheduler    *scheduler.Scheduler
	random       *rand.Rand // only New and giveOrders, one after the other
	started      time.Time

	// All below is guarded by mu.
	mu          sync.Mutex
	delays      durationSample // from a commit to its application
	writes      durationSample // of reports
	failures    int
	lastFailure string // of a report
}

// New returns a fleet that does nothing before Run. Its clusters start within their first
// interval, at random times. The error is about the address in Options.Control.
func New(o Options) (*Fleet, error) {
	f := &Fleet{
		options: o, objects: inventory.NewObjectCache(maxObjects), host: plain.New(plain.Options{MaxRepos: 2}),
		random: rand.New(rand.NewPCG(o.Seed, 0)), started: time.Now(),
	}
	if o.Control != "" {
		var err error
		if f.controlPlane, err = publish.NewControlPlane(o.Control); err != nil {
			return nil, err
		}
	}
	f.fetcher = fetch.NewShared(o.Repo, f.objects, o.Refresh)
	if o.Own {
		f.fetcher = fetch.NewOwn(o.Repo, f.objects)
	}
	at := make([]time.Time, len(o.Clusters))
	for i, key := range o.Clusters {
		at[i] = f.started.Add(time.Duration(f.random.Int64N(int64(max(o.Interval, 1)))))
		f.clusters = append(f.clusters, f.newCluster(key, uint64(i), at[i]))
	}
	f.scheduler = scheduler.New(at)
	return f, nil
}

func (f *Fleet) newCluster(key v2.ClusterKey, number uint64, first time.Time) *cluster {
	o, name := f.options, key.String()
	c := &cluster{fleet: f, nextPoll: first, random: rand.New(rand.NewPCG(o.Seed, number+1))}
	c.location = fetch.Location{Branch: strings.ReplaceAll(o.Branch, "{cluster}", name), Cluster: name}
	if branch := o.Branches[name]; branch != "" {
		c.location.Branch = branch
	}
	if o.Silent {
		return c
	}
	c.loop = publish.New(c, countingWriter{f.writer(key), c}, publish.Options{Cluster: name, Agent: o.Agent, Gather: o.Gather, Interval: o.Report, Heartbeat: o.Heartbeat})
	return c
}

// writer returns the writer for the reports of a cluster.
func (f *Fleet) writer(key v2.ClusterKey) publish.Writer {
	o, name := f.options, key.String()
	if f.controlPlane != nil {
		credentials := publish.Credentials{Token: o.Tokens[name], CA: o.CA}
		return publish.NewHTTPS(f.controlPlane, func() (publish.Credentials, error) { return credentials, nil }, key, 0)
	}
	repository := func() (git.Repo, error) { return o.Status, nil }
	return publish.NewOwnBranch(f.host, repository, o.Prefix, name, 0, slog.New(slog.DiscardHandler))
}

// Run runs the clusters until ctx ends. It waits for the goroutines that it started.
func (f *Fleet) Run(ctx context.Context) {
	var background sync.WaitGroup
	background.Go(func() { f.giveOrders(ctx) })
	f.scheduler.Run(ctx, f.options.Workers, func(ctx context.Context, task int, now time.Time) time.Time {
		return f.clusters[task].turn(ctx, now)
	})
	background.Wait()
	_ = f.host.Close()
}

// giveOrders gives each order at its time.
func (f *Fleet) giveOrders(ctx context.Context) {
	began := time.Now()
	for _, o := range f.options.Orders {
		timer := time.NewTimer(time.Until(began.Add(o.At)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		for _, i := range o.Select.Pick(len(f.clusters), f.random) {
			f.clusters[i].order(o)
			f.scheduler.Wake(i, f.started) // before all other clusters
		}
	}
}

func (f *Fleet) recordApply(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delays.add(after)
}

func (f *Fleet) recordReport(took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failures++
		f.lastFailure = err.Error()
		return
	}
	f.writes.add(took)
}
