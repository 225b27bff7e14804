package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// program measures what the program emco costs beside writing: its store, its API, and
// a restart: P11, P10, P13.
func (s *Suite) program(ctx context.Context) error {
	sizes := []int{100, 1000}
	if len(s.Sizes) > 0 {
		sizes = s.Sizes
	}
	for _, clusters := range sizes {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: 20, Bytes: bytesEach, Shared: true}
		s.turn("P10 "+spec.String(), func() { s.programOf(ctx, spec) })
	}
	return ctx.Err()
}

func (s *Suite) programOf(ctx context.Context, spec world.Spec) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.fail("P11", spec, err)
		return
	}
	defer os.RemoveAll(dir)
	p, w := peers.NewEmco(s.Bin, dir), world.New(spec)
	defer func() { _ = p.Close(ctx) }()
	if err := p.Prepare(ctx, spec, nil); err != nil {
		s.fail("P11", spec, fmt.Errorf("prepare: %w", err))
		return
	}
	s.storeCalls(ctx, p, w)
	for _, rate := range s.rates() {
		for _, r := range requests(spec) {
			s.add(s.load(ctx, p, r, rate))
		}
	}
	s.add(s.restart(ctx, p, w))
}

func (s *Suite) fail(metric string, spec world.Spec, err error) {
	s.add(figures.Sample{Metric: metric, Case: spec.String(), Peer: figures.Process, Failed: err.Error()})
}

// storeCalls counts requests to etcd of an instantiation.
func (s *Suite) storeCalls(ctx context.Context, p *peers.Emco, w *world.World) {
	before, err := p.Program.Metrics(ctx)
	if err != nil {
		s.fail("P11", w.Spec, err)
		return
	}
	pairs := w.Make(world.Change{Kind: world.Install})
	cost, err := p.Apply(ctx, peers.Turn{Change: world.Change{Kind: world.Install}, Pairs: pairs, World: w})
	if err == nil {
		err = matches(ctx, p, w)
	}
	after, merr := p.Program.Metrics(ctx)
	if err = errors.Join(err, merr); err != nil {
		s.fail("P11", w.Spec, err)
		return
	}
	rise := func(name string) float64 { return after[name] - before[name] }
	s.add(figures.Sample{Metric: "P11", Case: w.Spec.String(), Peer: figures.Process, Values: map[string]float64{
		"calls": rise("emco_etcd_operations_total"), "bytes": rise(`emco_etcd_bytes_total{kind="txn"}`) / 1024, "seconds": cost.Took.Seconds(),
	}})
	s.add(figures.Sample{
		Metric: "P11", Case: w.Spec.String(), Peer: "EMCO", Values: map[string]float64{"calls": emcoCalls(w.Spec)},
		Note: "not run: its own code, run once on a store that counts, gave 82 + 8A + 13AC + 27ACR",
	})
}

// emcoCalls are EMCO's reads and writes of its store for an instantiation.
func emcoCalls(s world.Spec) float64 {
	a, ac := float64(s.Apps), float64(s.Apps*s.Clusters)
	return 82 + 8*a + 13*ac + 27*ac*float64(s.Resources)
}

func matches(ctx context.Context, p *peers.Emco, w *world.World) error {
	got, err := p.Probe(ctx)
	if err != nil {
		return err
	}
	return same(got, p.Want(w))
}

// restart kills the program and asks for a change as soon as it is ready again.
func (s *Suite) restart(ctx context.Context, p *peers.Emco, w *world.World) figures.Sample {
	out := figures.Sample{Metric: "P13", Case: w.Spec.String(), Peer: figures.Process}
	commits, err := p.Site().Commits(ctx)
	if err != nil {
		out.Failed = err.Error()
		return out
	}
	p.Program.Kill()
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		out.Failed = err.Error()
		return out
	}
	ready := time.Since(began)
	change := world.Change{Kind: world.Value, App: 0}
	_, err = p.Apply(ctx, peers.Turn{Change: change, Pairs: w.Make(change), World: w})
	durable := p.Site().LastPush().Sub(began)
	if err == nil {
		err = matches(ctx, p, w)
	}
	after, cerr := p.Site().Commits(ctx)
	if err = errors.Join(err, cerr); err != nil {
		out.Failed = err.Error()
	}
	out.Values = map[string]float64{"seconds": ready.Seconds(), "durable": durable.Seconds(), "extra": float64(after - commits - 1)}
	return out
}

// request is one kind of call of the API.
type request struct {
	name   string
	make   func(url string, i int) (*http.Request, error)
	writes bool
}

func requests(spec world.Spec) []request {
	get := func(path func(i int) string) func(string, int) (*http.Request, error) {
		return func(url string, i int) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, url+"/v2/"+path(i), nil)
		}
	}
	clusters := "cluster-providers/" + fleet.Provider + "/clusters"
	of := fmt.Sprintf(" of %d", spec.Clusters)
	return []request{
		{name: "one cluster" + of, make: get(func(i int) string { return clusters + "/" + world.Cluster(i%spec.Clusters) })},
		{name: "a label for a cluster" + of, writes: true, make: labelled(clusters, spec)},
		{name: "status without parts" + of, make: get(func(int) string { return groupPath + "/status?status=deployed&output=summary" })},
	}
}

