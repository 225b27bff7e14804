package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
)

// by compares clusters by a fact that is a number.
func by(fact string, weight float64, lowest bool) placement.Scorer {
	return placement.Scorer{Name: fact, Weight: weight, Lowest: lowest, Value: func(_ placement.Cluster, facts map[string]string) (float64, bool) {
		n, err := strconv.ParseFloat(facts[fact], 64)
		return n, err == nil
	}}
}

func property(fact string) placement.Property {
	return func(_ placement.Cluster, facts map[string]string) (string, bool) { v, ok := facts[fact]; return v, ok }
}

type factTable map[v2.ClusterKey]map[string]string

func (f factTable) of(_ context.Context, c v2.ClusterKey) (map[string]string, error) {
	return f[c], nil
}

var fourClusters = factTable{
	"p+a": {"cost": "4", "carbon": "100", "zone": "north"}, "p+b": {"cost": "1", "carbon": "400", "zone": "north"},
	"p+c": {"cost": "2", "carbon": "300", "zone": "south"}, "p+d": {"zone": "south"},
}

func fourOf(p placement.Preference) placement.Request {
	return placement.Request{
		App: "web", Inventory: inventory(), Preference: p, Facts: fourClusters.of,
		Intent: intentDoc{AnyOf: []selectorDoc{name("a"), name("b"), name("c"), name("d")}},
	}
}

func TestPreferredClustersAreChosen(t *testing.T) {
	t.Parallel()
	cost, carbon := by("cost", 1, true), by("carbon", 1, true)
	heavy := by("carbon", 3, true)
	for name, tt := range map[string]struct {
		prefer placement.Preference
		want   string
	}{
		"the cheapest":               {placement.Preference{Scorers: []placement.Scorer{cost}}, "p+b"},
		"the dearest":                {placement.Preference{Scorers: []placement.Scorer{by("cost", 1, false)}}, "p+a"},
		"two of them":                {placement.Preference{Count: 2, Scorers: []placement.Scorer{cost}}, "p+b p+c"},
		"without a criterion":        {placement.Preference{Count: 3}, "p+a p+b p+c"},
		"a tie is resolved by name":  {placement.Preference{Scorers: []placement.Scorer{cost, carbon}}, "p+a"},
		"weights decide":             {placement.Preference{Scorers: []placement.Scorer{by("cost", 3, true), carbon}}, "p+b"},
		"other weights":              {placement.Preference{Scorers: []placement.Scorer{cost, heavy}}, "p+a"},
		"one of each zone":           {placement.Preference{Count: 2, SpreadBy: property("zone")}, "p+a p+c"},
		"the best of each zone":      {placement.Preference{Count: 2, SpreadBy: property("zone"), Scorers: []placement.Scorer{cost}}, "p+b p+c"},
		"zones in turn":              {placement.Preference{Count: 3, SpreadBy: property("zone"), Scorers: []placement.Scorer{cost}}, "p+a p+b p+c"},
		"an unknown fact comes last": {placement.Preference{Count: 4, Scorers: []placement.Scorer{cost}}, "p+a p+b p+c p+d"},
	} {
		d, err := placement.Decide(t.Context(), fourOf(tt.prefer), []placement.Filter{logicalcloud.New("lc", everywhere)})
		if got := strings.Trim(fmt.Sprint(d.Clusters), "[]"); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
		}
	}
}

func TestPreferencesSayWhy(t *testing.T) {
	t.Parallel()
	req := fourOf(placement.Preference{Count: 2, SpreadBy: property("zone"), Scorers: []placement.Scorer{by("cost", 1, true)}})
	req.Intent.AllOf = []termDoc{must(name("b"))}
	d, err := placement.Decide(t.Context(), req, []placement.Filter{logicalcloud.New("lc", []v2.ClusterKey{"p+b", "p+c", "p+d"})})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Clusters {
		got = append(got, fmt.Sprintf("%s %.2f %s", c, d.Scores[c], d.Why[c]))
	}
	for _, v := range slices.Concat(d.Refused, d.Spared) {
		got = append(got, fmt.Sprintf("not %s %.2f %s", v.Cluster, d.Scores[v.Cluster], v.Reason))
	}
	want := []string{
		"p+b 1.00 allOf: by name", "p+c 0.00 anyOf: number 2 of 3 (score 0.000: cost 2; in south)",
		"not p+a 0.00 is not in logical cloud lc; add a cluster reference to use it",
		"not p+d 0.00 anyOf: number 3 of 3 (score 0.000: cost unknown; in south), and 2 are wanted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTooFewClustersAreRefused(t *testing.T) {
	t.Parallel()
	_, err := placement.Decide(t.Context(), fourOf(placement.Preference{Count: 3}), []placement.Filter{logicalcloud.New("lc", []v2.ClusterKey{"p+a", "p+b"})})
	want := "an anyOf wants 3 clusters, and 2 are left: p+c (is not in logical cloud lc; add a cluster reference to use it), p+d ("
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("Decide = %v, want %s", err, want)
	}
}

