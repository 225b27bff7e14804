package helm

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// resolver is the template function that queries DNS. Helm replaces it by one that returns
// nothing. A chart that calls it would render to something its author did not mean, so it
// is refused. (The other function that reads from outside, lookup, is refused when it is
// called.)
const resolver = "getHostByName"

// offline reports a template that calls the resolver, and values or files that would
// call it if a template ran them with "tpl".
func offline(ch *chart.Chart, values chartutil.Values) error {
	own, _ := values["Values"].(chartutil.Values)
	if where, ok := mentions(own.AsMap(), "values"); ok {
		return refused(where)
	}
	for _, t := range ch.Templates {
		if t != nil && calls(t) {
			return refused(path.Join(ch.ChartFullPath(), t.Name))
		}
	}
	for _, f := range ch.Files {
		if runnable(string(f.Data)) && strings.Contains(string(f.Data), resolver) {
			return refused(path.Join(ch.ChartFullPath(), f.Name))
		}
	}
	for _, sub := range ch.Dependencies() {
		if err := offline(sub, chartutil.Values{}); err != nil {
			return err
		}
	}
	return nil
}

func refused(where string) error {
	return fmt.Errorf("%s calls %s, which needs a network, and rendering has none; give the address as a value", where, resolver)
}

// runnable reports whether text has any effect as a template.
func runnable(text string) bool { return strings.Contains(text, "{{") }

// mentions returns the path of a value that holds a template with the resolver.
func mentions(v any, at string) (string, bool) {
	switch v := v.(type) {
	case string:
		return at, runnable(v) && strings.Contains(v, resolver)
	case []any:
		for i, item := range v {
			if where, ok := mentions(item, fmt.Sprintf("%s[%d]", at, i)); ok {
				return where, true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if where, ok := mentions(v[key], at+"."+key); ok {
				return where, true
			}
		}
	}
	return "", false
}

// calls reports whether a template calls the resolver, rather than naming it in a comment.
// The engine reports templates that cannot be parsed.
func calls(t *chart.File) bool {
	if !strings.Contains(string(t.Data), resolver) {
		return false
	}
	tree := parse.New(t.Name)
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(string(t.Data), "", "", set); err != nil {
		return false
	}
	for _, sub := range set {
		if sub.Root != nil && strings.Contains(sub.Root.String(), resolver) {
			return true
		}
	}
	return tree.Root != nil && strings.Contains(tree.Root.String(), resolver)
}
