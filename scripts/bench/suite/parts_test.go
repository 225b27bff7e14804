package suite

import (
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
)

// The parts of the full set, and the services set, measure every metric that is not computed from others.
func TestTheFullSetIsComplete(t *testing.T) {
	t.Parallel()
	var in []string
	for _, p := range FullParts() {
		in = append(in, p.Only...)
	}
	for _, group := range serviceGroups() {
		in = append(in, group.metrics...)
	}
	for _, m := range figures.Metrics() {
		if derived := m.Name == "P4" || m.Name == "P19"; !derived && !slices.Contains(in, m.Name) {
			t.Errorf("no part measures %s", m.Name)
		}
	}
	for _, group := range metricGroups() {
		if len(group.metrics) > 1 && !slices.ContainsFunc(FullParts(), func(p Part) bool { return slices.Equal(p.Only, group.metrics) }) {
			t.Errorf("no part measures %v together", group.metrics)
		}
	}
}

// All parts end within three hours, also if the last cell of each begins at the end of its budget and takes a minute.
func TestTheFullSetTakesThreeHours(t *testing.T) {
	t.Parallel()
	var all time.Duration
	for _, p := range FullParts() {
		all += p.Budget + time.Minute
	}
	if all > Whole {
		t.Errorf("the parts take %s, want at most %s", all, Whole)
	}
}

// The sizes that goals name are among the parts.
func TestThePartsHaveTheSizesOfGoals(t *testing.T) {
	t.Parallel()
	sizes := map[string][]int{}
	for _, p := range FullParts() {
		for _, metric := range p.Only {
			sizes[metric] = append(sizes[metric], p.Sizes...)
		}
	}
	for metric, want := range map[string][]int{"P1": {1000, 10000}, "P2": {1000, 10000}, "P3": {1000, 10000}, "P13": {10000}, "P17": {3, 10, 30}} {
		for _, n := range want {
			if !slices.Contains(sizes[metric], n) {
				t.Errorf("%s is measured with %v clusters, want %d among them", metric, sizes[metric], n)
			}
		}
	}
}

// A value on a large fleet is several commits, which were requested.
func TestALargeChangeIsSeveralRequestedCommits(t *testing.T) {
	t.Parallel()
	for clusters, want := range map[int]int{100: 1, 1000: 1, 1001: 2, 10_000: 10} {
		if got := requested(clusters); got != want {
			t.Errorf("a value on %d clusters is %d commits, want %d", clusters, got, want)
		}
	}
}

// Distances compare samples of one round; Derive replaces what it has computed before.
func TestDistancesAreThoseOfARound(t *testing.T) {
	t.Parallel()
	sample := func(peer string, round int, seconds, cpu float64) figures.Sample {
		return figures.Sample{Metric: "P1", Case: "unshared, 10 clusters x 1 apps x 1", Peer: peer, Round: round, Values: map[string]float64{"seconds": seconds, "cpu": cpu}}
	}
	run := figures.Run{Samples: []figures.Sample{
		sample(figures.Floor, 1, 1, 2), sample(figures.Writer, 1, 1.5, 3), sample(figures.Floor, 2, 2, 4), sample(figures.Writer, 2, 5, 4), sample("kubectl apply", 2, 9, 9), sample(figures.Process, 3, 1, 1),
	}}
	for range 2 {
		Derive(&run)
	}
	var got []float64
	for _, c := range run.Samples {
		if c.Metric == "P19" {
			got = append(got, float64(c.Round), c.Values["times"], c.Values["timesCPU"])
		}
	}
	if want := []float64{1, 1.5, 1.5, 2, 2.5, 1}; !slices.Equal(got, want) {
		t.Errorf("got rounds and ratios %v, want %v", got, want)
	}
}
