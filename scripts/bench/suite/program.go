package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// program measures costs of the program emco other than writing: its store, its API, and a restart:
// P11, P10, P13. Alone, P13 is the restart of a large fleet, with as many manifests as in P1.
func (s *Suite) program(ctx context.Context) error {
	sizes, files := []int{100, 1000}, 20
	if !s.wanted("P10") && !s.wanted("P11") {
		sizes, files = []int{restarted}, resources
	}
	if len(s.Sizes) > 0 {
		sizes = s.Sizes
	}
	for _, clusters := range sizes {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: files, Bytes: bytesEach, Shared: true}
		s.turn("P13 "+spec.String(), func() { s.programOf(ctx, spec) })
	}
	return ctx.Err()
}

// restarted is the number of clusters of a large fleet: with ten apps it has 100,000 pairs.
const restarted = 10_000

func (s *Suite) programOf(ctx context.Context, spec world.Spec) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.fail(spec, err)
		return
	}
	defer os.RemoveAll(dir)
	p, w := peers.NewEmco(s.Bin, dir, peers.Setup{}), world.New(spec)
	defer func() { _ = p.Close(ctx) }()
	if err := p.Prepare(ctx, spec, nil); err != nil {
		s.fail(spec, fmt.Errorf("prepare: %w", err))
		return
	}
	if err := s.storeCalls(ctx, p, w); err != nil {
		s.fail(spec, err)
		return
	}
	if s.wanted("P10") {
		s.latency(ctx, p, spec.Clusters)
	}
	s.add(s.restart(ctx, p, w, figures.Process))
}

// fail records why a program was not measured, under the first of its metrics that is measured.
func (s *Suite) fail(spec world.Spec, err error) {
	of := []string{"P11", "P10", "P13"}
	s.add(figures.Sample{Metric: of[slices.IndexFunc(of, s.wanted)], Case: spec.String(), Peer: figures.Process, Failed: err.Error()})
}

// storeCalls counts requests to etcd of an instantiation.
func (s *Suite) storeCalls(ctx context.Context, p *peers.Emco, w *world.World) error {
	before, err := p.Program.Metrics(ctx)
	if err != nil {
		return err
	}
	pairs := w.Make(world.Change{Kind: world.Install})
	cost, err := p.Apply(ctx, peers.Turn{Change: world.Change{Kind: world.Install}, Pairs: pairs, World: w})
	if err == nil {
		err = matches(ctx, p, w)
	}
	after, merr := p.Program.Metrics(ctx)
	if err = errors.Join(err, merr); err != nil {
		return err
	}
	rise := func(name string) float64 { return after[name] - before[name] }
	s.add(figures.Sample{Metric: "P11", Case: w.Spec.String(), Peer: figures.Process, Values: map[string]float64{
		"calls": rise("emco_etcd_operations_total"), "bytes": rise(`emco_etcd_bytes_total{kind="txn"}`) / 1024, "seconds": cost.Took.Seconds(),
	}})
	s.add(figures.Sample{
		Metric: "P11", Case: w.Spec.String(), Peer: "EMCO", Values: map[string]float64{"calls": emcoCalls(w.Spec)},
		Note: "not run: its own code, run once on a store that counts, gave 82 + 8A + 13AC + 27ACR",
	})
	return nil
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

// restart kills all processes and requests a change as soon as they are ready again.
func (s *Suite) restart(ctx context.Context, p *peers.Emco, w *world.World, peer string) figures.Sample {
	out := figures.Sample{Metric: "P13", Case: w.Spec.String(), Peer: peer}
	commits, err := p.Site().Commits(ctx)
	if err != nil {
		out.Failed = err.Error()
		return out
	}
	for _, e := range p.Processes() {
		e.Kill()
	}
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
	out.Values = map[string]float64{"seconds": ready.Seconds(), "durable": durable.Seconds(), "extra": float64(after - commits - requested(w.Spec.Clusters)), "rss": p.Peak()}
	return out
}

// requested is the number of commits of a value on all clusters: a commit takes a thousand of them.
func requested(clusters int) int { return (clusters + 999) / 1000 }
