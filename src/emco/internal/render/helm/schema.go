package helm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/emco-orchestrator/emco/src/emco/internal/schemacheck"
)

// checkSchema checks values against values.schema.json of a chart and its
// sub-charts, as Helm does. Helm's own check follows references to web servers and to
// files of the machine; this one follows those within the schema only.
func checkSchema(ch *chart.Chart, file string, values chartutil.Values) error {
	if ch.Schema != nil {
		if err := checkOne(ch.Schema, values); err != nil {
			return fmt.Errorf("values do not meet %s/values.schema.json: %w", file, err)
		}
	}
	subs := slices.SortedFunc(slices.Values(ch.Dependencies()), func(a, b *chart.Chart) int {
		return strings.Compare(a.Name(), b.Name())
	})
	for _, sub := range subs {
		v, ok := values[sub.Name()]
		if !ok || v == nil {
			continue
		}
		inner, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("values of sub-chart %s must be a mapping", sub.Name())
		}
		if err := checkSchema(sub, sub.ChartFullPath(), inner); err != nil {
			return err
		}
	}
	return nil
}

// checkOne checks values against one schema. Errors name the places, not the values.
func checkOne(text []byte, values chartutil.Values) error {
	schema, err := schemacheck.Compile(text)
	if err != nil {
		return err
	}
	if bad := schema.Faults(values.AsMap()); len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}
