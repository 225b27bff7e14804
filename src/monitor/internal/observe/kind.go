package observe

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

// watchState is what is known of a kind.
type watchState uint8

const (
	waiting watchState = iota // not listed yet
	live                      // objects are what the cluster has
	lost                      // the API server does not answer; objects are from its last answer
	refused                   // the agent may not read the kind
	full                      // the cluster has more objects than Options.MaxObjects
)

// refusedPause is how long to wait before a kind that the agent may not read is requested
// again: rights may be granted.
const refusedPause = 5 * time.Minute

// kindWatch watches the objects of one kind. It is the handler of their watch.
type kindWatch struct {
	servedKind
	o    *Observer
	stop context.CancelFunc

	// Guarded by mu of the observer.
	state   watchState
	since   time.Time // of lost and refused
	stopped bool      // calls of the handler that are still under way have no effect
	objects map[objectName]Object
}

func newKindWatch(o *Observer, s servedKind, stop context.CancelFunc) *kindWatch {
	return &kindWatch{servedKind: s, o: o, stop: stop, objects: map[objectName]Object{}}
}

// run watches until ctx ends.
func (k *kindWatch) run(ctx context.Context) {
	source := kubehealth.Objects(k.o.clients.Dynamic.Resource(k.gvr))
	if k.mode == metadataOnly {
		source = kubehealth.Metadata(k.o.clients.Metadata.Resource(k.gvr))
	}
	selector := status.DeploymentLabel
	if k.mode == sourceObject {
		selector = reconcilerstatus.SourceLabel
	}
	kubehealth.Watch{
		Resolve:  func(context.Context) (kubehealth.Source, error) { return source, nil },
		Selector: selector, Handler: k, RefusedPause: refusedPause,
	}.Run(ctx)
}

// stopLocked stops watching and forgets the objects.
func (k *kindWatch) stopLocked() {
	k.stop()
	k.stopped = true
	k.replaceLocked(nil)
}

// reasonLocked returns why the objects are not known now.
func (k *kindWatch) reasonLocked() string {
	switch k.state {
	case refused:
		return "forbidden"
	case full:
		return "there are too many objects"
	case lost:
		return "no answer since " + k.since.UTC().Format(time.RFC3339)
	}
	return "not listed yet"
}

// Put takes an object that is new or has changed. It is judged now, and not kept.
func (k *kindWatch) Put(m metav1.Object) {
	if k.mode == sourceObject {
		s := sourceOf(m)
		k.o.mu.Lock()
		defer k.o.mu.Unlock()
		k.setSourceLocked(nameOf(m), s)
		return
	}
	now, belongs := k.read(m)
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if !k.stopped {
		k.keepLocked(nameOf(m), now, belongs)
	}
}

// Delete takes an object that was deleted.
func (k *kindWatch) Delete(m metav1.Object) {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	n := nameOf(m)
	if k.mode == sourceObject {
		k.setSourceLocked(n, reconcilerstatus.DeploymentStatus{})
		return
	}
	k.o.setLocked(k.gvk.GroupKind(), n, k.objects[n], Object{}, false)
	delete(k.objects, n)
}

// Replace takes all objects, after a start or a gap.
func (k *kindWatch) Replace(objects []metav1.Object) {
	fresh := make(map[objectName]Object, len(objects))
	sources := map[objectName]reconcilerstatus.DeploymentStatus{}
	for _, m := range objects {
		if k.mode == sourceObject {
			sources[nameOf(m)] = sourceOf(m)
		} else if now, belongs := k.read(m); belongs {
			fresh[nameOf(m)] = now
		}
	}
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if k.stopped {
		return
	}
	k.replaceLocked(fresh)
	if k.mode == sourceObject {
		for key := range k.o.sources {
			if key.kind == k.gvk.GroupKind() {
				k.setSourceLocked(key.objectName, sources[key.objectName])
			}
		}
		for n, s := range sources {
			k.setSourceLocked(n, s)
		}
	}
	if k.state != full {
		k.setStateLocked(live, time.Now())
	}
}

// Resumed takes note that nothing was missed since the last watch.
func (k *kindWatch) Resumed() {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if k.state == lost {
		k.setStateLocked(live, time.Now())
	}
}

// Failed takes note of a request that failed.
func (k *kindWatch) Failed(f kubehealth.Failure) {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	switch f.Cause {
	case kubehealth.Refused:
		k.setStateLocked(refused, f.Since)
	case kubehealth.NotServed:
		k.replaceLocked(nil) // the next discovery will drop the kind
		k.setStateLocked(live, f.Since)
	case kubehealth.Unreachable:
		k.setStateLocked(lost, f.Since)
	}
}

