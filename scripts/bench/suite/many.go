package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/pace"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// manySize is the size of the case of many deployments.
type manySize struct {
	clusters    int           // of the fleet; the large deployment is on all of them
	deployments int           // small ones
	together    int           // that change in the same second
	load        time.Duration // of small changes and reads beside large ones
}

const (
	places     = 10 // clusters of a small deployment
	smallFiles = 3
	readers    = 32
	readEvery  = 100 * time.Millisecond // by each reader
	smallEvery = 200 * time.Millisecond // small changes beside large ones
	settleTime = 2 * time.Minute        // time limit until changes are durable
)

// many measures many deployments, changes and readers on one server: P18.
func (s *Suite) many(ctx context.Context) error {
	size := manySize{clusters: 100, deployments: 50, together: 20, load: 4 * time.Second}
	if s.Full {
		size = manySize{clusters: 10_000, deployments: 1000, together: 100, load: 30 * time.Second}
	}
	if len(s.Sizes) > 0 {
		size.clusters = s.Sizes[len(s.Sizes)-1]
	}
	s.turn("P18", func() { s.manyOf(ctx, size) })
	return ctx.Err()
}

func (s *Suite) manyOf(ctx context.Context, size manySize) {
	dir := s.folder()
	m := manyRun{suite: s, size: size, dir: dir, emco: peers.NewEmco(s.Bin, dir, peers.Setup{}), versions: map[string]int{}}
	defer os.RemoveAll(dir)
	defer func() { _ = m.emco.Close(ctx) }()
	for _, part := range []struct {
		name string
		run  func(context.Context) (figures.Sample, error)
	}{
		{"prepare", m.prepare},
		{fmt.Sprintf("%d deployments on %d clusters each: installation", size.deployments, places), m.install},
		{fmt.Sprintf("%d of them change in the same second", size.together), m.changeTogether},
		{"", m.besideLarge},
	} {
		sample, err := part.run(ctx)
		if err != nil {
			sample.Failed = err.Error()
		}
		if sample.Failed != "" || sample.Values != nil {
			s.addMany(part.name, sample)
		}
		if sample.Failed != "" {
			return
		}
	}
}

func (s *Suite) addMany(of string, sample figures.Sample) {
	sample.Metric, sample.Case, sample.Peer = "P18", of, figures.Process
	s.add(sample)
}

// manyRun is a program with one large deployment and many small ones.
type manyRun struct {
	suite *Suite
	size  manySize
	dir   string
	emco  *peers.Emco
	world *world.World // of the large deployment
	small []fleet.Deployment
	next  int // the first small deployment that was not changed in this run

	mu       sync.Mutex
	versions map[string]int // of small apps, by name; guarded by mu
}

// prepare registers the fleet, installs the large deployment and onboards the small ones.
func (m *manyRun) prepare(ctx context.Context) (figures.Sample, error) {
	spec := world.Spec{Apps: apps, Clusters: m.size.clusters, Resources: resources, Bytes: bytesEach, Shared: true}
	m.world = world.New(spec)
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return figures.Sample{}, err
	}
	if err := m.emco.Prepare(ctx, spec, nil); err != nil {
		return figures.Sample{}, err
	}
	if err := m.changeLarge(ctx, world.Change{Kind: world.Install}); err != nil {
		return figures.Sample{}, err
	}
	blocks := min(m.size.clusters/places, m.size.deployments)
	err := fleet.Each(ctx, blocks*places, func(ctx context.Context, i int) error { return m.emco.Label(ctx, i, block(i/places)) })
	if err != nil {
		return figures.Sample{}, err
	}
	one := world.Spec{Resources: smallFiles, Bytes: bytesEach}
	for i := range m.size.deployments {
		name := fmt.Sprintf("small%04d", i)
		where := v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: fleet.Provider, Label: block(i % blocks)}}}}
		m.small = append(m.small, fleet.Deployment{Name: name, Apps: []fleet.App{{Chart: peers.Chart(name, one), Intent: where}}})
	}
	return figures.Sample{}, fleet.Each(ctx, len(m.small), func(ctx context.Context, i int) error { return m.emco.Fleet.Onboard(ctx, m.dir, m.small[i]) })
}

// block is the label of ten clusters.
func block(i int) string { return fmt.Sprintf("block%04d", i) }

