package kubetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // keeps integers
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// object carries out a request about one object, and returns what is there then.
func (s *Server) object(r request) (*unstructured.Unstructured, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	sent := &unstructured.Unstructured{}
	if r.Method != http.MethodGet && r.Method != http.MethodDelete {
		if json.Unmarshal(body, &sent.Object) != nil {
			return nil, apierrors.NewBadRequest("the body is not an object")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		r.name = sent.GetName()
	}
	have := s.objects[r.key()]
	if missing := have == nil; missing && r.Method != http.MethodPost && r.Method != http.MethodPatch {
		return nil, apierrors.NewNotFound(r.resource(), r.name)
	}
	switch r.Method {
	case http.MethodGet:
		return have, nil
	case http.MethodPost:
		if have != nil {
			return nil, apierrors.NewAlreadyExists(r.resource(), r.name)
		}
		return s.storeLocked(r, nil, sent)
	case http.MethodPut:
		if v := sent.GetResourceVersion(); v != "" && v != have.GetResourceVersion() {
			return nil, conflict(r)
		}
		return s.storeLocked(r, have, sent)
	case http.MethodPatch:
		return s.patchLocked(r, have, sent)
	case http.MethodDelete:
		options := metav1.DeleteOptions{}
		if len(body) > 0 && json.Unmarshal(body, &options) != nil {
			return nil, apierrors.NewBadRequest("the body is not DeleteOptions")
		}
		return s.deleteLocked(r, have, options)
	}
	return nil, apierrors.NewMethodNotSupported(r.resource(), r.Method)
}

// patchLocked applies an object, or merges one into what is there.
func (s *Server) patchLocked(r request, have, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := have
	if live == nil {
		live = &unstructured.Unstructured{Object: map[string]any{}}
		live.SetGroupVersionKind(r.GroupVersionKind)
		live.SetName(r.name)
		live.SetNamespace(r.namespace)
	}
	switch types.PatchType(r.Header.Get("Content-Type")) {
	case types.ApplyPatchType, types.ApplyCBORPatchType:
		if r.subresource != "" || sent.GetName() != r.name || sent.GetNamespace() != r.namespace || sent.GroupVersionKind() != r.GroupVersionKind {
			return nil, apierrors.NewBadRequest("the object is not the one of the path")
		}
		if err := s.admitLocked(r, sent); err != nil { // an object of the wrong form cannot be merged
			return nil, err
		}
		if field := undeclared(r.GroupVersionKind, sent.Object); field != "" {
			return nil, undeclaredField(r, field)
		}
		merged, err := fieldManager(r).Apply(live.DeepCopy(), sent, r.manager(), r.URL.Query().Get("force") == "true")
		if err != nil {
			return nil, err
		}
		u, ok := merged.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("merged into %T", merged)
		}
		return s.keepLocked(r, have, u)
	case types.MergePatchType:
		if have == nil {
			return nil, apierrors.NewNotFound(r.resource(), r.name)
		}
		merged := have.DeepCopy()
		merge(merged.Object, sent.Object)
		return s.storeLocked(r, have, merged)
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, r.Method, r.resource(), r.name, "unknown type of patch", 0, true)
}

func merge(into, patch map[string]any) {
	for k, v := range patch {
		below, isMap := v.(map[string]any)
		have, was := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && was:
			merge(have, below)
		default:
			into[k] = v
		}
	}
}

func fieldManager(r request) *managedfields.FieldManager {
	return managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), r.GroupVersionKind)
}

// storeLocked stores an object that a client sent whole. With a subresource, only the
// status changes.
func (s *Server) storeLocked(r request, have, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if r.subresource != "" {
		state := now.Object["status"]
		now = have.DeepCopy()
		now.Object["status"] = state
	}
	now.SetGroupVersionKind(r.GroupVersionKind)
	now.SetNamespace(r.namespace)
	if have == nil {
		have = &unstructured.Unstructured{Object: map[string]any{}}
		have.SetGroupVersionKind(r.GroupVersionKind)
	}
	merged, err := fieldManager(r).Update(have.DeepCopy(), now, r.manager())
	if err != nil {
		return nil, err
	}
	u, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("merged into %T", merged)
	}
	return s.keepLocked(r, s.objects[r.key()], u)
}

// keepLocked admits a new state of an object and stores it, if anything changed.
func (s *Server) keepLocked(r request, have, now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := s.admitLocked(r, now); err != nil {
		return nil, err
	}
	if have == nil {
		now.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
		now.SetCreationTimestamp(metav1.Now())
		now.SetGeneration(1)
		now.SetDeletionTimestamp(nil)
	} else {
		now.SetUID(have.GetUID())
		now.SetCreationTimestamp(have.GetCreationTimestamp())
		now.SetDeletionTimestamp(have.GetDeletionTimestamp())
		now.SetResourceVersion(have.GetResourceVersion())
		now.SetGeneration(have.GetGeneration())
		if !reflect.DeepEqual(have.Object["spec"], now.Object["spec"]) {
			now.SetGeneration(have.GetGeneration() + 1)
		}
		if reflect.DeepEqual(have.Object, now.Object) {
			return have, nil
		}
	}
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) == 0 {
		s.removeLocked(r.key(), now)
		return now, nil
	}
	if r.GroupVersionKind == crdKind {
		s.defineLocked(now)
	}
	event := "MODIFIED"
	if have == nil {
		event = "ADDED"
	}
	s.objects[r.key()] = now
	s.recordLocked(event, r.key(), now)
	return now, nil
}

