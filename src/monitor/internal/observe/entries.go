package observe

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/flux"
	"github.com/emco-orchestrator/emco/src/monitor/internal/judge"
)

// entries is a kind as the store that a reflector fills. Objects are judged as they come
// and then let go.
type entries kind

// Add takes an object that is new.
func (e *entries) Add(obj any) error { return e.put(obj) }

// Update takes an object that changed.
func (e *entries) Update(obj any) error { return e.put(obj) }

// Resync does nothing: nothing is derived from the entries that could be out of step.
func (e *entries) Resync() error { return nil }

// Delete takes an object that went.
func (e *entries) Delete(obj any) error {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	k := (*kind)(e)
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	n := name{m.GetNamespace(), m.GetName()}
	if k.form == source {
		k.complain(n, "")
		return nil
	}
	k.o.set(k.gvk.GroupKind(), n, k.entries[n], Object{}, false)
	delete(k.entries, n)
	return nil
}

// Replace takes all objects that there are, after a start or a gap.
func (e *entries) Replace(list []any, _ string) error {
	k := (*kind)(e)
	fresh := make(map[name]Object, len(list))
	complaints := map[name]string{}
	for _, obj := range list {
		m, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		n := name{m.GetNamespace(), m.GetName()}
		if k.form == source {
			complaints[n] = complaint(obj)
		} else if now, of := k.read(obj); of {
			fresh[n] = now
		}
	}
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if k.ended {
		return nil
	}
	k.replace(fresh)
	if k.form == source {
		for n := range k.o.sources {
			if complaints[n] == "" {
				k.complain(n, "")
			}
		}
		for n, why := range complaints {
			k.complain(n, why)
		}
	}
	if k.state != full {
		k.become(live, time.Now())
	}
	return nil
}

// put takes one object.
func (e *entries) put(obj any) error {
	k := (*kind)(e)
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	n := name{m.GetNamespace(), m.GetName()}
	if k.form == source {
		k.o.mu.Lock()
		defer k.o.mu.Unlock()
		k.complain(n, complaint(obj))
		return nil
	}
	now, of := k.read(obj)
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if !k.ended {
		k.keep(n, now, of)
	}
	return nil
}

// replace makes fresh all there is. The caller holds mu of the observer.
func (k *kind) replace(fresh map[name]Object) {
	for n := range k.entries {
		if _, still := fresh[n]; !still {
			k.keep(n, Object{}, false)
		}
	}
	if k.state == full {
		k.become(live, time.Now())
	}
	for n, now := range fresh {
		k.keep(n, now, true)
	}
}

// keep takes in an object of an app, or with of false that there is none. The caller
// holds mu of the observer.
func (k *kind) keep(n name, now Object, of bool) {
	old, had := k.entries[n]
	switch {
	case had && of && same(old, now), !had && !of:
		return
	case of && !had && k.o.objects >= k.o.options.MaxObjects:
		k.become(full, time.Now())
		return
	}
	if k.gvk.Kind == "CustomResourceDefinition" {
		select {
		case k.o.look <- struct{}{}: // an app brings kinds of its own
		default:
		}
	}
	k.o.set(k.gvk.GroupKind(), n, old, now, of)
	if of {
		k.entries[n] = now
	} else {
		delete(k.entries, n)
	}
}

// same says whether nobody could tell two readings of an object apart.
func same(a, b Object) bool {
	return a.Label == b.Label && a.Object == b.Object && string(a.Brief) == string(b.Brief) && a.applied == nil && b.applied == nil
}

// read judges an object. It is of no app if it lost its label, or if it was made by the
// cluster out of another object, whose label it shows; Pods and Jobs are of interest
// nevertheless.
func (k *kind) read(obj any) (out Object, of bool) {
	m, ok := obj.(metav1.Object)
	if !ok || m.GetLabels()[status.DeploymentLabel] == "" {
		return out, false
	}
	out.Label = m.GetLabels()[status.DeploymentLabel]
	out.Object = status.Object{
		Group: k.gvk.Group, Version: k.gvk.Version, Kind: k.gvk.Kind, Namespace: m.GetNamespace(), Name: m.GetName(),
		Content: m.GetAnnotations()[status.ContentAnnotation],
	}
	if metav1.GetControllerOf(m) != nil {
		if k.gvk.Kind != "Pod" && k.gvk.Kind != "Job" {
			return out, false
		}
		out.Content = "" // copied from its owner
	}
	u, isWhole := obj.(*unstructured.Unstructured)
	if !isWhole {
		out.Status, out.Reason = judge.Metadata(m)
		out.Brief = k.headerBrief(obj)
		return out, true
	}
	out.Status, out.Reason = judge.Object(u)
	if k.gvk.GroupKind() == flux.Kustomization {
		a := flux.Read(u)
		out.applied = &a
	}
	if k.o.options.Briefs {
		out.Brief = brief(u)
	}
	return out, true
}

// complain notes what a GitRepository says. The caller holds mu of the observer.
func (k *kind) complain(n name, why string) {
	if k.o.sources[n] == why {
		return
	}
	k.o.sources[n] = why
	if why == "" {
		delete(k.o.sources, n)
	}
	k.o.changed()
}

func complaint(obj any) string {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	return flux.SourceError(u)
}

// maxBrief bounds what is shown of one object, in bytes.
const maxBrief = 32 << 10

// brief is an object without what only servers read. It changes the object.
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

// headerBrief is what is shown of an object of which the metadata alone is known. Of a
// Secret not even that.
func (k *kind) headerBrief(obj any) []byte {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok || !k.o.options.Briefs || k.gvk.Kind == "Secret" {
		return nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(k.gvk)
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	u.SetLabels(m.Labels)
	u.SetAnnotations(m.Annotations)
	u.SetUID(m.UID)
	return brief(u)
}
