// Package fleet is many simulated clusters in one process. They pull from Git, hold what
// they pulled, and report by the monitor's own code. A few workers give them their turns;
// nothing of them waits by itself.
package fleet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/monitor/publish"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/fetch"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/scheduler"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
)

// Options say what the fleet is and how it behaves.
type Options struct {
	Clusters []string          // names: <provider>+<cluster>
	Branch   string            // that they read; {cluster} stands for the name of each
	Branches map[string]string // of clusters that read another one, by name
	Repo     git.Repo          // that they read
	Status   git.Repo          // that they report to
	Prefix   string            // of the branches that they report to
	Silent   bool              // they do not report

	Control string                // control plane that they report to by HTTPS; empty: through Git
	CA      string                // certificates to trust there besides the system's
	Tokens  map[string]git.Secret // for that, by name

	Interval  time.Duration // between two looks at the branch, a tenth more or less
	Apply     time.Duration // most time to apply what came
	Settle    time.Duration // time until workloads are well, about
	Gather    time.Duration // how long changes are collected before a report; the monitor's default if zero
	Report    time.Duration // least time between two reports; the monitor's default if zero
	Heartbeat time.Duration // between two reports without news; likewise

	Own     bool          // each cluster fetches by itself; else branches are fetched once for all
	Refresh time.Duration // how often a branch is looked at that is fetched for all
	Workers int           // turns at once
	Seed    uint64
	Orders  []script.Order // in order of time
	Agent   string         // name and version in reports
}

// maxObjects bounds the files of which is remembered what they hold.
const maxObjects = 500_000

// Fleet is made with New.
type Fleet struct {
	options  Options
	objects  *inventory.Objects
	fetcher  fetch.Fetcher
	host     *plain.Host   // for reports
	line     *publish.Line // for reports by HTTPS; nil if they go through Git
	clusters []*cluster
	agenda   *scheduler.Agenda
	draw     *rand.Rand
	began    time.Time

	mu       sync.Mutex
	delays   samples // from commit to applied
	writes   samples // of reports
	failures int
	last     string // why a report failed last
}

// New returns a fleet that stands still. Its clusters begin within their first interval,
// at times that the seed draws. The error says that Control is no address that can be used.
func New(o Options) (*Fleet, error) {
	f := &Fleet{
		options: o, objects: inventory.NewObjects(maxObjects), host: plain.New(plain.Options{MaxRepos: 2}),
		draw: rand.New(rand.NewPCG(o.Seed, 0)), began: time.Now(),
	}
	if o.Control != "" {
		var err error
		if f.line, err = publish.NewLine(o.Control); err != nil {
			return nil, err
		}
	}
	f.fetcher = fetch.NewShared(o.Repo, f.objects, o.Refresh)
	if o.Own {
		f.fetcher = fetch.NewOwn(o.Repo, f.objects)
	}
	at := make([]time.Time, len(o.Clusters))
	for i, name := range o.Clusters {
		at[i] = f.began.Add(time.Duration(f.draw.Int64N(int64(max(o.Interval, 1)))))
		f.clusters = append(f.clusters, f.newCluster(name, uint64(i), at[i]))
	}
	f.agenda = scheduler.New(at)
	return f, nil
}

func (f *Fleet) newCluster(name string, number uint64, first time.Time) *cluster {
	o := f.options
	c := &cluster{fleet: f, nextLook: first, draw: rand.New(rand.NewPCG(o.Seed, number+1))}
	c.place = fetch.Place{Branch: strings.ReplaceAll(o.Branch, "{cluster}", name), Cluster: name}
	if branch := o.Branches[name]; branch != "" {
		c.place.Branch = branch
	}
	if o.Silent {
		return c
	}
	c.loop = publish.New(c, counted{f.writer(name), c}, publish.Options{Cluster: name, Agent: o.Agent, Gather: o.Gather, Interval: o.Report, Heartbeat: o.Heartbeat})
	return c
}

// writer returns what the reports of a cluster go through.
func (f *Fleet) writer(name string) publish.Writer {
	o := f.options
	if f.line != nil {
		access := publish.Access{Token: o.Tokens[name], CA: o.CA}
		return publish.NewHTTPS(f.line, func() (publish.Access, error) { return access, nil }, name, 0)
	}
	repository := func() (git.Repo, error) { return o.Status, nil }
	return publish.NewBranch(f.host, repository, o.Prefix, name, 0, slog.New(slog.DiscardHandler))
}

// Run has the clusters live until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { f.command(ctx) })
	f.agenda.Run(ctx, f.options.Workers, func(ctx context.Context, party int, now time.Time) time.Time {
		return f.clusters[party].turn(ctx, now)
	})
	all.Wait()
	_ = f.host.Close()
}

// command gives orders when their time has come.
func (f *Fleet) command(ctx context.Context) {
	began := time.Now()
	for _, o := range f.options.Orders {
		timer := time.NewTimer(time.Until(began.Add(o.At)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		for _, i := range o.Who.Pick(len(f.clusters), f.draw) {
			f.clusters[i].order(o)
			f.agenda.Wake(i, f.began) // before all who wait for theirs
		}
	}
}

func (f *Fleet) applied(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delays.add(after)
}

func (f *Fleet) told(took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failures++
		f.last = err.Error()
		return
	}
	f.writes.add(took)
}
