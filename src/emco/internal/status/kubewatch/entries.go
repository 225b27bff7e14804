package kubewatch

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// maxReason bounds what is kept of a reason, in bytes.
const maxReason = 256

// entries is a kind as the store that a reflector fills. Objects are judged as they
// come and then let go.
type entries kind

// Add takes an object that is new.
func (e *entries) Add(obj any) error { return e.put(obj) }

// Update takes an object that changed.
func (e *entries) Update(obj any) error { return e.put(obj) }

// Delete takes an object that went.
func (e *entries) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	key := keyOf(u)
	e.changed(e.entries[key])
	delete(e.entries, key)
	return nil
}

// Replace takes all objects that there are, after a start or a gap.
func (e *entries) Replace(list []any, _ string) error {
	fresh := make(map[entryKey]entry, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			fresh[keyOf(u)] = e.judge(u)
		}
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for key, old := range e.entries {
		if fresh[key] != old {
			e.changed(old)
		}
	}
	for key, now := range fresh {
		if e.entries[key] != now {
			e.changed(now)
		}
	}
	e.entries, e.complete = fresh, true
	(*kind)(e).become(live, "")
	return nil
}

// Resync does nothing: nothing is derived from the entries that could be out of step.
func (e *entries) Resync() error { return nil }

// changed marks the apps that an object is of. The caller holds mu of the watcher.
func (e *entries) changed(x entry) {
	if k := (*kind)(e); k.shared() {
		k.changed()
		return
	}
	e.w.changed(x.label)
}

// put takes one object.
func (e *entries) put(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	now := e.judge(u)
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	key := keyOf(u)
	if old := e.entries[key]; old != now {
		e.changed(old)
		e.changed(now)
	}
	e.entries[key] = now
	return nil
}

// judge computes how an object is doing. An object on which that fails, or panics,
// is Unknown, and stops no other.
func (e *entries) judge(u *unstructured.Unstructured) (out entry) {
	key, _ := manifest.DeploymentLabel("", "")
	out = entry{u.GetLabels()[key], u.GetAnnotations()[manifest.StampKey], verdict{status.UnknownStatus, "status cannot be computed"}}
	defer func() {
		if p := recover(); p != nil {
			e.w.options.Log.Error("status of an object cannot be computed", "cluster", e.w.options.Cluster,
				"kind", e.gvk.String(), "namespace", u.GetNamespace(), "name", u.GetName(), "err", fmt.Sprint(p))
		}
	}()
	result, err := e.w.compute(u)
	if err != nil {
		return out
	}
	out.verdict = verdict{result.Status, ""}
	if result.Status != status.CurrentStatus {
		out.reason = short(result.Message)
	}
	return out
}

func short(text string) string {
	if len(text) > maxReason {
		return strings.ToValidUTF8(text[:maxReason], "")
	}
	return text
}

func keyOf(u *unstructured.Unstructured) entryKey {
	return entryKey{u.GetNamespace(), u.GetName()}
}