// changeLarge changes the large deployment, and waits until that is durable.
func (m *manyRun) changeLarge(ctx context.Context, change world.Change) error {
	_, err := m.emco.Apply(ctx, peers.Turn{Change: change, Pairs: m.world.Make(change), World: m.world})
	return err
}

// install instantiates all small deployments at once.
func (m *manyRun) install(ctx context.Context) (figures.Sample, error) {
	return m.measure(ctx, func() (map[string]time.Time, error) {
		due := map[string]time.Time{}
		began := time.Now()
		for _, d := range m.small {
			due[d.Name] = began
		}
		return due, fleet.Each(ctx, len(m.small), func(ctx context.Context, i int) error {
			return m.emco.Fleet.Act(ctx, m.small[i].Path(), "instantiate")
		})
	})
}

// changeTogether changes a value of many small deployments, all due within a second.
func (m *manyRun) changeTogether(ctx context.Context) (figures.Sample, error) {
	return m.measure(ctx, func() (map[string]time.Time, error) {
		return m.changes(ctx, m.size.together, time.Second/time.Duration(m.size.together))
	})
}

// besideLarge changes small deployments, and reads, while values of the large one change without a pause. It adds
// its two samples itself.
func (m *manyRun) besideLarge(ctx context.Context) (figures.Sample, error) {
	end, cancel := context.WithTimeout(ctx, m.size.load)
	defer cancel()
	large, whole := 0, make(chan error, 1)
	go func() {
		var err error
		for ; end.Err() == nil && err == nil; large++ {
			err = m.changeLarge(ctx, world.Change{Kind: world.Value, App: large % apps})
		}
		whole <- err
	}()
	reads := make(chan figures.Sample, 1)
	go func() { reads <- m.reads(end) }()
	sample, err := m.measure(ctx, func() (map[string]time.Time, error) {
		return m.changes(ctx, min(int(m.size.load/smallEvery), len(m.small)-m.next), smallEvery)
	})
	if err != nil {
		cancel()
	}
	read := <-reads
	if err := errors.Join(err, <-whole); err != nil {
		return sample, err
	}
	beside := fmt.Sprintf("while 10 apps on %d clusters change", m.size.clusters)
	sample.Note = fmt.Sprintf("%d large changes meanwhile", large)
	m.suite.addMany("small changes, "+beside, sample)
	m.suite.addMany(fmt.Sprintf("reads of %d clients, %s", readers, beside), read)
	return figures.Sample{}, nil
}

// changes changes n small deployments, one in each interval, and returns when each was due.
func (m *manyRun) changes(ctx context.Context, n int, every time.Duration) (map[string]time.Time, error) {
	due, failed := map[string]time.Time{}, make([]error, n)
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		d := m.small[(m.next+i)%len(m.small)]
		at := began.Add(time.Duration(i) * every)
		due[d.Name] = at
		if !pace.Until(ctx, at) {
			break
		}
		all.Go(func() { failed[i] = m.changeSmall(ctx, d) })
	}
	m.next += n
	all.Wait()
	return due, errors.Join(append(failed, ctx.Err())...)
}

func (m *manyRun) changeSmall(ctx context.Context, d fleet.Deployment) error {
	m.mu.Lock()
	m.versions[d.Name]++
	version := m.versions[d.Name]
	m.mu.Unlock()
	if err := m.emco.Fleet.Revalue(ctx, d, d.Apps[0].Chart, peers.Values(version)); err != nil {
		return err
	}
	return m.emco.Fleet.Act(ctx, d.Path(), "update")
}

