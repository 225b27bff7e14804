package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// Standard sizes.
const (
	apps      = 10
	resources = 10
	bytesEach = 1024
	singles   = 5 // changes for one cluster in a round
)

// enough is the time limit for further changes of one cluster in a round.
const enough = 3 * time.Second

// stories lets each peer install, change a value, and change single clusters: P1, P2, P3.
func (s *Suite) stories(ctx context.Context) error {
	for _, clusters := range s.sizes() {
		for _, shared := range []bool{false, true} {
			spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach, Shared: shared}
			s.tell(ctx, spec, spec.String(), s.makers(ctx, spec))
		}
	}
	for _, clusters := range []int{2, 10} { // EMCO makes 29 calls for each app on each cluster
		if len(s.Sizes) > 0 && !slices.Contains(s.Sizes, clusters) {
			continue
		}
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach}
		s.tell(ctx, spec, "by GitHub's REST, "+spec.String(), []peers.Maker{peers.WriterGitHub(), peers.EmcoGitHub()})
	}
	return ctx.Err()
}

func (s *Suite) tell(ctx context.Context, spec world.Spec, of string, all []peers.Maker) {
	for _, m := range shuffled(s, all) {
		s.turn("P1 "+of+", "+m.Name, func() { s.story(ctx, m, spec, of) })
	}
}

// makers are the peers of a world. Each is left out where it would take minutes to repeat a known
// result.
func (s *Suite) makers(ctx context.Context, spec world.Spec) (out []peers.Maker) {
	full := func(quick, full int) int {
		if s.Full {
			return full
		}
		return quick
	}
	kube := 0
	if s.built(ctx, "kubectl apply", "etcd", "kube", "kwok") {
		kube = full(2, 10)
	}
	for _, m := range []struct {
		maker peers.Maker
		most  int // clusters; shared worlds have as many files for work trees, and add nothing in large fleets
	}{
		{peers.Writer(), spec.Clusters},
		{peers.Floor(), spec.Clusters},
		{peers.Process(s.Bin), spec.Clusters},
		{peers.Changed(), full(100, 1000)},
		{peers.Everything(), 100},
		{peers.PerCluster(), 100},
		{peers.EmcoGit(), 10},
		{peers.KubectlApply(), kube},
	} {
		ours := m.most == spec.Clusters
		if spec.Clusters > m.most || spec.Shared && spec.Clusters > 100 && !ours || m.maker.Only != nil && !m.maker.Only(spec) {
			continue
		}
		out = append(out, m.maker)
	}
	return out
}

// peerRun is one peer's progress in a story.
type peerRun struct {
	s     *Suite
	maker peers.Maker
	spec  world.Spec
	of    string // the case, in tables
	want  *world.World
	peer  peers.Peer
	dir   string
}

// storyPart is a part of a story with one sample.
type storyPart struct {
	metric  string
	changes []world.Change
}

func chapters(spec world.Spec) []storyPart {
	one := storyPart{metric: "P3"}
	others := spec.Clusters - 1 // other than the first, which has an additional app
	n := min(singles, others)
	for i := range n {
		one.changes = append(one.changes, world.Change{Kind: world.One, Cluster: 1 + i*others/n})
	}
	return []storyPart{
		{"P1", []world.Change{{Kind: world.Install}}},
		{"P2", []world.Change{{Kind: world.Value, App: 1}}},
		one,
	}
}

func (s *Suite) story(ctx context.Context, m peers.Maker, spec world.Spec, of string) {
	t := &peerRun{s: s, maker: m, spec: spec, of: of, want: world.New(spec)}
	defer func() { _ = os.RemoveAll(t.dir) }()
	for _, c := range chapters(spec) {
		key := c.metric + of + m.Name
		if s.done[key] || s.over[c.metric+m.Name] {
			t.skip(ctx, c)
			continue
		}
		sample := t.runChapter(ctx, c)
		if sample.Metric, sample.Case, sample.Peer = c.metric, of, m.Name; ctx.Err() != nil {
			return
		}
		s.add(sample)
		s.sides(sample)
		if (sample.Over || sample.Failed != "") && t.peer != nil {
			t.abandon(ctx)
		}
	}
	t.end(ctx)
}

// skip changes the world without the peer, which must start again afterwards.
func (t *peerRun) skip(ctx context.Context, c storyPart) {
	t.end(ctx)
	for _, change := range c.changes {
		t.want.Make(change)
	}
	if sample := (figures.Sample{Metric: c.metric, Case: t.of, Peer: t.maker.Name, Over: true, Note: "not tried: over the limit in a smaller case"}); t.s.over[c.metric+t.maker.Name] && !t.s.done[c.metric+t.of+t.maker.Name] {
		t.s.add(sample)
	}
}