func TestFactsThatCannotBeReadEndThePlacement(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is broken")
	req := fourOf(placement.Preference{Count: 2})
	req.Facts = func(context.Context, v2.ClusterKey) (map[string]string, error) { return nil, broken }
	if _, err := placement.Decide(t.Context(), req, nil); !errors.Is(err, broken) {
		t.Errorf("Decide = %v", err)
	}
}

// Unchanged documents never move an app, in whatever order clusters are named; and a cluster that
// is worse than all others changes nothing.
func TestPreferredClustersStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "clusters")
		facts, fleet := factTable{}, labelledInventory{}
		var selectors []selectorDoc
		for i := range n {
			c := fmt.Sprintf("c%02d", i)
			facts[v2.NewClusterKey("p", c)] = map[string]string{"cost": strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "cost")), "zone": strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "zone"))}
			fleet, selectors = append(fleet, placement.Cluster{Provider: "p", Name: c}), append(selectors, name(c))
		}
		prefer := placement.Preference{Count: rapid.IntRange(1, n).Draw(t, "count"), Scorers: []placement.Scorer{by("cost", 1, true)}}
		if rapid.Bool().Draw(t, "spread") {
			prefer.SpreadBy = property("zone")
		}
		decide := func(selectors []selectorDoc) []v2.ClusterKey {
			d, err := placement.Decide(t.Context(), placement.Request{App: "web", Intent: intentDoc{AnyOf: selectors}, Inventory: fleet, Preference: prefer, Facts: facts.of}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return d.Clusters
		}
		first := decide(selectors)
		if len(first) != prefer.Count {
			t.Fatalf("%d clusters, want %d", len(first), prefer.Count)
		}
		if again := decide(rapid.Permutation(selectors).Draw(t, "order")); !slices.Equal(first, again) {
			t.Fatalf("another order moves the app from %v to %v", first, again)
		}
		fleet = append(fleet, placement.Cluster{Provider: "p", Name: "z"})
		facts["p+z"] = map[string]string{"cost": "4", "zone": "0"}
		if prefer.SpreadBy == nil {
			if again := decide(append(selectors, name("z"))); !slices.Equal(first, again) {
				t.Fatalf("a worse cluster moves the app from %v to %v", first, again)
			}
		}
	})
}

// largeRequest chooses 100 of n clusters by three criteria, and counts reads of facts.
func largeRequest(n int, reads *int) placement.Request {
	fleet := make(largeFleet, n)
	facts := make(factTable, n)
	for i := range fleet {
		fleet[i] = v2.NewClusterKey("p", fmt.Sprintf("%06d", i))
		facts[fleet[i]] = map[string]string{"cost": strconv.Itoa(i * 7919 % 1000), "carbon": strconv.Itoa(i * 104729 % 500), "load": strconv.Itoa(i % 97), "zone": strconv.Itoa(i % 10)}
	}
	return placement.Request{
		App: "web", Inventory: fleet, Intent: intentDoc{AnyOf: []selectorDoc{label("all")}},
		Preference: placement.Preference{Count: 100, SpreadBy: property("zone"), Scorers: []placement.Scorer{by("cost", 2, true), by("carbon", 1, true), by("load", 1, true)}},
		Facts: func(ctx context.Context, c v2.ClusterKey) (map[string]string, error) {
			*reads++
			return facts.of(ctx, c)
		},
	}
}

// The work of a placement by score grows with the clusters, not with their square: it reads the facts
// of each cluster once.
func TestEachClusterIsScoredOnce(t *testing.T) {
	t.Parallel()
	reads := 0
	d, err := placement.Decide(t.Context(), largeRequest(10_000, &reads), nil)
	if err != nil || len(d.Clusters) != 100 || len(d.Spared) != 9_900 || len(d.Scores) != 10_000 || reads != 10_000 {
		t.Errorf("%d chosen, %d spared, %d scores, %d reads, %v", len(d.Clusters), len(d.Spared), len(d.Scores), reads, err)
	}
}

func BenchmarkPlacementByScore(b *testing.B) {
	reads := 0
	req := largeRequest(10_000, &reads)
	for b.Loop() {
		if _, err := placement.Decide(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}
