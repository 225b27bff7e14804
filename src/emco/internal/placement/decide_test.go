package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
)

type (
	intentDoc   = placement.Intent
	termDoc     = placement.Term
	selectorDoc = placement.Selector
)

// labelledInventory is an inventory in any order.
type labelledInventory []placement.Cluster

func (l labelledInventory) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	i := slices.IndexFunc(l, func(c placement.Cluster) bool { return c.Key() == key })
	if i < 0 {
		return placement.Cluster{}, false
	}
	return l[i], true
}

func (l labelledInventory) Labelled(provider, label string) (keys []v2.ClusterKey) {
	for _, c := range l {
		if c.Provider == provider && slices.Contains(c.Labels, label) {
			keys = append(keys, c.Key())
		}
	}
	slices.Sort(keys)
	return keys
}

// inventory has four clusters of provider p, two of them east, and one of provider q.
func inventory() labelledInventory {
	return labelledInventory{
		{Provider: "p", Name: "d"},
		{Provider: "p", Name: "b", Labels: []string{"east", "big"}},
		{Provider: "p", Name: "a", Labels: []string{"east"}},
		{Provider: "p", Name: "c", Labels: []string{"west"}},
		{Provider: "q", Name: "a", Labels: []string{"east"}},
	}
}

func name(n string) selectorDoc       { return selectorDoc{Provider: "p", Cluster: n} }
func label(all ...string) selectorDoc { return selectorDoc{Provider: "p", Labels: all} }
func must(s selectorDoc) termDoc      { return termDoc{Selector: s} }
func oneOf(s ...selectorDoc) termDoc {
	return termDoc{AnyOf: s}
}

// everywhere is a logical cloud of all clusters.
var everywhere = []v2.ClusterKey{"p+a", "p+b", "p+c", "p+d", "q+a"}

