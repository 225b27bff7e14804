package kubewatch

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/kubehealth"
)

// watchState is what is known of a kind on the cluster.
type watchState uint8

const (
	waiting     watchState = iota // not listed yet
	live                          // objects are what the cluster has
	lost                          // the cluster does not answer; objects are from its last answer
	unknownKind                   // the cluster does not serve the kind
)

// objectKey names an object of a kind.
type objectKey struct{ namespace, name string }

// watchedObject is all that is kept of an object.
type watchedObject struct {
	label   string
	content string // the object's stamp
	health  kubehealth.Health
}

// kindWatch watches the objects of one kind. It is the handler of their watch.
type kindWatch struct {
	w      *Watcher
	gvk    schema.GroupVersionKind
	stop   context.CancelFunc
	lookUp chan struct{} // a value ends a pause between two look-ups of the kind

	// Guarded by mu of the watcher.
	state         watchState
	since         time.Time // in state lost: when the first request that failed began
	why           string    // in state lost
	clusterScoped bool
	listed        bool // objects were complete at some time
	objects       map[objectKey]watchedObject
}

func newKindWatch(w *Watcher, gvk schema.GroupVersionKind, stop context.CancelFunc) *kindWatch {
	return &kindWatch{w: w, gvk: gvk, stop: stop, lookUp: make(chan struct{}, 1), objects: map[objectKey]watchedObject{}}
}

// run watches until ctx ends.
func (k *kindWatch) run(ctx context.Context) {
	key, _ := manifest.DeploymentLabel("", "")
	unknown := false
	resolve := func(ctx context.Context) (kubehealth.Source, error) {
		if unknown {
			k.w.client.Mapper.ResetWithContext(ctx)
		}
		mapping, err := k.w.client.Mapper.RESTMappingWithContext(ctx, k.gvk.GroupKind(), k.gvk.Version)
		if err != nil {
			unknown = meta.IsNoMatchError(err)
			return kubehealth.Source{}, err
		}
		k.w.mu.Lock()
		k.clusterScoped = mapping.Scope.Name() == meta.RESTScopeNameRoot
		k.w.mu.Unlock()
		return kubehealth.Objects(k.w.client.Dynamic.Resource(mapping.Resource)), nil
	}
	kubehealth.Watch{Resolve: resolve, Retry: k.lookUp, Selector: key, Handler: k, AnswerTimeout: k.w.options.AnswerTimeout}.Run(ctx)
}

func (k *kindWatch) lookUpAgain() {
	select {
	case k.lookUp <- struct{}{}:
	default:
	}
}

// Put takes an object that is new or has changed. It is judged now, and not kept.
func (k *kindWatch) Put(o metav1.Object) {
	now := judged(o)
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	key := keyOf(o)
	if old := k.objects[key]; old != now {
		k.objectChangedLocked(old)
		k.objectChangedLocked(now)
	}
	k.objects[key] = now
}

// Delete takes an object that was deleted.
func (k *kindWatch) Delete(o metav1.Object) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	key := keyOf(o)
	k.objectChangedLocked(k.objects[key])
	delete(k.objects, key)
}

// Replace takes all objects, after a start or a gap.
func (k *kindWatch) Replace(list []metav1.Object) {
	fresh := make(map[objectKey]watchedObject, len(list))
	for _, o := range list {
		fresh[keyOf(o)] = judged(o)
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	for key, old := range k.objects {
		if fresh[key] != old {
			k.objectChangedLocked(old)
		}
	}
	for key, now := range fresh {
		if k.objects[key] != now {
			k.objectChangedLocked(now)
		}
	}
	k.objects, k.listed = fresh, true
	k.setStateLocked(live, "")
}

// Resumed takes note that nothing was missed since the last watch, so the objects count again.
func (k *kindWatch) Resumed() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.state == lost && k.listed {
		k.setStateLocked(live, "")
	}
}