// setStateLocked changes the state, and marks all apps that have objects of the kind as changed.
func (k *kindWatch) setStateLocked(s watchState, since time.Time) {
	if k.state == s || k.stopped {
		return
	}
	level := slog.LevelDebug
	if s == lost || k.state == lost {
		level = slog.LevelInfo // an operator may have to act, or no longer has to
	}
	k.state, k.since = s, since
	k.o.options.Log.Log(context.Background(), level, "watch of a kind changed", "kind", k.gvk.String(), "seen", s == live, "reason", k.reasonLocked())
	for _, x := range k.objects {
		if a := k.o.apps[x.Label]; a != nil {
			a.revision = k.o.revision + 1
		}
	}
	k.o.changedLocked()
}

// replaceLocked makes fresh the objects of the kind.
func (k *kindWatch) replaceLocked(fresh map[objectName]Object) {
	for n := range k.objects {
		if _, still := fresh[n]; !still {
			k.keepLocked(n, Object{}, false)
		}
	}
	if k.state == full {
		k.setStateLocked(live, time.Now())
	}
	for n, now := range fresh {
		k.keepLocked(n, now, true)
	}
}

// keepLocked stores an object that belongs to an app, or removes one that no longer does.
func (k *kindWatch) keepLocked(n objectName, now Object, belongs bool) {
	old, had := k.objects[n]
	now = now.after(old)
	switch {
	case had && belongs && equal(old, now), !had && !belongs:
		return
	case belongs && !had && k.o.objects >= k.o.options.MaxObjects:
		k.setStateLocked(full, time.Now())
		return
	}
	if k.gvk.Kind == "CustomResourceDefinition" { // the cluster may serve more kinds
		select {
		case k.o.rediscover <- struct{}{}:
		default:
		}
	}
	k.o.setLocked(k.gvk.GroupKind(), n, old, now, belongs)
	if belongs {
		k.objects[n] = now
	} else {
		delete(k.objects, n)
	}
}

// setSourceLocked stores what a reconciler reports about a whole deployment.
func (k *kindWatch) setSourceLocked(n objectName, s reconcilerstatus.DeploymentStatus) {
	key := sourceKey{k.gvk.GroupKind(), n}
	if k.o.sources[key] == s {
		return
	}
	k.o.sources[key] = s
	if s == (reconcilerstatus.DeploymentStatus{}) {
		delete(k.o.sources, key)
	}
	k.o.changedLocked()
}

// read judges an object. It belongs to no app if it lost its label, or if the cluster
// created it from another object, whose label it copied. Pods and Jobs are reported
// nevertheless.
func (k *kindWatch) read(m metav1.Object) (out Object, belongs bool) {
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
	u, whole := m.(*unstructured.Unstructured)
	if !whole {
		health := kubehealth.OfMetadata(m)
		out.Status, out.Reason = health.Status, health.Reason
		out.Brief = k.metadataBrief(m)
		return out, true
	}
	health := kubehealth.Of(u)
	out.Status, out.Reason = health.Status, health.Reason
	if a, ok := reconcilerstatus.Read(u); ok {
		out.applied = &a
	}
	if k.o.options.Briefs {
		out.Brief = brief(u)
	}
	return out, true
}

// after returns an object as it is after an earlier state. While a reconciler works again,
// the earlier result holds.
func (x Object) after(old Object) Object {
	if x.applied == nil || old.applied == nil {
		return x
	}
	if now, holds := x.applied.After(*old.applied); holds {
		x.applied, x.Status, x.Reason = &now, old.Status, old.Reason
	}
	return x
}

// equal reports whether reports of two states of an object are the same.
func equal(a, b Object) bool {
	return a.Label == b.Label && a.Object == b.Object && string(a.Brief) == string(b.Brief) &&
		(a.applied == nil) == (b.applied == nil) && (a.applied == nil || a.applied.Equal(*b.applied))
}

func nameOf(m metav1.Object) objectName { return objectName{m.GetNamespace(), m.GetName()} }

func sourceOf(m metav1.Object) reconcilerstatus.DeploymentStatus {
	u, ok := m.(*unstructured.Unstructured)
	if !ok {
		return reconcilerstatus.DeploymentStatus{}
	}
	return reconcilerstatus.ReadDeployment(u)
}
