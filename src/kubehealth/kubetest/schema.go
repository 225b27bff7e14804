package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// undeclared returns the path of the first field that a built-in kind does not declare, ""
// if there is none.
func undeclared(kind schema.GroupVersionKind, object map[string]any) string {
	known, err := scheme.Scheme.New(kind)
	if err != nil {
		return ""
	}
	return undeclaredIn(reflect.TypeOf(known), object, "")
}

func undeclaredIn(t reflect.Type, v any, path string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return "" // a time, a quantity, or anything
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			key := fmt.Sprintf("[%d]", i)
			if named, ok := item.(map[string]any); ok && named["name"] != nil {
				key = fmt.Sprintf("[name=%q]", named["name"])
			}
			if t.Kind() != reflect.Slice {
				return ""
			}
			if found := undeclaredIn(t.Elem(), item, path+key); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + name
			switch t.Kind() {
			case reflect.Struct:
				member, declared := memberOf(t, name)
				if !declared {
					return at
				}
				if found := undeclaredIn(member, v[name], at); found != "" {
					return found
				}
			case reflect.Map:
				if found := undeclaredIn(t.Elem(), v[name], at); found != "" {
					return found
				}
			}
		}
	}
	return ""
}

// memberOf returns the type of a struct's member with a name in JSON.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type, true
		}
		if f.Anonymous && tag == "" {
			if found, ok := memberOf(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// undeclaredField is the answer of a real API server to an apply of such a field: a plain
// failure without a reason.
func undeclaredField(r request, path string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("failed to create typed patch object (%s/%s; %s/%s, Kind=%s): %s: field not declared in schema", r.namespace, r.name, r.Group, r.Version, r.Kind, path),
	}}
}
