// Package bundlestate keeps EMCO's ResourceBundleState, one for each value of the label
// "emco/deployment-id", so that tools on the cluster which know it go on working. It
// holds what is shown of the app's objects, within the size that an API server takes.
//
// Whoever created one is respected: its selector says which app it is about, and it is
// never deleted. Where there is none, one is made in the app's namespace, and goes when
// the app is gone.
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
	kindName  = "ResourceBundleState"
	madeBy    = "app.kubernetes.io/managed-by"
	maker     = "emco-monitor"
	retry     = 15 * time.Second // after a failure
	firstWait = time.Second      // how long changes are gathered unless told otherwise
)

// gone is the revision of a label that nothing carries any more.
const gone = 0

// apps is what the keeper needs of the observer.
type apps interface {
	Changes() <-chan struct{}
	Settled() bool
	Revisions() map[string]uint64
	Objects(label string) []observe.Object
}

// Keeper keeps the states. Make it with New.
type Keeper struct {
	client  dynamic.Interface
	apps    apps
	gather  time.Duration
	log     *slog.Logger
	changes chan struct{} // of the states

	done map[string]uint64 // by label: revision that was written; used by Run alone
	sent map[key]sent      // likewise

	mu     sync.Mutex
	synced bool
	states map[key]state
}

// key names a state.
type key struct{ namespace, name string }

// state is what is known of a state on the cluster.
type state struct {
	label  string
	ours   bool
	digest string // of its status
}

// sent is what was written last and of which app, and what the API server made of it.
type sent struct{ label, want, stored string }

// New returns a keeper. gather is how long changes are collected before they are
// written; a second unless given.
func New(client dynamic.Interface, a apps, gather time.Duration, log *slog.Logger) *Keeper {
	if gather <= 0 {
		gather = firstWait
	}
	return &Keeper{
		client: client, apps: a, gather: gather, log: log, changes: make(chan struct{}, 1),
		done: map[string]uint64{}, sent: map[key]sent{}, states: map[key]state{},
	}
}

// Run keeps the states until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		source := kubehealth.Objects(k.client.Resource(Resource))
		kubehealth.Watch{
			Resolve: func(context.Context) (kubehealth.Source, error) { return source, nil },
			Handler: (*stateHandler)(k),
		}.Run(ctx)
	})
	changes, wait, failing := k.apps.Changes(), k.gather, false
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		err := k.sync(ctx)
		if (err != nil) != failing && ctx.Err() == nil {
			failing = err != nil
			k.log.Warn("resource bundle states", "written", !failing, "err", err)
		}
		if wait = k.gather; failing {
			wait = retry
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
		case <-k.changes:
		}
	}
}

// sync writes the states of which the app changed, or which somebody else changed.
func (k *Keeper) sync(ctx context.Context) error {
	k.mu.Lock()
	ready, by := k.synced, k.byLabel()
	k.mu.Unlock()
	if !ready || !k.apps.Settled() {
		return nil
	}
	revisions := k.apps.Revisions()
	for label := range by {
		if _, ok := revisions[label]; !ok {
			revisions[label] = gone
		}
	}
	for _, label := range slices.Sorted(maps.Keys(revisions)) {
		if err := k.write(ctx, label, revisions[label], by[label]); err != nil {
			return err
		}
	}
	maps.DeleteFunc(k.done, func(label string, _ uint64) bool { _, ok := revisions[label]; return !ok })
	return nil
}

// byLabel returns the states of each label. The caller holds mu.
func (k *Keeper) byLabel() map[string]map[key]state {
	out := map[string]map[key]state{}
	for at, s := range k.states {
		if out[s.label] == nil {
			out[s.label] = map[key]state{}
		}
		out[s.label][at] = s
	}
	for at := range k.sent {
		if _, there := k.states[at]; !there {
			delete(k.sent, at)
		}
	}
	return out
}

// write brings the states of one label up to date.
func (k *Keeper) write(ctx context.Context, label string, revision uint64, have map[key]state) error {
	if rev, known := k.done[label]; known && rev == revision && len(have) > 0 && k.untouched(have) {
		return nil
	}
	objects := k.apps.Objects(label)
	if len(have) == 0 && len(objects) > 0 {
		made, err := k.create(ctx, label, objects)
		if err != nil {
			return err
		}
		have = map[key]state{made: {label: label, ours: true}}
	}
	body := render(objects)
	want := digest(body)
	for at, s := range have {
		if revision == gone && s.ours {
			if err := k.remove(ctx, at); err != nil {
				return err
			}
			continue
		}
		if last, ok := k.sent[at]; ok && last.want == want && last.stored == s.digest {
			continue
		}
		stored, err := k.patch(ctx, at, body)
		if err != nil {
			return err
		}
		k.sent[at] = sent{label, want, stored}
	}
	k.done[label] = revision
	return nil
}

// untouched says whether states are as they were written.
func (k *Keeper) untouched(have map[key]state) bool {
	for at, s := range have {
		if last := k.sent[at]; last.label != s.label || last.stored != s.digest {
			return false
		}
	}
	return true
}

func (k *Keeper) create(ctx context.Context, label string, objects []observe.Object) (key, error) {
	at := key{home(objects), objectName(label)}
	selector := tree{status.DeploymentLabel: label}
	u := &unstructured.Unstructured{Object: tree{
		"spec": tree{"selector": tree{"matchLabels": selector}},
	}}
	u.SetAPIVersion(Resource.GroupVersion().String())
	u.SetKind(kindName)
	u.SetNamespace(at.namespace)
	u.SetName(at.name)
	u.SetLabels(map[string]string{status.DeploymentLabel: label, madeBy: maker})
	_, err := k.client.Resource(Resource).Namespace(at.namespace).Create(ctx, u, metav1.CreateOptions{FieldManager: maker})
	return at, ignoreExists(err)
}

// patch writes a status and returns the digest of what the API server made of it, ""
// if the state is gone.
func (k *Keeper) patch(ctx context.Context, at key, body tree) (stored string, err error) {
	text, err := json.Marshal(tree{"status": body})
	if err != nil {
		return "", err
	}
	got, err := k.client.Resource(Resource).Namespace(at.namespace).
		Patch(ctx, at.name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: maker}, "status")
	if err != nil {
		return "", ignoreAbsent(err)
	}
	return statusDigest(got), nil
}

func (k *Keeper) remove(ctx context.Context, at key) error {
	return ignoreAbsent(k.client.Resource(Resource).Namespace(at.namespace).Delete(ctx, at.name, metav1.DeleteOptions{}))
}
