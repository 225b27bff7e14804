package suite

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// hosted measures an installation against a provider's limits: P16. EMCO's calls for
// larger fleets are too many to make, and are reckoned.
func (s *Suite) hosted(ctx context.Context) error {
	for _, clusters := range []int{2, 10, 100, 1000} {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach, Shared: true}
		if clusters > 10 || clusters > 2 && !s.Full {
			s.reckoned(spec)
			s.host(ctx, peers.WriterGitHub(), spec)
			continue
		}
		for _, m := range shuffled(s, []peers.Maker{peers.WriterGitHub(), peers.EmcoGitHub()}) {
			s.host(ctx, m, spec)
		}
	}
	return ctx.Err()
}

// host has a peer install on a hosted repository.
func (s *Suite) host(ctx context.Context, m peers.Maker, spec world.Spec) {
	s.turn("P16 "+spec.String()+" "+m.Name, func() { s.hostedBy(ctx, m, spec) })
}

func (s *Suite) hostedBy(ctx context.Context, m peers.Maker, spec world.Spec) {
	t := &tale{s: s, maker: m, spec: spec, want: world.New(spec)}
	defer func() { _ = os.RemoveAll(t.dir) }()
	sample := s.installed(ctx, t)
	sample.Metric, sample.Case, sample.Peer = "P16", spec.String(), m.Name
	if t.peer != nil {
		if err := t.peer.Close(ctx); err != nil && sample.Failed == "" && !sample.Over {
			sample.Failed = "afterwards: " + err.Error()
		}
	}
	s.add(sample)
}

func (s *Suite) installed(ctx context.Context, t *tale) (out figures.Sample) {
	if err := t.prepare(ctx); err != nil {
		return figures.Sample{Failed: "prepare: " + err.Error()}
	}
	site := t.peer.(sited).Site()
	before, _ := site.Commits(ctx)
	capped, cancel := context.WithTimeout(ctx, s.Cap)
	defer cancel()
	change := world.Change{Kind: world.Install}
	began := time.Now()
	cost, err := t.peer.Apply(capped, peers.Turn{Change: change, Pairs: t.want.Make(change), World: t.want})
	if err != nil {
		return outcome(capped, err)
	}
	took := time.Since(began).Seconds()
	after, _ := site.Commits(ctx)
	out.Values = map[string]float64{"virtual": cost.Virtual.Hours(), "calls": float64(cost.Calls), "commits": float64(after - before), "seconds": took}
	if err := t.verify(ctx); err != nil {
		out.Failed = err.Error()
	}
	return out
}

// reckoned is what EMCO's calls come to: 27 for each app on each cluster, and two or three
// for its status branch, at 5,000 an hour.
func (s *Suite) reckoned(spec world.Spec) {
	calls := float64(29 * spec.Apps * spec.Clusters)
	s.add(figures.Sample{
		Metric: "P16", Case: spec.String(), Peer: "EMCO, GitHub", Values: map[string]float64{"calls": calls, "virtual": calls / 5000},
		Note: fmt.Sprintf("not run: 29 calls for each of %d pairs, at 5,000 an hour", spec.Apps*spec.Clusters),
	})
}
