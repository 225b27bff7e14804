package fieldcheck

import (
	encoding "encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// wrongKind says that a group of Kubernetes does not have a kind, or that there is no such group; empty for custom kinds. Groups of
// custom kinds have a dot.
func wrongKind(k schema.GroupVersionKind) string {
	switch {
	case scheme.Scheme.IsGroupRegistered(k.Group):
		return fmt.Sprintf("Kubernetes has no %s in %s", short(k.Kind), short(k.GroupVersion().String()))
	case !strings.Contains(k.Group, "."):
		return fmt.Sprintf("there is no group %s", short(k.Group))
	}
	return ""
}

// mismatch matches the decoder's text about a value of a wrong type. It does not match the value, which may be secret.
var mismatch = regexp.MustCompile(`cannot unmarshal (\w+)[^/]* into Go struct field \w+\.(\S+) of type`)

// wrongType says which field has a value of a wrong type, by the decoder's error.
func wrongType(err error) string {
	m := mismatch.FindStringSubmatch(err.Error())
	switch {
	case m != nil:
	case strings.Contains(err.Error(), "quantit"):
		return "an amount is not of the form 500m, 2Gi or 10"
	default:
		return "a value has a type that does not fit"
	}
	return fmt.Sprintf("%s does not take a %s", short(m[2]), m[1])
}

// wrongNames says which name, label or key of an annotation no API server takes; empty if there is none. Names of RBAC objects have
// a form of their own.
func wrongNames(o manifest.Object) string {
	if scheme.Scheme.IsGroupRegistered(o.ID.Group) && o.ID.Group != "rbac.authorization.k8s.io" { // other groups may have other names
		if problems := validation.IsDNS1123Subdomain(o.ID.Name); len(problems) > 0 {
			return fmt.Sprintf("metadata.name %q: %s", short(o.ID.Name), rule(problems))
		}
	}
	var object struct {
		Metadata struct{ Labels, Annotations map[string]string }
	}
	if encoding.Unmarshal(o.Content, &object) != nil {
		return "" // the kind's type says what is wrong
	}
	for _, key := range slices.Sorted(maps.Keys(object.Metadata.Labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Sprintf("the label %q: %s", short(key), rule(problems))
		}
		if problems := validation.IsValidLabelValue(object.Metadata.Labels[key]); len(problems) > 0 {
			return fmt.Sprintf("the value of the label %q: %s", short(key), rule(problems))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object.Metadata.Annotations)) {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return fmt.Sprintf("the annotation %q: %s", short(key), rule(problems))
		}
	}
	return ""
}

// rule is the first of the problems, without its examples.
func rule(problems []string) string {
	text, _, _ := strings.Cut(problems[0], " (e.g. ")
	return text
}