// Failed takes note of a request that failed.
func (k *kindWatch) Failed(f kubehealth.Failure) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.state != lost {
		k.since = f.Since.UTC()
	}
	switch f.Cause {
	case kubehealth.NotServed:
		clear(k.objects)
		k.listed = false
		k.setStateLocked(unknownKind, "")
	case kubehealth.Refused:
		k.setStateLocked(lost, "refused")
	case kubehealth.Unreachable:
		k.setStateLocked(lost, "no answer")
	}
}

// setStateLocked changes the state and marks every app that has objects of the kind.
func (k *kindWatch) setStateLocked(s watchState, why string) {
	if k.state == s && k.why == why {
		return
	}
	level := slog.LevelDebug
	if s == lost || k.state == lost {
		level = slog.LevelInfo // an operator may have to act, or no longer has to
	}
	k.w.options.Log.Log(context.Background(), level, "watch of a kind changed", "cluster", k.w.options.Cluster, "kind", k.gvk.String(),
		"from", k.state.String(), "to", s.String(), "reason", why)
	k.state, k.why = s, why
	k.kindChangedLocked()
}

// objectChangedLocked marks the apps that an object belongs to.
func (k *kindWatch) objectChangedLocked(o watchedObject) {
	if k.shared() {
		k.kindChangedLocked()
		return
	}
	k.w.markDirtyLocked(o.label)
}

// kindChangedLocked marks every app that has objects of the kind.
func (k *kindWatch) kindChangedLocked() {
	for label, a := range k.w.apps {
		for _, id := range a.Objects {
			if gvkOf(id) == k.gvk {
				k.w.markDirtyLocked(label)
				break
			}
		}
	}
}

// shared reports whether an object of the kind belongs to all apps that name it: a
// definition has the label of the app that was applied last.
func (k *kindWatch) shared() bool {
	return manifest.IsCRD(manifest.ID{Group: k.gvk.Group, Kind: k.gvk.Kind})
}

// statusLocked returns the status of one object of an app.
func (k *kindWatch) statusLocked(id manifest.ID, label string) appcontext.ResourceStatus {
	key := objectKey{id.Namespace, id.Name}
	if k.clusterScoped {
		key.namespace = ""
	}
	have, there := k.objects[key]
	if there && have.label != label && !k.shared() {
		there = false
	}
	out := appcontext.ResourceStatus{ID: id}
	switch {
	case k.state == unknownKind:
		out.Status, out.Reason = status.NotFound, "the cluster does not know this kind"
	case k.state == lost:
		out.Status, out.Reason = status.Unknown, k.why+" since "+k.since.Format(time.RFC3339)
		if !k.listed {
			out.Reason = k.why + " yet; first tried at " + k.since.Format(time.RFC3339)
		}
		if there {
			out.Reason += "; was " + have.health.Status
			out.Content = have.content
		}
	case !there:
		out.Status = status.NotFound
	default:
		out.Status, out.Reason, out.Content = have.health.Status, have.health.Reason, have.content
	}
	return out
}

// judged returns what is kept of an object.
func judged(o metav1.Object) watchedObject {
	key, _ := manifest.DeploymentLabel("", "")
	out := watchedObject{label: o.GetLabels()[key], content: o.GetAnnotations()[manifest.StampKey]}
	if u, ok := o.(*unstructured.Unstructured); ok {
		out.health = kubehealth.Of(u)
	}
	return out
}

func keyOf(o metav1.Object) objectKey { return objectKey{o.GetNamespace(), o.GetName()} }

// digestOf identifies a set of statuses. Marshalling plain strings cannot fail.
func digestOf(statuses []appcontext.ResourceStatus) manifest.Digest {
	text, err := json.Marshal(statuses)
	if err != nil {
		return ""
	}
	return manifest.DigestOf(text)
}

// String returns the state's name, for the log.
func (s watchState) String() string {
	return [...]string{"waiting", "live", "lost", "unknown kind"}[s]
}
