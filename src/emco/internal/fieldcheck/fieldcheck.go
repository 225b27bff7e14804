// Package fieldcheck finds faults of objects that API servers refuse or drop: fields that a kind does not have, values of a wrong
// type, kinds that Kubernetes' own groups do not have, and names and labels of a wrong form. It knows the kinds of Kubernetes, and
// the fields of those that a definition among the objects defines. Flux drops fields of Kubernetes' kinds
// silently. It refuses those of custom kinds and other faults, and with them the whole app (docs/adr/0086).
package fieldcheck

import (
	encoding "encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const (
	maxNamed  = 5   // fields that a finding names
	maxListed = 20  // findings of an app
	maxField  = 200 // bytes of a field's name: charts choose them
)

// costly matches scalars of canonical JSON that are cheap to write and may keep the reader of quantities busy for hours: numbers
// with a large exponent, whole, since ids and digests may begin like one; and long numbers. The reader skips all spaces of Unicode
// around them.
var costly = regexp.MustCompile(`[:\[,]"?[\pZ\x{85}]*[+-]?([0-9.]*[eE][+-]?[0-9]{3,}[\pZ\x{85}]*"?[,}\]]|[0-9.]{200,})`)

// Findings returns a line for each object with such fields, or with another fault. Definitions among the objects give the fields of their kinds. Objects of other kinds, and those that cannot be read as theirs or are
// costly to read, are left to their clusters. A cluster may be newer than this program and know the fields, so nothing is refused.
func Findings(objects []manifest.Object) (out []string) {
	defined := schemasOf(objects)
	for i, o := range objects {
		fields, fault := defined.check(o)
		if fault == "" && len(fields) == 0 {
			continue
		}
		if len(out) == maxListed {
			return append(out, fmt.Sprintf("more faults, in the %d objects from %s on", len(objects)-i, o.ID))
		}
		if fault != "" {
			out = append(out, fmt.Sprintf("%s%s: %s: API servers refuse the object", o.ID, place(o), fault))
			continue
		}
		text := strings.Join(fields[:min(len(fields), maxNamed)], ", ")
		if more := len(fields) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, fmt.Sprintf("%s%s: %s has no field %s: clusters drop it, or refuse the object", o.ID, place(o), o.ID.Kind, text))
	}
	return out
}

// place names the file of an object, if it has one.
func place(o manifest.Object) string {
	switch {
	case o.Source == "":
		return ""
	case o.Line == 0:
		return " in " + o.Source
	}
	return fmt.Sprintf(" in %s:%d", o.Source, o.Line)
}

// check returns the paths of an object's fields that its kind does not have, or another fault; the first one that it finds.
func (d schemas) check(o manifest.Object) (fields []string, fault string) {
	if fault = wrongNames(o); fault != "" {
		return nil, fault
	}
	if s := d[kindOf(o)]; s != nil {
		var tree any
		if encoding.Unmarshal(o.Content, &tree) != nil {
			return nil, ""
		}
		for _, field := range s.unknown("", tree) {
			fields = append(fields, short(field))
		}
		return fields, ""
	}
	if costly.Match(o.Content) {
		return nil, ""
	}
	into, err := scheme.Scheme.New(kindOf(o))
	if err != nil {
		return nil, wrongKind(kindOf(o))
	}
	strict, err := json.UnmarshalStrict(o.Content, into, json.DisallowUnknownFields)
	if err != nil {
		return nil, wrongType(err)
	}
	for _, problem := range strict {
		if field, ok := strings.CutPrefix(problem.Error(), "unknown field "); ok {
			fields = append(fields, short(strings.Trim(field, `"`)))
		}
	}
	return fields, ""
}

func kindOf(o manifest.Object) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.ID.Group, Version: o.ID.Version, Kind: o.ID.Kind}
}

// short cuts the name of a field.
func short(field string) string {
	if len(field) > maxField {
		return strings.ToValidUTF8(field[:maxField], "") + "…"
	}
	return field
}
