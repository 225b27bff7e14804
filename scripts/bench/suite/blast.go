package suite

import (
	"context"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// blast measures the cost of one broken part for the others: P14. One app of ten has a chart that does
// not render.
func (s *Suite) blast(ctx context.Context) error {
	spec := world.Spec{Apps: apps, Clusters: 100, Resources: resources, Bytes: bytesEach, Shared: true}
	for _, broken := range shuffled(s, []bool{false, true}) {
		peer := "clean"
		if broken {
			peer = "one chart does not render"
		}
		s.turn("P14 "+peer, func() {
			sample := s.blasted(ctx, spec, broken)
			sample.Metric, sample.Case, sample.Peer = "P14", spec.String(), peer
			s.add(sample)
		})
	}
	return ctx.Err()
}

func (s *Suite) blasted(ctx context.Context, spec world.Spec, broken bool) (out figures.Sample) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer os.RemoveAll(dir)
	p := peers.NewEmco(s.Bin, dir, peers.Setup{})
	defer func() { _ = p.Close(ctx) }()
	if broken {
		p.Break = world.App(0)
	}
	if err := p.Prepare(ctx, spec, nil); err != nil {
		return figures.Sample{Failed: "prepare: " + err.Error()}
	}
	began := time.Now()
	if err := p.Fleet.Act(ctx, p.Deployment.Path(), "instantiate"); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	w := world.New(spec)
	w.Make(world.Change{Kind: world.Install})
	want := p.Want(w)
	maps.DeleteFunc(want, func(path, _ string) bool { return broken && strings.Contains(path, "/"+p.Break+"/") })
	err := arrives(ctx, p, want)
	pairs := float64(len(want)-1) / resources // except for the canary's
	out.Values = map[string]float64{"seconds": p.Site().LastPush().Sub(began).Seconds(), "wanted": pairs}
	if out.Values["arrived"] = pairs; err != nil {
		out.Failed = err.Error()
	}
	return out
}

// arrives waits until the branch contains exactly the desired state.
func arrives(ctx context.Context, p *peers.Emco, want world.State) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return program.Poll(ctx, 100*time.Millisecond, func() error {
		got, err := p.Probe(ctx)
		if err == nil {
			err = same(got, want)
		}
		return err
	})
}
