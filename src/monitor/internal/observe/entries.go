package observe

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/judge"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
)

// Gone takes an object that went.
func (k *kind) Gone(m metav1.Object) {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	n := nameOf(m)
	if k.form == source {
		k.hear(n, reconciler.Source{})
		return
	}
	k.o.set(k.gvk.GroupKind(), n, k.entries[n], Object{}, false)
	delete(k.entries, n)
}

// All takes all objects that there are, after a start or a gap.
func (k *kind) All(objects []metav1.Object) {
	fresh := make(map[name]Object, len(objects))
	said := map[name]reconciler.Source{}
	for _, m := range objects {
		n := nameOf(m)
		if k.form == source {
			said[n] = saidBy(m)
		} else if now, of := k.read(m); of {
			fresh[n] = now
		}
	}
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if k.ended {
		return
	}
	k.replace(fresh)
	if k.form == source {
		for of := range k.o.sources {
			if of.kind == k.gvk.GroupKind() {
				k.hear(of.name, said[of.name])
			}
		}
		for n, what := range said {
			k.hear(n, what)
		}
	}
	if k.state != full {
		k.become(live, time.Now())
	}
}

// Put takes one object. It is judged as it comes, and then let go.
func (k *kind) Put(m metav1.Object) {
	n := nameOf(m)
	if k.form == source {
		k.o.mu.Lock()
		defer k.o.mu.Unlock()
		k.hear(n, saidBy(m))
		return
	}
	now, of := k.read(m)
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if !k.ended {
		k.keep(n, now, of)
	}
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
	now = now.after(old)
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

// after is a reading of an object that follows another one.
func (x Object) after(old Object) Object {
	if x.applied == nil || old.applied == nil {
		return x
	}
	if now, stands := x.applied.After(*old.applied); stands {
		x.applied, x.Status, x.Reason = &now, old.Status, old.Reason
	}
	return x
}

// same says whether nobody could tell two readings of an object apart.
func same(a, b Object) bool {
	return a.Label == b.Label && a.Object == b.Object && string(a.Brief) == string(b.Brief) &&
		(a.applied == nil) == (b.applied == nil) && (a.applied == nil || a.applied.Equal(*b.applied))
}

// read judges an object. It is of no app if it lost its label, or if it was made by the
// cluster out of another object, whose label it shows; Pods and Jobs are of interest
// nevertheless.
func (k *kind) read(m metav1.Object) (out Object, of bool) {
	if out.Label = m.GetLabels()[status.DeploymentLabel]; out.Label == "" {
		return out, false
	}
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
	u, isWhole := m.(*unstructured.Unstructured)
	if !isWhole {
		out.Status, out.Reason = judge.Metadata(m)
		out.Brief = k.headerBrief(m)
		return out, true
	}
	out.Status, out.Reason = judge.Object(u)
	if a, says := reconciler.Read(u); says {
		out.applied = &a
	}
	if k.o.options.Briefs {
		out.Brief = brief(u)
	}
	return out, true
}

// hear notes what is said of a whole deployment. The caller holds mu of the observer.
func (k *kind) hear(n name, what reconciler.Source) {
	of := sourceKey{k.gvk.GroupKind(), n}
	if k.o.sources[of] == what {
		return
	}
	k.o.sources[of] = what
	if what == (reconciler.Source{}) {
		delete(k.o.sources, of)
	}
	k.o.changed()
}

func nameOf(m metav1.Object) name { return name{m.GetNamespace(), m.GetName()} }

func saidBy(m metav1.Object) reconciler.Source {
	u, ok := m.(*unstructured.Unstructured)
	if !ok {
		return reconciler.Source{}
	}
	return reconciler.ReadSource(u)
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
func (k *kind) headerBrief(o metav1.Object) []byte {
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