// admitLocked refuses what a real API server refuses, as far as tests need it.
func (s *Server) admitLocked(r request, o *unstructured.Unstructured) error {
	if r.namespaced {
		ns := s.objects[objectKey{schema.GroupResource{Resource: "namespaces"}, "", r.namespace}]
		if ns == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, r.namespace)
		}
		if s.objects[r.key()] == nil && ns.GetDeletionTimestamp() != nil {
			err := apierrors.NewForbidden(r.resource(), r.name, errors.New("the namespace is being deleted"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		}
	}
	if r.Group != "" || r.Kind != "ConfigMap" && r.Kind != "Secret" {
		return nil
	}
	for _, member := range []string{"data", "stringData"} {
		value, there := o.Object[member]
		data, isMap := value.(map[string]any)
		if there && !isMap {
			return apierrors.NewBadRequest(fmt.Sprintf("failed to create typed patch object: .%s: expected map, got &{%v}", member, value))
		}
		for _, k := range slices.Sorted(maps.Keys(data)) {
			if !dataKey.MatchString(k) {
				return apierrors.NewInvalid(r.GroupKind(), r.name, field.ErrorList{field.Invalid(field.NewPath(member).Key(k), k, "is not a valid key")})
			}
			text, _ := data[k].(string)
			if _, err := base64.StdEncoding.DecodeString(text); err != nil && r.Kind == "Secret" && member == "data" {
				return apierrors.NewBadRequest(fmt.Sprintf("Secret cannot be handled: %q: %v", text, err))
			}
		}
	}
	if kind, _, _ := unstructured.NestedString(o.Object, "type"); kind != string(corev1.SecretTypeTLS) {
		return nil
	}
	for _, k := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		_, encoded, _ := unstructured.NestedString(o.Object, "data", k)
		if _, plain, _ := unstructured.NestedString(o.Object, "stringData", k); !encoded && !plain {
			return apierrors.NewInvalid(r.GroupKind(), r.name, field.ErrorList{field.Invalid(field.NewPath("data").Key(k), o.Object["stringData"], "must be there")})
		}
	}
	return nil
}

var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// deleteLocked deletes an object, or marks it if finalizers hold it.
func (s *Server) deleteLocked(r request, have *unstructured.Unstructured, o metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != have.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion() {
			return nil, conflict(r)
		}
	}
	if len(have.GetFinalizers()) > 0 {
		if have.GetDeletionTimestamp() != nil {
			return have, nil
		}
		marked, now := have.DeepCopy(), metav1.NewTime(time.Now().Truncate(time.Second))
		marked.SetDeletionTimestamp(&now)
		s.objects[r.key()] = marked
		s.recordLocked("MODIFIED", r.key(), marked)
		return marked, nil
	}
	s.removeLocked(r.key(), have)
	return have, nil
}

// removeLocked removes an object with all that is in it: the objects in a namespace, or
// those of a kind that is no longer defined.
func (s *Server) removeLocked(key objectKey, o *unstructured.Unstructured) {
	delete(s.objects, key)
	s.recordLocked("DELETED", key, o.DeepCopy())
	inside := func(k objectKey) bool { return key.Resource == "namespaces" && k.namespace == key.name }
	if key.Group == crdKind.Group {
		defined := kindsOf(o)
		inside = func(k objectKey) bool {
			return slices.ContainsFunc(defined, func(d kind) bool { return d.resource() == k.GroupResource })
		}
		s.kinds = slices.DeleteFunc(s.kinds, func(k kind) bool { return slices.Contains(defined, k) })
	}
	for k, x := range s.objects {
		if inside(k) {
			delete(s.objects, k)
			s.recordLocked("DELETED", k, x.DeepCopy())
		}
	}
}

// defineLocked serves the kinds of a definition, and sets its status.
func (s *Server) defineLocked(crd *unstructured.Unstructured) {
	for _, k := range kindsOf(crd) {
		if !slices.Contains(s.kinds, k) {
			s.kinds = append(s.kinds, k)
		}
	}
	crd.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
	}}
}

func kindsOf(crd *unstructured.Unstructured) (out []kind) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		if v, ok := item.(map[string]any); ok && v["served"] == true {
			version, _ := v["name"].(string)
			out = append(out, kind{schema.GroupVersionKind{Group: group, Version: version, Kind: name}, plural, scope == "Namespaced"})
		}
	}
	return out
}

// recordLocked gives a state of an object the next version, and wakes watches.
func (s *Server) recordLocked(what string, key objectKey, o *unstructured.Unstructured) {
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.events = append(s.events, event{what, s.version, key, o})
	close(s.changed)
	s.changed = make(chan struct{})
}

func conflict(r request) error {
	return apierrors.NewConflict(r.resource(), r.name, errors.New("the object has been modified"))
}