// labelled writes labels, each one new.
func labelled(clusters string, spec world.Spec) func(string, int) (*http.Request, error) {
	return func(url string, i int) (*http.Request, error) {
		body := strings.NewReader(fmt.Sprintf(`{"clusterLabel": "load%d"}`, i))
		req, err := http.NewRequest(http.MethodPost, url+"/v2/"+clusters+"/"+world.Cluster(i%spec.Clusters)+"/labels", body)
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}
}

const groupPath = "projects/" + fleet.Project + "/composite-apps/bench/v1/deployment-intent-groups/bench"

// rates of requests per second.
func (s *Suite) rates() []int {
	if s.Full {
		return []int{500, 2000, 5000}
	}
	return []int{500}
}

// load sends requests at a fixed rate.
func (s *Suite) load(ctx context.Context, p *peers.Emco, r request, rate int) figures.Sample {
	if r.writes {
		rate /= 5
	}
	out := figures.Sample{Metric: "P10", Case: fmt.Sprintf("%d/s: %s", rate, r.name), Peer: figures.Process}
	l := loader{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}, Timeout: patience}}
	defer l.client.CloseIdleConnections()
	began := time.Now()
	for i := range rate * int(period/time.Second) {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due)) // the rate is the measure, not a synchronisation
		s.seq++
		req, err := r.make(p.Program.URL(), s.seq)
		if err != nil {
			out.Failed = err.Error()
			return out
		}
		l.send(req.WithContext(ctx), due)
	}
	l.all.Wait()
	out.Values = map[string]float64{
		"p50": figures.Median(l.took) * 1000, "p99": figures.Quantile(l.took, 0.99) * 1000,
		"achieved": float64(len(l.took)) / time.Since(began).Seconds(), "errors": float64(l.wrong),
	}
	switch {
	case l.wrong > l.late:
		out.Failed = fmt.Sprintf("%d requests failed, such as: %s", l.wrong, l.why)
	case l.late > 0:
		out.Note = fmt.Sprintf("more than it can do: %d of %d were not answered within %s", l.late, l.late+len(l.took), patience)
	}
	return out
}

// loader sends requests and notes how long after they were due they were answered.
type loader struct {
	client *http.Client
	all    sync.WaitGroup

	mu    sync.Mutex
	took  []float64
	wrong int
	late  int // of those that are wrong: not answered in time
	why   string
}

// patience is how long an answer may take.
const patience = 10 * time.Second

func (l *loader) send(req *http.Request, due time.Time) {
	l.all.Go(func() {
		res, err := l.client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			err = errors.Join(err, res.Body.Close())
			if res.StatusCode >= 300 {
				err = errors.Join(err, errors.New(res.Status))
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.wrong++
			if os.IsTimeout(err) {
				l.late++
			} else {
				l.why = err.Error()
			}
			return
		}
		l.took = append(l.took, time.Since(due).Seconds())
	})
}

// derive makes samples of samples: slopes, and what EMCO's polling comes to.
func (s *Suite) derive() {
	s.round = 1
	s.slopes()
	s.memory()
}

// slopes is how times grow with the number of files: P4.
func (s *Suite) slopes() {
	at := map[string]map[string]map[float64][]float64{} // metric, peer, files
	for _, c := range s.run.Samples {
		var clusters int
		if n, _ := fmt.Sscanf(c.Case, "unshared, %d clusters", &clusters); n != 1 || c.Over || c.Failed != "" || c.Values["seconds"] <= 0 {
			continue
		}
		if at[c.Metric] == nil {
			at[c.Metric] = map[string]map[float64][]float64{}
		}
		if at[c.Metric][c.Peer] == nil {
			at[c.Metric][c.Peer] = map[float64][]float64{}
		}
		files := float64(clusters * apps * resources)
		at[c.Metric][c.Peer][files] = append(at[c.Metric][c.Peer][files], c.Values["seconds"])
	}
	names := map[string]string{"P3": "one file changed, over the files on the branch", "P1": "all files new, over their number"}
	for _, metric := range []string{"P3", "P1"} {
		for peer, points := range at[metric] {
			var x, y []float64
			for files, seconds := range points {
				x, y = append(x, files), append(y, figures.Median(seconds))
			}
			if len(x) > 1 {
				s.add(figures.Sample{Metric: "P4", Case: names[metric], Peer: peer, Values: map[string]float64{"slope": figures.Slope(x, y)}, Note: fmt.Sprintf("%.0f to %.0f files", slices.Min(x), slices.Max(x))})
			}
		}
	}
}

// memory is how much more memory a cluster takes: P9.
func (s *Suite) memory() {
	peak := map[int][]float64{}
	for _, c := range s.run.Samples {
		var clusters int
		if n, _ := fmt.Sscanf(c.Case, "shared, %d clusters", &clusters); n == 1 && c.Metric == "P9" {
			peak[clusters] = append(peak[clusters], c.Values["rss"])
		}
	}
	if len(peak) < 2 {
		return
	}
	sizes := make([]int, 0, len(peak))
	for n := range peak {
		sizes = append(sizes, n)
	}
	low, high := slices.Min(sizes), slices.Max(sizes)
	more := (figures.Median(peak[high]) - figures.Median(peak[low])) * 1024 / float64(high-low)
	s.add(figures.Sample{Metric: "P9", Case: fmt.Sprintf("from %d to %d clusters", low, high), Peer: figures.Process, Values: map[string]float64{"perCluster": more}})
}
