package kubetest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// event is a change of an object.
type event struct {
	what    string // as in watches
	version uint64
	key     objectKey
	object  *unstructured.Unstructured
}

// matches reports whether a list or watch includes an object.
func (r request) matches(key objectKey, o *unstructured.Unstructured, s labels.Selector) bool {
	return key.GroupResource == r.stored() && (r.namespace == "" || key.namespace == r.namespace) && s.Matches(labels.Set(o.GetLabels()))
}

// selectedLocked returns the objects that a list or watch includes.
func (s *Server) selectedLocked(r request, selector labels.Selector) (out []*unstructured.Unstructured) {
	for key, o := range s.objects {
		if r.matches(key, o, selector) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

func (s *Server) list(w http.ResponseWriter, r request) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	s.mu.Lock()
	items := []any{}
	for _, o := range s.selectedLocked(r, selector) {
		items = append(items, shown(r, o))
	}
	version := strconv.FormatUint(s.version, 10)
	s.mu.Unlock()
	list := map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind + "List", "metadata": map[string]any{"resourceVersion": version}, "items": items}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	write(w, http.StatusOK, list)
}

// watch sends events until the client leaves or the server ends.
func (s *Server) watch(w http.ResponseWriter, r request) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	out := http.NewResponseController(w)
	send := func(what string, o *unstructured.Unstructured) bool {
		text, err := json.Marshal(map[string]any{"type": what, "object": shown(r, o)})
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		return err == nil
	}
	w.Header().Set("Content-Type", "application/json")
	from, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	if query.Get("sendInitialEvents") == "true" {
		s.mu.Lock()
		from = s.version
		initial := s.selectedLocked(r, selector)
		s.mu.Unlock()
		for _, o := range initial {
			send("ADDED", o)
		}
		bookmark := &unstructured.Unstructured{Object: map[string]any{}}
		bookmark.SetGroupVersionKind(r.GroupVersionKind)
		bookmark.SetResourceVersion(strconv.FormatUint(from, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send("BOOKMARK", bookmark)
	}
	_ = out.Flush()
	matched := map[objectKey]bool{} // known to the client, so that leaving the selector is a deletion
	for {
		s.mu.Lock()
		news, changed := s.events, s.changed
		s.mu.Unlock()
		at, _ := slices.BinarySearchFunc(news, from+1, func(e event, v uint64) int { return cmp.Compare(e.version, v) })
		for _, e := range news[at:] {
			from = e.version
			ok, what := r.matches(e.key, e.object, selector), e.what
			if !ok && matched[e.key] {
				ok, what = true, "DELETED"
			}
			matched[e.key] = ok && what != "DELETED"
			if ok && !send(what, e.object) {
				return
			}
		}
		_ = out.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-s.ended:
			return
		case <-changed:
		}
	}
}
