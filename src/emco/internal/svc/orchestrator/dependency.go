package orchestrator

import (
	"context"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// dependencyGraph maps each app to those that it waits for.
type dependencyGraph map[string][]string

// dependencyGraph reads all dependencies of a composite app but the one at the place itself.
func (s Resources) dependencyGraph(ctx context.Context, at resource.Place) (dependencyGraph, error) {
	all := dependencyGraph{}
	under := compositeAppKey(at) + "/apps"
	for item, err := range store.All[v2.AppDependency](ctx, s.DB, under, store.Query{Depth: 3}) {
		if err != nil {
			return nil, err
		}
		if item.Doc.Key == at.Key {
			continue
		}
		app, _, _ := strings.Cut(strings.TrimPrefix(string(item.Doc.Key), string(under)+"/"), "/") // A/dependency/D
		all[app] = append(all[app], item.Value.Spec.App)
	}
	return all, nil
}

// path returns the apps from one to another along who waits for whom, both included,
// or nil if there is no way.
func (w dependencyGraph) path(from, to string) []string {
	seen := map[string]bool{}
	var walk func(app string) []string
	walk = func(app string) []string {
		if app == to {
			return []string{app}
		}
		if seen[app] {
			return nil
		}
		seen[app] = true
		for _, next := range slices.Sorted(slices.Values(w[app])) {
			if rest := walk(next); rest != nil {
				return append([]string{app}, rest...)
			}
		}
		return nil
	}
	return walk(from)
}

// cycleText is EMCO's sentence, with the cycle behind it.
func cycleText(compositeApp string, cycle []string) string {
	return "Cyclic Dependency between apps found in composite app:" + compositeApp + ": " + strings.Join(cycle, " -> ")
}