// measure makes changes of small deployments, waits until all are durable, and checks what the branches hold. The
// times are from due to durable.
func (m *manyRun) measure(ctx context.Context, change func() (due map[string]time.Time, err error)) (out figures.Sample, err error) {
	site, pid := m.emco.Site(), m.emco.Program.PID()
	before, err := site.Commits(ctx)
	if err != nil {
		return out, err
	}
	cpu, began := peers.CPUOf(pid), time.Now()
	due, err := change()
	if err != nil {
		return out, err
	}
	durable := map[string]time.Time{}
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := program.Poll(limited, look, func() (err error) {
		durable, err = m.durable(limited, began, due)
		return err
	}); err != nil {
		return out, err
	}
	var took []float64
	last := began
	for name, at := range due {
		took = append(took, durable[name].Sub(at).Seconds())
		if durable[name].After(last) {
			last = durable[name]
		}
	}
	after, err := site.Commits(ctx)
	memory, merr := m.emco.Program.Memory()
	out.Values = map[string]float64{
		"p99": figures.Quantile(took, 0.99), "p50": figures.Median(took), "seconds": last.Sub(began).Seconds(), "done": float64(len(took)),
		"commits": float64(after - before), "cpu": (peers.CPUOf(pid) - cpu).Seconds(), "rss": float64(memory.Peak) / (1 << 20),
	}
	return out, errors.Join(err, merr, m.check(ctx))
}

// look is how often the branches are read until all changes are there.
const look = 250 * time.Millisecond

// durable returns when each of the due small deployments was durable on all its clusters; an error while one is
// missing.
func (m *manyRun) durable(ctx context.Context, since time.Time, due map[string]time.Time) (map[string]time.Time, error) {
	changed, err := m.emco.Site().Changed(ctx, since, "clusters/**/app/small*/**")
	if err != nil {
		return nil, err
	}
	files, last := map[string]int{}, map[string]time.Time{}
	for path, at := range changed {
		app := appOf(path)
		if files[app]++; at.After(last[app]) {
			last[app] = at
		}
	}
	for name := range due {
		if files[name] < places*smallFiles {
			return nil, fmt.Errorf("of %s %d files have changed, want %d", name, files[name], places*smallFiles)
		}
	}
	return last, nil
}

// appOf returns the app of a path …/app/<app>/<file>.
func appOf(path string) string {
	part := strings.Split(path, "/")
	return part[max(0, len(part)-2)]
}

// check compares the versions of all small deployments on the branches with those that were asked for.
func (m *manyRun) check(ctx context.Context) error {
	got := map[string]map[string]int{} // by app and version: files
	for _, branch := range m.emco.Site().Branches() {
		state, err := m.emco.ProbeBranch(ctx, branch)
		if err != nil {
			return err
		}
		for path, version := range state {
			app := strings.Split(path, "/")[2]
			if got[app] == nil {
				got[app] = map[string]int{}
			}
			got[app][version]++
		}
	}
	for _, d := range m.small {
		if want := map[string]int{fmt.Sprint(m.versions[d.Name]): places * smallFiles}; !maps.Equal(got[d.Name], want) {
			return fmt.Errorf("%s has files by version %v, want %v", d.Name, got[d.Name], want)
		}
	}
	return nil
}

// reads has clients read until ctx ends, each at a fixed pace.
func (m *manyRun) reads(ctx context.Context) (out figures.Sample) {
	a := newAPIClient(m.emco)
	defer a.client.CloseIdleConnections()
	l := loadGenerator{tooMuch: func() {}}
	var all sync.WaitGroup
	for k := range readers {
		all.Go(func() {
			due := time.Now().Add(time.Duration(k) * readEvery / readers)
			for i := k; ctx.Err() == nil; i++ {
				if !pace.Until(ctx, due) {
					return
				}
				l.send(context.WithoutCancel(ctx), due, func(ctx context.Context) error { return m.read(ctx, a, i) })
				due = due.Add(readEvery)
			}
		})
	}
	all.Wait()
	l.all.Wait()
	out.Values = map[string]float64{"p99": figures.Quantile(l.took, 0.99), "p50": figures.Median(l.took), "done": float64(len(l.took)), "late": float64(l.wrong)}
	if l.wrong > 0 || l.late {
		out.Failed = fmt.Sprintf("%d reads failed, such as: %s; one came too late: %t", l.wrong, l.why, l.late)
	}
	return out
}

// read reads one of what people look at.
func (m *manyRun) read(ctx context.Context, a apiClient, i int) error {
	path := [...]string{
		clustersPath + "/" + world.Cluster(i%m.size.clusters),
		clustersPath + fmt.Sprintf("?limit=%d", pageSize),
		m.small[i%len(m.small)].Path() + "/status?status=deployed",
		groupPath + "/status?status=deployed&output=summary",
	}[i%4]
	_, err := a.send(ctx, http.MethodGet, path, "")
	return err
}
