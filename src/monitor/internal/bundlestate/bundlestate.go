// Package bundlestate writes upstream's ResourceBundleStates, one for each value of the label
// "emco/deployment-id", for tools on the cluster that read them. A state has short copies of
// the app's objects (observe.Object.Brief), within the size limit of API servers.
//
// A state that someone else created is updated for the app that its selector names, and is
// never deleted. For an app without a state, the writer creates one in the app's namespace,
// and deletes it with the app.
package bundlestate

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

// Resource is the kind as API servers serve it.
var Resource = schema.GroupVersionResource{Group: "k8splugin.io", Version: "v1alpha1", Resource: "resourcebundlestates"}

const (
	kindName        = "ResourceBundleState"
	managedByLabel  = "app.kubernetes.io/managed-by"
	managerName     = "emco-monitor"
	retryPause      = 15 * time.Second // after a failure
	defaultDebounce = time.Second      // how long to collect changes
)

// goneRevision is the revision of a label without objects.
const goneRevision = 0

// appSource is the part of observe.Observer that the writer needs.
type appSource interface {
	Changes() <-chan struct{}
	Settled() bool
	Revisions() map[string]uint64
	Objects(label string) []observe.Object
}

// Writer writes the states. Make it with New.
type Writer struct {
	client   dynamic.Interface
	apps     appSource
	debounce time.Duration
	log      *slog.Logger
	changes  chan struct{} // has a value after a change of a state

	// Only Run touches these.
	writtenRevisions map[string]uint64 // of the observer, by label
	writes           map[stateKey]lastWrite

	mu     sync.Mutex
	synced bool                    // the states were listed; guarded by mu
	states map[stateKey]knownState // on the cluster; guarded by mu
}

// stateKey names a state.
type stateKey struct{ namespace, name string }

// knownState is what is known of a state on the cluster.
type knownState struct {
	label  string
	ours   bool   // this package created it
	digest string // of its status
}

// lastWrite is the last write of a state: the app, the digest of the rendered status, and
// the digest of the status that the API server stored.
type lastWrite struct{ label, rendered, stored string }

// New returns a writer. debounce is how long to collect changes before they are written;
// default one second.
func New(client dynamic.Interface, a appSource, debounce time.Duration, log *slog.Logger) *Writer {
	if debounce <= 0 {
		debounce = defaultDebounce
	}
	return &Writer{
		client: client, apps: a, debounce: debounce, log: log, changes: make(chan struct{}, 1),
		writtenRevisions: map[string]uint64{}, writes: map[stateKey]lastWrite{}, states: map[stateKey]knownState{},
	}
}

// Run writes the states until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		source := kubehealth.Objects(w.client.Resource(Resource))
		kubehealth.Watch{
			Resolve: func(context.Context) (kubehealth.Source, error) { return source, nil },
			Handler: (*stateHandler)(w),
		}.Run(ctx)
	})
	changes, wait, failing := w.apps.Changes(), w.debounce, false
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		err := w.sync(ctx)
		if (err != nil) != failing && ctx.Err() == nil {
			failing = err != nil
			w.log.Warn("resource bundle states", "written", !failing, "err", err)
		}
		if wait = w.debounce; failing {
			wait = retryPause
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
		case <-w.changes:
		}
	}
}

// sync writes the states that someone else changed, and those of apps that changed.
func (w *Writer) sync(ctx context.Context) error {
	w.mu.Lock()
	ready, by := w.synced, w.statesByLabelLocked()
	w.mu.Unlock()
	if !ready || !w.apps.Settled() {
		return nil
	}
	revisions := w.apps.Revisions()
	for label := range by {
		if _, ok := revisions[label]; !ok {
			revisions[label] = goneRevision
		}
	}
	for _, label := range slices.Sorted(maps.Keys(revisions)) {
		if err := w.write(ctx, label, revisions[label], by[label]); err != nil {
			return err
		}
	}
	maps.DeleteFunc(w.writtenRevisions, func(label string, _ uint64) bool { _, ok := revisions[label]; return !ok })
	return nil
}

// statesByLabelLocked returns the states of each label.
func (w *Writer) statesByLabelLocked() map[string]map[stateKey]knownState {
	out := map[string]map[stateKey]knownState{}
	for at, s := range w.states {
		if out[s.label] == nil {
			out[s.label] = map[stateKey]knownState{}
		}
		out[s.label][at] = s
	}
	for at := range w.writes {
		if _, there := w.states[at]; !there {
			delete(w.writes, at)
		}
	}
	return out
}

// write updates the states of one label.
func (w *Writer) write(ctx context.Context, label string, revision uint64, have map[stateKey]knownState) error {
	if rev, known := w.writtenRevisions[label]; known && rev == revision && len(have) > 0 && w.unchanged(have) {
		return nil
	}
	objects := w.apps.Objects(label)
	if len(have) == 0 && len(objects) > 0 {
		made, err := w.create(ctx, label, objects)
		if err != nil {
			return err
		}
		have = map[stateKey]knownState{made: {label: label, ours: true}}
	}
	body := render(objects)
	want := digest(body)
	for at, s := range have {
		if revision == goneRevision && s.ours {
			if err := w.remove(ctx, at); err != nil {
				return err
			}
			continue
		}
		if last, ok := w.writes[at]; ok && last.rendered == want && last.stored == s.digest {
			continue
		}
		stored, err := w.patch(ctx, at, body)
		if err != nil {
			return err
		}
		w.writes[at] = lastWrite{label, want, stored}
	}
	w.writtenRevisions[label] = revision
	return nil
}

// unchanged reports whether states are as they were written.
func (w *Writer) unchanged(have map[stateKey]knownState) bool {
	for at, s := range have {
		if last := w.writes[at]; last.label != s.label || last.stored != s.digest {
			return false
		}
	}
	return true
}

func (w *Writer) create(ctx context.Context, label string, objects []observe.Object) (stateKey, error) {
	at := stateKey{appNamespace(objects), objectName(label)}
	selector := tree{status.DeploymentLabel: label}
	u := &unstructured.Unstructured{Object: tree{
		"spec": tree{"selector": tree{"matchLabels": selector}},
	}}
	u.SetAPIVersion(Resource.GroupVersion().String())
	u.SetKind(kindName)
	u.SetNamespace(at.namespace)
	u.SetName(at.name)
	u.SetLabels(map[string]string{status.DeploymentLabel: label, managedByLabel: managerName})
	_, err := w.client.Resource(Resource).Namespace(at.namespace).Create(ctx, u, metav1.CreateOptions{FieldManager: managerName})
	return at, ignoreExists(err)
}

// patch writes a status. It returns the digest of the status that the API server stored, ""
// if the state is gone.
func (w *Writer) patch(ctx context.Context, at stateKey, body tree) (stored string, err error) {
	text, err := json.Marshal(tree{"status": body})
	if err != nil {
		return "", err
	}
	got, err := w.client.Resource(Resource).Namespace(at.namespace).
		Patch(ctx, at.name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: managerName}, "status")
	if err != nil {
		return "", ignoreAbsent(err)
	}
	return statusDigest(got), nil
}

func (w *Writer) remove(ctx context.Context, at stateKey) error {
	return ignoreAbsent(w.client.Resource(Resource).Namespace(at.namespace).Delete(ctx, at.name, metav1.DeleteOptions{}))
}
