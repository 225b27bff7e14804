package observe

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxBrief bounds the brief of one object, in bytes.
const maxBrief = 32 << 10

// brief returns an object without what only servers read. It changes the object.
func brief(u *unstructured.Unstructured) []byte {
	u.SetManagedFields(nil)
	annotations := u.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	u.SetAnnotations(annotations)
	u.SetResourceVersion("")
	for _, drop := range []string{"", "spec", "status"} {
		delete(u.Object, drop)
		if text, err := json.Marshal(u.Object); err == nil && len(text) <= maxBrief {
			return text
		}
	}
	return nil
}

// metadataBrief returns the brief of an object from its metadata; nil for a Secret.
func (k *kindWatch) metadataBrief(o metav1.Object) []byte {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok || !k.o.options.Briefs || k.gvk.Kind == "Secret" {
		return nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk)
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	u.SetLabels(m.Labels)
	u.SetAnnotations(m.Annotations)
	u.SetUID(m.UID)
	return brief(u)
}
