package fieldcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// definition is the part of a CustomResourceDefinition with the fields of its kind.
type definition struct {
	Spec struct {
		Group                 string
		Names                 struct{ Kind string }
		PreserveUnknownFields bool
		Versions              []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema *fields
			}
		}
	}
}

// fields is the part of a structural schema that decides which members of a value an API server keeps.
type fields struct {
	Properties map[string]*fields `json:"properties"`
	Additional *additional        `json:"additionalProperties"`
	Items      *fields            `json:"items"`
	Preserve   bool               `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded   bool               `json:"x-kubernetes-embedded-resource"`
}

// additional is the rule of a schema for members that it does not name: a schema, or whether there may be any.
type additional struct {
	any    bool
	fields *fields
}

// UnmarshalJSON reads a boolean or a schema.
func (a *additional) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &a.any) == nil {
		return nil
	}
	return json.Unmarshal(text, &a.fields)
}

// schemas are the schemas of kinds that the objects themselves define.
type schemas map[schema.GroupVersionKind]*fields

// schemasOf reads the definitions among the objects. Those that cannot be read are left to the clusters, and so are kinds
// whose definition keeps all fields.
func schemasOf(objects []manifest.Object) schemas {
	out := schemas{}
	for _, o := range objects {
		var d definition
		if !manifest.IsCRD(o.ID) || json.Unmarshal(o.Content, &d) != nil || d.Spec.PreserveUnknownFields {
			continue
		}
		for _, v := range d.Spec.Versions {
			if s := v.Schema.OpenAPIV3Schema; s != nil {
				s.Embedded = true
				out[schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}] = s
			}
		}
	}
	return out
}

// unknown returns the paths of the members of a value that an API server drops, sorted by path.
func (s *fields) unknown(at string, value any) (out []string) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			path := name
			if at != "" {
				path = at + "." + name
			}
			switch {
			case s.Embedded && (name == "apiVersion" || name == "kind" || name == "metadata"):
			case s.Properties[name] != nil:
				out = append(out, s.Properties[name].unknown(path, v[name])...)
			case s.Additional != nil && s.Additional.fields != nil:
				out = append(out, s.Additional.fields.unknown(path, v[name])...)
			case s.Preserve, s.Additional != nil && s.Additional.any:
			default:
				out = append(out, path)
			}
		}
	case []any:
		if s.Items == nil {
			return nil
		}
		for i, item := range v {
			out = append(out, s.Items.unknown(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
	}
	return out
}
