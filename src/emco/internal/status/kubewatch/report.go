package kubewatch

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// take returns reports of the apps that changed and of which the statuses differ from
// what was last said. An app of which a kind was not heard of yet has no report.
func (w *Watcher) take(now time.Time) []appcontext.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []appcontext.Report
	for _, label := range slices.Sorted(maps.Keys(w.dirty)) {
		a := w.apps[label]
		delete(w.dirty, label) // a kind that was not heard of yet marks it again
		resources, complete := w.resources(a, label)
		if told := digestOf(resources); complete && told != a.told {
			a.told = told
			out = append(out, appcontext.Report{Key: a.Key, Resources: resources, At: now})
		}
	}
	return out
}

// resources returns how each object of an app is doing; incomplete while a kind was
// never heard of. The caller holds mu.
func (w *Watcher) resources(a *app, label string) (out []appcontext.ResourceStatus, complete bool) {
	out = make([]appcontext.ResourceStatus, len(a.Objects))
	for i, id := range a.Objects {
		k := w.kinds[gvkOf(id)]
		if k == nil || k.state == waiting {
			return nil, false
		}
		verdict, content := k.verdict(id, label)
		out[i] = appcontext.ResourceStatus{ID: id, Status: string(verdict.status), Reason: verdict.reason, Content: content}
	}
	return out, true
}

// verdict is how one object is doing.
type verdict struct {
	status status.Status
	reason string
}

// verdict says how an object of the kind is doing, and which content it had last. The
// caller holds mu of the watcher.
func (k *kind) verdict(id manifest.ID, label string) (verdict, string) {
	key := entryKey{id.Namespace, id.Name}
	if k.clusterScoped {
		key.namespace = ""
	}
	have, there := k.entries[key]
	if there && have.label != label && !k.shared() {
		there = false
	}
	switch {
	case k.state == unknownKind:
		return verdict{status.NotFoundStatus, "the cluster does not know this kind"}, ""
	case k.state == lost && there:
		return verdict{status.UnknownStatus, k.lostReason() + "; was " + string(have.status)}, have.content
	case k.state == lost:
		return verdict{status.UnknownStatus, k.lostReason()}, ""
	case !there:
		return verdict{status.NotFoundStatus, ""}, ""
	}
	return have.verdict, have.content
}

// lostReason says since when the cluster tells nothing about the kind.
func (k *kind) lostReason() string {
	return "no word since " + k.since.Format(time.RFC3339) + " (" + k.why + ")"
}

// digestOf identifies a set of statuses. Marshalling plain strings cannot fail.
func digestOf(resources []appcontext.ResourceStatus) manifest.Digest {
	text, err := json.Marshal(resources)
	if err != nil {
		return ""
	}
	return manifest.DigestOf(text)
}
