package placement_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// countingFilter counts how often it is asked.
type countingFilter struct{ asked int }

func (c *countingFilter) Admit(_ context.Context, _ placement.Request, at placement.Cluster) (placement.Verdict, error) {
	c.asked++
	return placement.Verdict{Cluster: at.Key(), Admitted: at.Name != "c", Reason: "a test"}, nil
}

// A decision is made again when the clusters that the intent selects have changed, or the
// filter. Changes elsewhere do not matter, nor does the app.
func TestTheCacheDecidesAgainOnlyAfterRelevantChanges(t *testing.T) {
	t.Parallel()
	var m placement.DecisionCache
	fleet, filter := inventory(), &countingFilter{}
	east := intentDoc{AllOf: []termDoc{must(label("east")), oneOf(name("b"), name("d"))}}
	ask := func(app string, i intentDoc, want string, asked int) {
		t.Helper()
		before := filter.asked
		d, err := m.Decide(t.Context(), placement.Request{App: app, Intent: i, Inventory: fleet}, filter)
		got := ""
		for _, c := range d.Clusters {
			got += string(c) + " "
		}
		if err != nil {
			got = "refused"
		}
		if got != want || filter.asked-before != asked {
			t.Errorf("%s: %q, the filter was asked %d times; want %q and %d", app, got, filter.asked-before, want, asked)
		}
	}
	ask("web", east, "p+a p+b ", 3)
	ask("db", east, "p+a p+b ", 0)
	ask("none", intentDoc{AllOf: []termDoc{must(name("c"))}}, "refused", 1)
	ask("none", intentDoc{AllOf: []termDoc{must(name("c"))}}, "refused", 0)
	fleet[3].Labels = []string{"south"} // of c, which no intent selects by label
	ask("web", east, "p+a p+b ", 0)
	fleet[0].Labels = []string{"east"}
	ask("web", east, "p+a p+b p+d ", 3)
	filter = &countingFilter{}
	ask("web", east, "p+a p+b p+d ", 3)
	both := intentDoc{AllOf: []termDoc{must(label("east", "big"))}}
	ask("web", both, "p+b ", 1)
	fleet[2].Labels = []string{"east", "big"} // of a
	ask("web", both, "p+a p+b ", 2)
	fleet = fleet[:3]
	ask("none", intentDoc{AllOf: []termDoc{must(name("c"))}}, "refused", 0)
}

// cluster "b" is deregistered after a decision for it was made.
func TestDecisionCacheNeverPlacesOnADeregisteredCluster(t *testing.T) {
	t.Parallel()
	var cache placement.DecisionCache
	fleet, filter := inventory(), &countingFilter{}
	req := placement.Request{App: "web", Intent: intentDoc{AllOf: []termDoc{must(name("b"))}}, Inventory: fleet}
	if d, err := cache.Decide(t.Context(), req, filter); err != nil || len(d.Clusters) != 1 {
		t.Fatalf("with the cluster: %+v, %v", d, err)
	}
	var rest labelledInventory
	for _, c := range fleet {
		if c.Name != "b" {
			rest = append(rest, c)
		}
	}
	req.Inventory = rest
	if d, err := cache.Decide(t.Context(), req, filter); !errs.Is(err, errs.Invalid) {
		t.Errorf("without the cluster: %+v, %v, want Invalid", d, err)
	}
}

// failingOnce fails the first time it is asked.
type failingOnce struct{ asked int }

func (f *failingOnce) Admit(_ context.Context, _ placement.Request, at placement.Cluster) (placement.Verdict, error) {
	if f.asked++; f.asked == 1 {
		return placement.Verdict{}, errs.New(errs.Unavailable, "the filter is down")
	}
	return placement.Verdict{Cluster: at.Key(), Admitted: true, Reason: "a test"}, nil
}

func TestDecisionCacheForgetsTheOutageOfAFilter(t *testing.T) {
	t.Parallel()
	var cache placement.DecisionCache
	filter := &failingOnce{}
	req := placement.Request{App: "web", Intent: intentDoc{AllOf: []termDoc{must(name("a"))}}, Inventory: inventory()}
	if _, err := cache.Decide(t.Context(), req, filter); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("during the outage: %v, want Unavailable", err)
	}
	if d, err := cache.Decide(t.Context(), req, filter); err != nil || len(d.Clusters) != 1 {
		t.Errorf("after the outage: %+v, %v, want one cluster", d, err)
	}
}

// largeFleet has many clusters, which carry all labels.
type largeFleet []v2.ClusterKey

func (f largeFleet) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	return placement.Cluster{Provider: "p", Name: key.Cluster()}, true
}

func (f largeFleet) Labelled(string, string) []v2.ClusterKey { return f }

// The cache holds decisions about 100,000 clusters at most: old ones must be dropped.
func TestDecisionCacheIsBounded(t *testing.T) {
	t.Parallel()
	fleet := make(largeFleet, 30_000)
	for i := range fleet {
		fleet[i] = v2.NewClusterKey("p", fmt.Sprintf("%06d", i))
	}
	var cache placement.DecisionCache
	filter := &countingFilter{}
	decide := func(l string) (asked int) {
		before := filter.asked
		req := placement.Request{App: "web", Intent: intentDoc{AnyOf: []selectorDoc{label(l)}}, Inventory: fleet}
		if _, err := cache.Decide(t.Context(), req, filter); err != nil {
			t.Fatal(err)
		}
		return filter.asked - before
	}
	decide("first")
	if asked := decide("first"); asked != 0 {
		t.Errorf("a known decision asks the filter %d times", asked)
	}
	for i := range 4 {
		decide(fmt.Sprint("label", i))
	}
	if asked := decide("first"); asked == 0 {
		t.Error("after decisions about 150,000 clusters the first one is still there")
	}
}
