package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/pace"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	converged  = 10 // measured changes
	edgePeriod = time.Second
)

// edge measures the way from Git to the last of some real clusters with real Flux: P17. It belongs to the full set.
func (s *Suite) edge(ctx context.Context) error {
	if !s.Full && !slices.Contains(s.Only, "P17") || !s.built(ctx, "P17", "etcd", "kube", "kwok", "flux") {
		return nil
	}
	sizes := []int{1, 3}
	if len(s.Sizes) > 0 {
		sizes = s.Sizes
	}
	for _, clusters := range sizes {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach, Shared: true}
		of := fmt.Sprintf("%d clusters, %d apps x %d, Flux looks every %s", clusters, apps, resources, edgePeriod)
		for _, m := range shuffled(s, []peers.EdgeMaker{peers.EmcoEdge(s.Bin), peers.HandEdge()}) {
			s.turn("P17 "+of+", "+m.Name, func() {
				sample := s.converge(ctx, m, spec)
				sample.Metric, sample.Peer, sample.Case = "P17", m.Name, of
				s.add(sample)
			})
		}
	}
	return ctx.Err()
}

// converge changes a value repeatedly, and waits each time until the cluster has it.
func (s *Suite) converge(ctx context.Context, m peers.EdgeMaker, spec world.Spec) (out figures.Sample) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	e := m.New(dir)
	w := world.New(spec)
	var took []float64
	err := e.Prepare(ctx, spec, edgePeriod)
	for i := 0; i <= converged && err == nil; i++ {
		change := world.Change{Kind: world.Value, App: i % apps}
		if i == 0 {
			change.Kind = world.Install
		}
		pairs := w.Make(change)
		var live time.Duration
		live, err = e.Converge(ctx, peers.Turn{Change: change, Pairs: pairs, World: w})
		took = append(took, live.Seconds())
		pace.Until(ctx, time.Now().Add(time.Duration(s.draw.Int64N(int64(edgePeriod))))) // otherwise all changes come at the same phase of Flux's period
	}
	if err = errors.Join(err, e.Close(context.WithoutCancel(ctx))); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	out.Values = map[string]float64{"install": took[0], "seconds": figures.Median(took[1:]), "worst": figures.Quantile(took[1:], 1)}
	return out
}
