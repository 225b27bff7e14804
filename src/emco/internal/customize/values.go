package customize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// KeyValuesOf returns the key-value pairs of a cluster.
type KeyValuesOf func(cluster v2.ClusterKey) (map[string]string, error)

// Overrides returns the override values of a group for all clusters of an app, in order of the
// entries and their keys: in Helm's --set syntax the order matters, and a JSON object has none.
// Values that differ by cluster are edits; see ClusterOverrides.
func Overrides(g v2.DeploymentIntentGroup, app string) (out []render.Override) {
	for _, o := range g.Spec.Overrides {
		if o.App != app || len(o.Clusters) > 0 {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(o.Values)) {
			if !v2.NamesFacts(o.Values[key]) {
				out = append(out, render.Override{Key: key, Value: o.Values[key]})
			}
		}
	}
	return out
}

// The ranks of override values: later ones win.
const (
	forAll = iota // values that name facts of clusters
	forLabel
	forCluster
)

// ClusterOverrides returns the edits for the override values of an app that are for some of its
// clusters, or that name facts of clusters. Values for a named cluster win over those for a label,
// and these over values for all clusters; of equal rank the later entry wins.
func ClusterOverrides(g v2.DeploymentIntentGroup, app App, fleet placement.Inventory, pairs KeyValuesOf) ([]Edit, error) {
	var out []Edit
	for rank := forAll; rank <= forCluster; rank++ {
		for i, o := range g.Spec.Overrides {
			if o.App != app.Name || (rank == forAll) != (len(o.Clusters) == 0) {
				continue
			}
			clusters := app.Clusters
			if rank != forAll {
				clusters = selected(o.Clusters, rank, app, fleet)
			}
			edits, err := valuesByFacts(o, rank, clusters, pairs)
			if err != nil {
				return nil, err
			}
			for _, e := range edits {
				e.App, e.Origin = app.Name, fmt.Sprintf("overrideValues[%d]", i)
				out = append(out, e)
			}
		}
	}
	return out, nil
}

// OverrideFacts returns the digest of what the values of ClusterOverrides follow from besides the group's document: the clusters that
// selectors of the entries select, and the facts that values name. The error is Invalid if a cluster does not have one of them.
func OverrideFacts(g v2.DeploymentIntentGroup, app App, fleet placement.Inventory, pairs KeyValuesOf) (manifest.Digest, error) {
	sum := sha256.New()
	for i, o := range g.Spec.Overrides {
		if o.App != app.Name {
			continue
		}
		clusters, names := app.Clusters, namedFacts(o)
		switch {
		case len(o.Clusters) > 0:
			clusters = slices.Concat(selected(o.Clusters, forLabel, app, fleet), selected(o.Clusters, forCluster, app, fleet))
		case len(names) == 0:
			continue
		}
		fmt.Fprintf(sum, "%d of %d\n", len(clusters), i)
		for _, c := range clusters {
			line := append([]byte(c), '\n')
			for _, name := range names {
				fact, err := Fact(name, c, pairs)
				if err != nil {
					return "", err
				}
				line = append(strconv.AppendQuote(line, fact), '\n')
			}
			sum.Write(line)
		}
	}
	return manifest.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))), nil
}

// namedFacts returns the names of the facts that the values of an entry name, sorted.
func namedFacts(o v2.OverrideValue) (names []string) {
	for _, value := range o.Values {
		_, _ = v2.FillFacts(value, func(name string) (string, error) {
			names = append(names, name)
			return "", nil
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// selected returns the clusters of an app that selectors of a rank select, sorted.
func selected(selectors []v2.Selector, rank int, app App, fleet placement.Inventory) (out []v2.ClusterKey) {
	for _, s := range selectors {
		switch {
		case rank == forCluster && s.Cluster != "":
			if c := v2.NewClusterKey(s.Provider, s.Cluster); app.Has(c) {
				out = append(out, c)
			}
		case rank == forLabel && len(s.RequiredLabels()) > 0:
			out = append(out, app.Labelled(fleet, s.Provider, s.RequiredLabels()...)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Has reports whether the app goes to a cluster.
func (a App) Has(c v2.ClusterKey) bool {
	_, found := slices.BinarySearch(a.Clusters, c)
	return found
}

// Labelled returns the clusters of the app that carry all of the labels, of which there is at least one, sorted.
func (a App) Labelled(fleet placement.Inventory, provider string, labels ...string) (out []v2.ClusterKey) {
	for _, c := range placement.Labelled(fleet, provider, labels) {
		if a.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// valuesByFacts returns an edit for each group of clusters that get equal values of an entry. Of an
// entry for all clusters it takes only the values that name facts.
func valuesByFacts(o v2.OverrideValue, rank int, clusters []v2.ClusterKey, pairs KeyValuesOf) (out []Edit, err error) {
	var fixed, open []string // keys without and with facts
	for _, key := range slices.Sorted(maps.Keys(o.Values)) {
		if v2.NamesFacts(o.Values[key]) {
			open = append(open, key)
		} else if rank != forAll {
			fixed = append(fixed, key)
		}
	}
	if len(clusters) == 0 || len(fixed)+len(open) == 0 {
		return nil, nil
	}
	keys := slices.Sorted(slices.Values(slices.Concat(fixed, open)))
	if len(open) == 0 {
		values, err := filled(o, keys, "", nil)
		return []Edit{{Clusters: clusters, Values: values}}, err
	}
	index := map[string]int{} // of edits, by their values
	for _, c := range clusters {
		values, err := filled(o, keys, c, pairs)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%q", values)
		i, known := index[key]
		if !known {
			i = len(out)
			index[key] = i
			out = append(out, Edit{Values: values})
		}
		out[i].Clusters = append(out[i].Clusters, c)
	}
	return out, nil
}

// filled returns the values of an entry with the facts of a cluster.
func filled(o v2.OverrideValue, keys []string, cluster v2.ClusterKey, pairs KeyValuesOf) ([]render.Override, error) {
	out := make([]render.Override, 0, len(keys))
	for _, key := range keys {
		value, err := v2.FillFacts(o.Values[key], func(name string) (string, error) {
			fact, err := Fact(name, cluster, pairs)
			return literal(fact), err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, render.Override{Key: key, Value: value})
	}
	return out, nil
}

// Fact returns a fact of a cluster by the name that documents use, such as "kv.zone". The error is
// Invalid if the cluster does not have it.
func Fact(name string, cluster v2.ClusterKey, pairs KeyValuesOf) (string, error) {
	switch name {
	case v2.FactName:
		return cluster.Cluster(), nil
	case v2.FactProvider:
		return cluster.Provider(), nil
	}
	key, ok := strings.CutPrefix(name, v2.FactKV)
	if !ok {
		return "", errs.New(errs.Invalid, "there is no fact .cluster."+name)
	}
	known, err := pairs(cluster)
	if err != nil {
		return "", err
	}
	value, ok := known[key]
	if !ok {
		return "", errs.New(errs.Invalid, fmt.Sprintf("cluster %s has no key-value pair %q; add one below %s/kv-pairs", cluster, key, cluster.StoreKey()))
	}
	return value, nil
}

// literal escapes a text for Helm's --set syntax, where commas, braces and backslashes are
// special.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `{`, `\{`, `}`, `\}`).Replace(text)
}
