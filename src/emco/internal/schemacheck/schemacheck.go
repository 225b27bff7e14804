// Package schemacheck compares JSON values with JSON schemas. A schema may refer to itself only: neither to files of
// the machine nor to web servers.
package schemacheck

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is a compiled schema. It does not change.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a schema in JSON.
func Compile(text []byte) (*Schema, error) {
	const root = "schema:///schema.json"
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no valid JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(closedLoader{})
	if err := c.AddResource(root, schema); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	compiled, err := c.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	return &Schema{compiled}, nil
}

// Faults returns what a value, as encoding/json decodes it, has against the schema, sorted; nothing if it meets the
// schema. They name the places, not the values, which may be secrets.
func (s *Schema) Faults(value any) []string {
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return slices.Compact(leaves(bad))
	}
	return []string{err.Error()}
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
	return nil, fmt.Errorf("%s lies outside of the schema; schemas may refer to themselves only", url)
}