func decide(t context.Context, i intentDoc, members []v2.ClusterKey) (placement.Decision, error) {
	return placement.Decide(t, placement.Request{App: "web", Intent: i, Inventory: inventory()}, []placement.Filter{logicalcloud.New("lc", members)})
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		intent  intentDoc
		members []v2.ClusterKey
		want    string
	}{
		{"a cluster by name", intentDoc{AllOf: []termDoc{must(name("a"))}}, everywhere, "p+a"},
		{"clusters by label, of one provider", intentDoc{AllOf: []termDoc{must(label("east"))}}, everywhere, "p+a p+b"},
		{"a cluster named twice counts once", intentDoc{AllOf: []termDoc{must(name("a")), must(label("east")), must(name("a"))}}, everywhere, "p+a p+b"},
		{"of alternatives the first by name", intentDoc{AnyOf: []selectorDoc{name("c"), name("b")}}, everywhere, "p+b"},
		{"of alternatives by label the first by name", intentDoc{AnyOf: []selectorDoc{label("east")}}, everywhere, "p+a"},
		{"a mandatory cluster stays though an alternative precedes it", intentDoc{AllOf: []termDoc{must(name("b"))}, AnyOf: []selectorDoc{name("a"), name("b")}}, everywhere, "p+b"},
		{"alternatives and a mandatory cluster", intentDoc{AllOf: []termDoc{must(name("d")), oneOf(name("c"), name("b"))}}, everywhere, "p+b p+d"},
		{"two groups that share a cluster", intentDoc{AllOf: []termDoc{oneOf(name("b"), name("c"))}, AnyOf: []selectorDoc{name("a"), name("b")}}, everywhere, "p+b"},
		{"an alternative outside of the cloud is passed over", intentDoc{AnyOf: []selectorDoc{name("a"), name("b")}}, []v2.ClusterKey{"p+b"}, "p+b, refused p+a: is not in logical cloud lc; add a cluster reference to use it"},
		{"alternatives outside of the cloud are reported even if none is needed", intentDoc{AllOf: []termDoc{must(name("b"))}, AnyOf: []selectorDoc{name("a"), name("b")}}, []v2.ClusterKey{"p+b"}, "p+b, refused p+a: is not in logical cloud lc; add a cluster reference to use it"},
		{"a mandatory cluster outside of the cloud", intentDoc{AllOf: []termDoc{must(label("east"))}}, []v2.ClusterKey{"p+b"}, "The specified Logical Cloud doesn't provide the mandatory clusters: p+a; add cluster references to the logical cloud, or take the label from these clusters"},
		{"all alternatives outside of the cloud", intentDoc{AnyOf: []selectorDoc{name("a"), name("c")}}, []v2.ClusterKey{"p+b"}, "No compatible clusters have been provided to the Deployment Intent Group: no candidate of an anyOf is left: p+a (is not in logical cloud lc; add a cluster reference to use it), p+c (is not in logical cloud lc; add a cluster reference to use it)"},
		{"an empty intent", intentDoc{}, everywhere, "No compatible clusters have been provided to the Deployment Intent Group: no placement intent names clusters for the app"},
		{"an unknown cluster", intentDoc{AllOf: []termDoc{must(name("x"))}}, everywhere, "cluster p+x is not registered"},
		{"a label that no cluster has", intentDoc{AnyOf: []selectorDoc{name("a"), label("north")}}, everywhere, "no cluster of provider p has the label north"},
		{"clusters with all of several labels", intentDoc{AllOf: []termDoc{must(label("east", "big"))}}, everywhere, "p+b"},
		{"of alternatives by several labels the first by name", intentDoc{AnyOf: []selectorDoc{label("east", "big"), label("west")}}, everywhere, "p+b"},
		{"labels that no cluster has together", intentDoc{AllOf: []termDoc{must(label("east", "west"))}}, everywhere, "no cluster of provider p has the labels east and west"},
		{"an empty term", intentDoc{AllOf: []termDoc{{}}}, everywhere, "Missing clusterProvider in an intent"},
		{"a selector without provider", intentDoc{AllOf: []termDoc{must(selectorDoc{Cluster: "a"})}}, everywhere, "Missing clusterProvider in an intent: cluster a"},
		{"a selector without cluster", intentDoc{AnyOf: []selectorDoc{{Provider: "p"}}}, everywhere, "Missing cluster or clusterLabel: clusterProvider p"},
		{"a selector with cluster and label", intentDoc{AllOf: []termDoc{oneOf(selectorDoc{Provider: "p", Cluster: "a", Labels: []string{"east"}})}}, everywhere, "Only one of cluster name or cluster label allowed: clusterProvider p, cluster a, clusterLabel east"},
		{"a term with selector and alternatives", intentDoc{AllOf: []termDoc{{Selector: name("a"), AnyOf: []selectorDoc{name("b")}}}}, everywhere, "allOf element 1 holds both a selector and anyOf; use one element for each"},
		{"all mistakes at once", intentDoc{AllOf: []termDoc{must(name("x")), {}}, AnyOf: []selectorDoc{label("north")}}, everywhere, "cluster p+x is not registered; Missing clusterProvider in an intent; no cluster of provider p has the label north"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := decide(t.Context(), tt.intent, tt.members)
			got := strings.Trim(fmt.Sprint(d.Clusters), "[]")
			for _, v := range d.Refused {
				got += ", refused " + string(v.Cluster) + ": " + v.Reason
			}
			if err != nil {
				got = err.Error()
				if !errs.Is(err, errs.Invalid) {
					t.Errorf("the error is %v", errs.KindOf(err))
				}
			}
			if got != tt.want {
				t.Errorf("Decide gives %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDecisionsSayWhy(t *testing.T) {
	t.Parallel()
	i := intentDoc{AllOf: []termDoc{must(label("east")), must(name("a")), oneOf(name("d"), label("west"))}, AnyOf: []selectorDoc{name("b"), {Provider: "q", Cluster: "a"}}}
	d, err := decide(t.Context(), i, []v2.ClusterKey{"p+a", "p+b", "p+c", "p+d", "q+a"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Clusters {
		got = append(got, string(c)+" "+d.Why[c])
	}
	for _, v := range d.Spared {
		got = append(got, string(v.Cluster)+" "+v.Reason)
	}
	want := []string{
		"p+a allOf: label east", "p+b allOf: label east", "p+c anyOf: the first admitted of 2 by name",
		"p+d anyOf takes p+c instead", "q+a anyOf takes p+b instead",
	}
	if !slices.Equal(got, want) || len(d.Why) != len(d.Clusters) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestErrorsNameAFewClustersOnly(t *testing.T) {
	t.Parallel()
	var all labelledInventory
	for i := range 1000 {
		all = append(all, placement.Cluster{Provider: "p", Name: fmt.Sprintf("c%03d", i), Labels: []string{"east"}})
	}
	req := placement.Request{Intent: intentDoc{AllOf: []termDoc{must(label("east"))}}, Inventory: all}
	_, err := placement.Decide(t.Context(), req, []placement.Filter{logicalcloud.New("lc", nil)})
	if err == nil || !strings.HasSuffix(err.Error(), "p+c019, and 980 more; add cluster references to the logical cloud, or take the label from these clusters") {
		t.Errorf("Decide = %v", err)
	}
}

// filterFunc makes a function a filter.
type filterFunc func(c placement.Cluster) (placement.Verdict, error)

func (f filterFunc) Admit(_ context.Context, _ placement.Request, c placement.Cluster) (placement.Verdict, error) {
	return f(c)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	small := filterFunc(func(c placement.Cluster) (placement.Verdict, error) {
		return placement.Verdict{Admitted: c.Name != "a", Reason: "is too small"}, nil
	})
	broken := filterFunc(func(placement.Cluster) (placement.Verdict, error) {
		return placement.Verdict{}, errs.New(errs.Unavailable, "no answer")
	})
	mute := filterFunc(func(placement.Cluster) (placement.Verdict, error) { return placement.Verdict{Admitted: true}, nil })
	for _, tt := range []struct {
		name    string
		filters []placement.Filter
		kind    errs.Kind
		want    string
	}{
		{"a filter without words of its own", []placement.Filter{small}, errs.Invalid, "mandatory clusters are refused: p+a (is too small)"},
		{"a cluster that one refuses is not shown to the next", []placement.Filter{small, logicalcloud.New("lc", nil)}, errs.Invalid, "mandatory clusters are refused: p+a (is too small)"},
		{"the first filter that objects is quoted", []placement.Filter{logicalcloud.New("lc", nil), small}, errs.Invalid, "The specified Logical Cloud doesn't provide the mandatory clusters: p+a, p+b; add cluster references to the logical cloud, or take the label from these clusters"},
		{"a filter that cannot judge ends the decision", []placement.Filter{broken}, errs.Unavailable, "judge cluster p+a for app web: no answer"},
		{"a verdict needs a reason", []placement.Filter{mute}, errs.Internal, "without a reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := placement.Request{App: "web", Intent: intentDoc{AllOf: []termDoc{must(name("a")), must(name("b"))}}, Inventory: inventory()}
			_, err := placement.Decide(t.Context(), req, tt.filters)
			if !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decide = %v, want %v with %q", err, tt.kind, tt.want)
			}
		})
	}
}

// genSelectors draws selectors that match the inventory, or nothing.
func genSelectors(least int) *rapid.Generator[[]selectorDoc] {
	return rapid.SliceOfN(rapid.SampledFrom([]selectorDoc{
		name("a"), name("b"), name("c"), name("d"), label("east"), label("west"), label("big"), label("east", "big"), {Provider: "q", Cluster: "a"}, {Provider: "q", Labels: []string{"east"}},
	}), least, 4)
}

func genIntent() *rapid.Generator[intentDoc] {
	return rapid.Custom(func(t *rapid.T) intentDoc {
		var i intentDoc
		for range rapid.IntRange(0, 4).Draw(t, "terms") {
			if rapid.Bool().Draw(t, "nested") {
				i.AllOf = append(i.AllOf, termDoc{AnyOf: genSelectors(1).Draw(t, "alternatives")})
			} else {
				i.AllOf = append(i.AllOf, must(genSelectors(1).Draw(t, "mandatory")[0]))
			}
		}
		i.AnyOf = genSelectors(0).Draw(t, "anyOf")
		return i
	})
}

// matched returns the clusters that selectors match. It does not use Decide.
func matched(selectors ...selectorDoc) []v2.ClusterKey {
	var keys []v2.ClusterKey
	for _, c := range inventory() {
		hit := func(s selectorDoc) bool {
			return s.Provider == c.Provider && (s.Cluster == c.Name || len(s.Labels) > 0 && !slices.ContainsFunc(s.Labels, func(l string) bool { return !slices.Contains(c.Labels, l) }))
		}
		if slices.ContainsFunc(selectors, hit) {
			keys = append(keys, c.Key())
		}
	}
	return keys
}

// meets reports which rule a decision breaks for one intent.
func meets(i intentDoc, chosen, members []v2.ClusterKey) error {
	groups := [][]selectorDoc{}
	for _, t := range i.AllOf {
		if len(t.AnyOf) > 0 {
			groups = append(groups, t.AnyOf)
			continue
		}
		for _, key := range matched(t.Selector) {
			if !slices.Contains(chosen, key) {
				return fmt.Errorf("mandatory cluster %s is not chosen", key)
			}
		}
	}
	if len(i.AnyOf) > 0 {
		groups = append(groups, i.AnyOf)
	}
	for _, g := range groups {
		if !slices.ContainsFunc(matched(g...), func(key v2.ClusterKey) bool { return slices.Contains(chosen, key) }) {
			return fmt.Errorf("no cluster of %v is chosen", g)
		}
	}
	for _, key := range chosen {
		if !slices.Contains(members, key) {
			return fmt.Errorf("%s is outside of the cloud", key)
		}
	}
	if !slices.IsSorted(chosen) || len(slices.Compact(slices.Clone(chosen))) != len(chosen) {
		return errors.New("the clusters are not sorted, each once")
	}
	return nil
}

// possible reports whether an intent can be met at all within a cloud.
func possible(i intentDoc, members []v2.ClusterKey) bool {
	in := func(key v2.ClusterKey) bool { return slices.Contains(members, key) }
	asked := len(i.AnyOf) == 0 || slices.ContainsFunc(matched(i.AnyOf...), in)
	for _, t := range i.AllOf {
		if len(t.AnyOf) > 0 {
			asked = asked && slices.ContainsFunc(matched(t.AnyOf...), in)
			continue
		}
		asked = asked && !slices.ContainsFunc(matched(t.Selector), func(key v2.ClusterKey) bool { return !in(key) })
	}
	return asked && len(i.AllOf)+len(i.AnyOf) > 0
}

// Each intent is met or refused. It is refused only if it cannot be met, and the order of the
// clusters makes no difference.
func TestEveryIntentIsMetOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		intents := rapid.SliceOfN(genIntent(), 1, 3).Draw(t, "intents")
		members := rapid.SliceOfDistinct(rapid.SampledFrom(everywhere), rapid.ID[v2.ClusterKey]).Draw(t, "members")
		req := placement.Request{App: "web", Intent: placement.Merge(intents...), Inventory: rapid.Permutation(inventory()).Draw(t, "inventory")}
		filters := []placement.Filter{logicalcloud.New("lc", members)}
		d, err := placement.Decide(t.Context(), req, filters)
		again, errAgain := decide(t.Context(), req.Intent, members)
		if fmt.Sprint(d, err) != fmt.Sprint(again, errAgain) {
			t.Fatalf("got %v, %v, then %v, %v", d, err, again, errAgain)
		}
		met, asked := true, false
		for _, i := range intents {
			empty := len(i.AllOf)+len(i.AnyOf) == 0
			asked = asked || !empty
			met = met && (empty || possible(i, members))
		}
		if (err == nil) != (met && asked) {
			t.Fatalf("Decide = %v, %v; it can be met: %v", d, err, met && asked)
		}
		if err != nil {
			return
		}
		for _, i := range intents {
			if err := meets(i, d.Clusters, members); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range d.Refused {
			if slices.Contains(members, v.Cluster) || v.Reason == "" || v.Admitted {
				t.Fatalf("refused %v", v)
			}
		}
	})
}

func TestMergeOfOneIsItself(t *testing.T) {
	t.Parallel()
	i := intentDoc{AllOf: []termDoc{must(name("a"))}, AnyOf: []selectorDoc{name("b")}}
	if got := placement.Merge(i); fmt.Sprint(got) != fmt.Sprint(i) {
		t.Errorf("Merge = %v, want %v", got, i)
	}
}
