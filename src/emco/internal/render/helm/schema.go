package helm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
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
	const root = "chart:///values.schema.json"
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("the schema is no valid JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(closedLoader{})
	if err := c.AddResource(root, schema); err != nil {
		return fmt.Errorf("the schema cannot be used: %w", err)
	}
	check, err := c.Compile(root)
	if err != nil {
		return fmt.Errorf("the schema cannot be used: %w", err)
	}
	err = check.Validate(values.AsMap())
	if bad, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(strings.Join(slices.Compact(leaves(bad)), "; "))
	}
	return err
}

// leaves returns the innermost causes of a validation error, sorted.
func leaves(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		return []string{leaf(e)}
	}
	var out []string
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	slices.Sort(out)
	return out
}

// leaf returns the place of a value and what the schema requires there. It omits the value,
// which the library quotes and which may be a password.
func leaf(e *jsonschema.ValidationError) string {
	want := ""
	switch k := e.ErrorKind.(type) {
	case *kind.Pattern:
		want = "'" + k.Want + "'"
	case *kind.Format:
		want = k.Want
	case *kind.ContentEncoding:
		want = k.Want
	case *kind.ContentMediaType:
		want = k.Want
	case *kind.Minimum:
		want = k.Want.RatString()
	case *kind.Maximum:
		want = k.Want.RatString()
	case *kind.ExclusiveMinimum:
		want = k.Want.RatString()
	case *kind.ExclusiveMaximum:
		want = k.Want.RatString()
	case *kind.MultipleOf:
		want = k.Want.RatString()
	default:
		lines := strings.Split(e.Error(), "\n")
		return strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- ")
	}
	place, keyword := strings.Join(e.InstanceLocation, "/"), strings.Join(e.ErrorKind.KeywordPath(), "/")
	return fmt.Sprintf("at '/%s': does not meet %s %s", place, keyword, want)
}

// closedLoader refuses references of a schema to other documents.
type closedLoader struct{}

// Load refuses.
func (closedLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s lies outside of the chart; schemas may refer to themselves only", url)
}
