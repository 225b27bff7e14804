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

// hosted measures an installation within a provider's limits: P16. For larger fleets it computes EMCO's
// calls.
func (s *Suite) hosted(ctx context.Context) error {
	for _, clusters := range []int{10, 100, 1000} {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach, Shared: true}
		if clusters > 10 || !s.Full {
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

// host runs a peer's installation on a hosted repository.
func (s *Suite) host(ctx context.Context, m peers.Maker, spec world.Spec) {
	s.turn("P16 "+spec.String()+" "+m.Name, func() { s.hostedBy(ctx, m, spec) })
}

func (s *Suite) hostedBy(ctx context.Context, m peers.Maker, spec world.Spec) {
	t := &peerRun{s: s, maker: m, spec: spec, of: spec.String(), want: world.New(spec)}
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

func (s *Suite) installed(ctx context.Context, t *peerRun) (out figures.Sample) {
	if err := t.prepare(ctx); err != nil {
		return figures.Sample{Failed: "prepare: " + err.Error()}
	}
	site := t.peer.(sitePeer).Site()
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

// reckoned is the computed result of EMCO: 27 calls for each app on each cluster, and two or three for
// its status branch, at 5,000 per hour.
func (s *Suite) reckoned(spec world.Spec) {
	calls := float64(29 * spec.Apps * spec.Clusters)
	s.add(figures.Sample{
		Metric: "P16", Case: spec.String(), Peer: "EMCO, GitHub", Values: map[string]float64{"calls": calls, "virtual": calls / 5000},
		Note: fmt.Sprintf("not run: 29 calls for each of %d pairs, at 5,000 an hour", spec.Apps*spec.Clusters),
	})
}

// hostedCallers are many callers on a branch of a hosted repository: a part of P5.
func (s *Suite) hostedCallers(ctx context.Context) {
	spec := world.Spec{Apps: apps, Clusters: 10, Resources: resources, Bytes: bytesEach}
	for _, n := range []int{8, 32} {
		of := fmt.Sprintf("by GitHub's REST, %d callers, branch of 1,000 files", n)
		for _, m := range shuffled(s, []peers.Maker{peers.WriterGitHub(), peers.EmcoGitHub()}) {
			s.turn("P5 "+of+", "+m.Name, func() {
				sample := s.hostedCalls(ctx, m, spec, n)
				sample.Metric, sample.Case, sample.Peer = "P5", of, m.Name
				s.add(sample)
			})
		}
	}
}

func (s *Suite) hostedCalls(ctx context.Context, m peers.Maker, spec world.Spec, n int) (out figures.Sample) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer os.RemoveAll(dir)
	base := world.New(spec)
	base.Make(world.Change{Kind: world.Install})
	p, ok := m.New(dir).(peers.Hosted)
	if !ok {
		return figures.Sample{Failed: "it is not at a provider"}
	}
	if err := p.Prepare(ctx, spec, base); err != nil {
		return figures.Sample{Failed: "prepare: " + err.Error()}
	}
	c := &callerGroup{put: p.Put, acknowledged: make([]int, n), durations: make([][]float64, n)}
	commits, _ := p.Site().Commits(ctx)
	spent, began := p.Measure(), time.Now()
	err := c.run(ctx)
	took, cost := time.Since(began), spent()
	allowed := time.Duration(float64(cost.Calls) / float64(p.CallsPerHour()) * float64(time.Hour))
	out = c.sample(max(took, cost.Virtual, allowed), err)
	after, _ := p.Site().Commits(ctx)
	delete(out.Values, "p99") // of the calls alone, without waiting
	out.Values["calls"], out.Values["commits"] = float64(cost.Calls), float64(after-commits)
	if out.Note == "" {
		out.Note = "the rate that the limits of a token allow for these calls"
	}
	s.found(ctx, &out, c, p.Site())
	if err := p.Close(ctx); err != nil && out.Failed == "" {
		out.Failed = "afterwards: " + err.Error()
	}
	return out
}
