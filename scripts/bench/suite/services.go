package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// setup is a way to run emco, with its name in tables.
type setup struct {
	name string
	peers.Setup
}

// setups are what the services set compares.
func setups() []setup {
	return []setup{
		{figures.Process, peers.Setup{}},
		{"one, with identity and audit log", peers.Setup{Secured: true}},
		{"three on etcd, with identity and audit log", peers.Setup{Processes: 3, Secured: true}},
	}
}

// serviceGroups are the metrics of the services set.
func serviceGroups() []metricGroup {
	return []metricGroup{
		{[]string{"P20"}, (*Suite).takeovers, false},
		{[]string{"P1", "P2", "P3"}, (*Suite).serviceStories, false},
		{[]string{"P10", "P13"}, (*Suite).serviceRequests, true},
	}
}

// serviceStories lets each setup install, change a value, and change single clusters.
func (s *Suite) serviceStories(ctx context.Context) error {
	spec := world.Spec{Apps: apps, Clusters: s.serviceSize(1000), Resources: resources, Bytes: bytesEach, Shared: true}
	var all []peers.Maker
	for _, u := range setups() {
		all = append(all, peers.ProcessAs(u.name, s.Bin, u.Setup))
	}
	s.tell(ctx, spec, spec.String(), all)
	return ctx.Err()
}

// serviceSize is the number of clusters of a case.
func (s *Suite) serviceSize(usual int) int {
	if len(s.Sizes) > 0 {
		return s.Sizes[0]
	}
	return usual
}

// serviceRequests sends requests to each setup, in turn to its processes, and restarts all of them at once: P10, P13.
func (s *Suite) serviceRequests(ctx context.Context) error {
	spec := world.Spec{Apps: 5, Clusters: s.serviceSize(10000), Resources: resources, Bytes: bytesEach, Shared: true}
	for _, u := range shuffled(s, setups()) {
		s.turn("P10 "+spec.String()+", "+u.name, func() {
			s.withService(ctx, u, spec, "P10", func(p *peers.Emco, w *world.World) {
				s.serviceLatency(ctx, p, u.name, spec.Clusters)
				s.add(s.restart(ctx, p, w, u.name))
			})
		})
	}
	return ctx.Err()
}

// withService installs a deployment on a setup.
func (s *Suite) withService(ctx context.Context, u setup, spec world.Spec, metric string, do func(*peers.Emco, *world.World)) {
	dir := s.folder()
	p, w := peers.NewEmco(s.Bin, dir, u.Setup), world.New(spec)
	defer os.RemoveAll(dir)
	defer func() { _ = p.Close(ctx) }()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = p.Prepare(ctx, spec, nil)
	}
	if err == nil {
		change := world.Change{Kind: world.Install}
		_, err = p.Apply(ctx, peers.Turn{Change: change, Pairs: w.Make(change), World: w})
	}
	if err != nil {
		s.add(figures.Sample{Metric: metric, Case: spec.String(), Peer: u.name, Failed: "install: " + err.Error()})
		return
	}
	do(p, w)
}

func (s *Suite) serviceLatency(ctx context.Context, p *peers.Emco, name string, clusters int) {
	a := newAPIClient(p)
	defer a.client.CloseIdleConnections()
	for _, r := range a.requests(clusters, []string{""}) {
		if r.fixed == 0 {
			continue
		}
		used := p.CPU()
		sample := atRate(ctx, r, r.fixed, s.number(r.fixed), period)
		if _, all := sample.Values["p50"]; all {
			sample.Values["each"] = float64((p.CPU() - used).Microseconds()) / (float64(r.fixed) * period.Seconds())
		}
		sample.Metric, sample.Case, sample.Peer = "P10", fmt.Sprintf("%d/s: %s of %d", r.fixed, r.name, clusters), name
		s.add(sample)
	}
}

// takeovers end the process that writes a branch, and request a change at another one at once: P20.
func (s *Suite) takeovers(ctx context.Context) error {
	u := setups()[2]
	spec := world.Spec{Apps: apps, Clusters: s.serviceSize(100), Resources: resources, Bytes: bytesEach, Shared: true}
	for _, end := range []struct {
		how string
		do  func(*program.Emco) error
	}{
		{"kill -9", func(e *program.Emco) error { e.Kill(); return nil }},
		{"SIGTERM", (*program.Emco).Stop},
	} {
		s.turn("P20 "+end.how, func() {
			s.withService(ctx, u, spec, "P20", func(p *peers.Emco, w *world.World) {
				sample, err := s.takeover(ctx, p, w, end.do)
				sample.Metric, sample.Case, sample.Peer = "P20", end.how+", "+spec.String(), u.name
				if err != nil {
					sample.Failed = err.Error()
				}
				s.add(sample)
			})
		})
	}
	return ctx.Err()
}

func (s *Suite) takeover(ctx context.Context, p *peers.Emco, w *world.World, end func(*program.Emco) error) (out figures.Sample, err error) {
	writer, err := s.writer(ctx, p)
	if err != nil {
		return out, err
	}
	if err := p.Remove(writer); err != nil {
		return out, err
	}
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- end(writer) }()
	change := world.Change{Kind: world.Value, App: 0}
	_, err = p.Apply(ctx, peers.Turn{Change: change, Pairs: w.Make(change), World: w})
	out.Values = map[string]float64{"seconds": p.Site().LastPush().Sub(began).Seconds()}
	if err = errors.Join(err, <-ended); err == nil {
		err = matches(ctx, p, w)
	}
	return out, err
}

// writer is the process that wrote the branch.
func (s *Suite) writer(ctx context.Context, p *peers.Emco) (*program.Emco, error) {
	for _, e := range p.Processes() {
		m, err := e.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		if m["emco_git_commits_total"] > 0 {
			return e, nil
		}
	}
	return nil, errors.New("no process made a commit")
}