// runChapter runs a chapter of the peer and verifies the result.
func (t *peerRun) runChapter(ctx context.Context, c storyPart) (out figures.Sample) {
	if err := t.prepare(ctx); err != nil {
		return figures.Sample{Failed: "prepare: " + err.Error()}
	}
	before := t.readCounters(ctx)
	capped, cancel := context.WithTimeout(ctx, t.s.Cap)
	defer cancel()
	var took []float64
	var sum peers.Cost
	cpu := peers.CPU()
	for _, change := range c.changes {
		if len(took) > 0 && figures.Sum(took) > enough.Seconds() {
			break
		}
		turn := peers.Turn{Change: change, Pairs: t.want.Make(change), World: t.want}
		began := time.Now()
		cost, err := t.peer.Apply(capped, turn)
		if cost.Took == 0 {
			cost.Took = time.Since(began)
		}
		if err != nil {
			return outcome(capped, err)
		}
		took = append(took, cost.Took.Seconds())
		sum = plus(sum, cost)
	}
	sum.CPU += peers.CPU() - cpu
	out.Values = t.values(ctx, before, sum)
	for name := range out.Values { // the values of one change
		if name != "rss" {
			out.Values[name] /= float64(len(took))
		}
	}
	out.Values["seconds"], out.Values["worst"] = figures.Median(took), figures.Quantile(took, 1)
	if err := t.verify(ctx); err != nil {
		out.Failed = err.Error()
	}
	return out
}

func outcome(ctx context.Context, err error) figures.Sample {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return figures.Sample{Over: true}
	}
	return figures.Sample{Failed: err.Error()}
}

func plus(a, b peers.Cost) peers.Cost {
	a.Calls, a.Virtual, a.Renders, a.CPU = a.Calls+b.Calls, a.Virtual+b.Virtual, a.Renders+b.Renders, a.CPU+b.CPU
	a.Peak = max(a.Peak, b.Peak)
	return a
}

// prepare makes a peer if there is none, on the current world.
func (t *peerRun) prepare(ctx context.Context) error {
	if t.peer != nil {
		return nil
	}
	t.dir = t.s.folder()
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	t.peer = t.maker.New(t.dir)
	base := t.want
	if len(base.All()) == 0 {
		base = nil
	}
	return t.peer.Prepare(ctx, t.spec, base)
}

// serverCounters is the count on the server.
type serverCounters struct {
	commits, pushes int
	size            int64
	state           world.State
}

// sitePeer is a Peer that writes to a site.
type sitePeer interface{ Site() *site.Site }

func (t *peerRun) readCounters(ctx context.Context) (l serverCounters) {
	p, ok := t.peer.(sitePeer)
	if !ok {
		return l
	}
	l.commits, _ = p.Site().Commits(ctx)
	l.size, _ = p.Site().Size()
	if server := p.Site().Server; server != nil {
		_, l.pushes = server.Requests()
	}
	l.state, _ = t.peer.Probe(ctx)
	return l
}

func (t *peerRun) values(ctx context.Context, before serverCounters, sum peers.Cost) map[string]float64 {
	after := t.readCounters(ctx)
	out := map[string]float64{
		"commits": float64(after.commits - before.commits), "pushes": float64(after.pushes - before.pushes),
		"sent": float64(after.size-before.size) / 1024, "files": float64(changed(before.state, after.state)),
	}
	out["cpu"] = sum.CPU.Seconds()
	if sum.Calls > 0 {
		out["calls"], out["virtual"] = float64(sum.Calls), sum.Virtual.Hours()
	}
	if sum.Renders >= 0 {
		out["renders"] = float64(sum.Renders)
	}
	if sum.Peak > 0 {
		out["rss"] = float64(sum.Peak) / (1 << 20)
	}
	return out
}

func changed(a, b world.State) (n int) {
	for path, id := range b {
		if a[path] != id {
			n++
		}
	}
	for path := range a {
		if _, stays := b[path]; !stays {
			n++
		}
	}
	return n
}

// verify compares the result with the desired state.
func (t *peerRun) verify(ctx context.Context) error {
	got, err := t.peer.Probe(ctx)
	if err != nil {
		return err
	}
	want := t.want.Want
	if w, own := t.peer.(peers.Wanter); own {
		want = func() world.State { return w.Want(t.want) }
	}
	return same(got, want())
}

func same(got, want world.State) error {
	if maps.Equal(got, want) {
		return nil
	}
	for path, id := range want {
		if got[path] != id {
			return fmt.Errorf("of %d paths %d are wrong; %s is %q, want %q", len(want), changed(got, want), path, got[path], id)
		}
	}
	return fmt.Errorf("%d paths exist, want %d", len(got), len(want))
}

// end closes the peer; damage found then is a failure of the whole story.
func (t *peerRun) end(ctx context.Context) {
	if t.peer == nil {
		return
	}
	if err := t.peer.Close(ctx); err != nil {
		t.s.add(figures.Sample{Metric: "P1", Case: t.of, Peer: t.maker.Name, Failed: "afterwards: " + err.Error()})
	}
	t.peer = nil
	_ = os.RemoveAll(t.dir)
}

// abandon closes a peer that was stopped in the middle.
func (t *peerRun) abandon(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel() // without checks
	_ = t.peer.Close(ctx)
	t.peer = nil
	_ = os.RemoveAll(t.dir)
}

// sides makes samples of other metrics from one of ours.
func (s *Suite) sides(of figures.Sample) {
	if s.Services || of.Peer != figures.Process || of.Over || of.Failed != "" {
		return
	}
	one := func(metric string, values map[string]float64) {
		s.add(figures.Sample{Metric: metric, Case: of.Case, Peer: of.Peer, Values: values})
	}
	of.Case = map[string]string{"P1": "instantiate, ", "P2": "one value, ", "P3": "labels, "}[of.Metric] + of.Case
	one("P12", map[string]float64{"renders": of.Values["renders"]})
	if of.Metric == "P3" {
		of.Case = of.Case[len("labels, "):]
		one("P9", map[string]float64{"rss": of.Values["rss"]})
	}
}
