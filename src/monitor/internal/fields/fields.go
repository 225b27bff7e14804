// Package fields reads members of objects without a Go type into small structs.
package fields

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition is an entry of status.conditions, as most kinds have them.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration *int64 `json:"observedGeneration"` // that the condition is about; nil if unknown
}

// List reads the list at a path into structs whose tags name the members. It skips items of
// another form, because nothing validates objects of unknown kinds, and reads at most max
// items.
func List[T any](u *unstructured.Unstructured, max int, path ...string) []T {
	found, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	items, _ := found.([]any)
	var out []T
	for _, item := range items[:min(len(items), max)] {
		var one T
		members, ok := item.(map[string]any)
		if ok && runtime.DefaultUnstructuredConverter.FromUnstructured(members, &one) == nil {
			out = append(out, one)
		}
	}
	return out
}

// maxConditions is more than any kind has.
const maxConditions = 100

// Conditions reads status.conditions.
func Conditions(u *unstructured.Unstructured) []Condition {
	return List[Condition](u, maxConditions, "status", "conditions")
}
