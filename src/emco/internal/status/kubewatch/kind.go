package kubewatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// state is what is known of a kind on the cluster.
type state uint8

const (
	waiting     state = iota // nothing yet
	live                     // entries are what the cluster says
	lost                     // the cluster does not answer; entries are what it said last
	unknownKind              // the cluster does not serve the kind
)

// How long to wait before a kind that the cluster does not serve, or a cluster that
// does not answer, is asked again.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// patience is how long a request may stay without an answer before what is known of
// the kind is doubted.
const patience = 3 * time.Second

// entryKey names an object of a kind.
type entryKey struct{ namespace, name string }

// entry is all that is kept of an object.
type entry struct {
	label   string
	content string // the object's stamp
	verdict
}

// kind watches the objects of one kind. Its fields below nudged are guarded by mu of
// the watcher.
type kind struct {
	w      *Watcher
	gvk    schema.GroupVersionKind
	stop   context.CancelFunc
	nudged chan struct{}

	state         state
	since         time.Time // of lost: when the first request that failed began
	why           string    // of lost
	clusterScoped bool
	complete      bool // entries are all that there was at some time
	entries       map[entryKey]entry
}

func newKind(w *Watcher, gvk schema.GroupVersionKind, stop context.CancelFunc) *kind {
	return &kind{w: w, gvk: gvk, stop: stop, nudged: make(chan struct{}, 1), entries: map[entryKey]entry{}}
}

// nudge ends a pause.
func (k *kind) nudge() {
	select {
	case k.nudged <- struct{}{}:
	default:
	}
}

// run finds out where the kind is served, then watches it until ctx ends.
func (k *kind) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // what matters is logged here, once per transition
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		answered := k.expectAnswer(ctx)
		mapping, err := k.w.client.Mapper.RESTMappingWithContext(ctx, k.gvk.GroupKind(), k.gvk.Version)
		answered(err)
		if err == nil {
			k.watch(ctx, mapping)
			return
		}
		if k.rest(ctx, pause) {
			pause = firstPause / 2
		}
		if meta.IsNoMatchError(err) && ctx.Err() == nil {
			k.w.client.Mapper.ResetWithContext(ctx)
		}
	}
}

// rest pauses, with jitter; it reports whether the pause was ended by a nudge.
func (k *kind) rest(ctx context.Context, pause time.Duration) (nudged bool) {
	t := time.NewTimer(pause + rand.N(pause/4))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-k.nudged:
		return true
	}
	return false
}

// watch lists and watches the kind until ctx ends, and comes back after a disconnect.
func (k *kind) watch(ctx context.Context, mapping *meta.RESTMapping) {
	k.w.mu.Lock()
	k.clusterScoped = mapping.Scope.Name() == meta.RESTScopeNameRoot
	k.w.mu.Unlock()
	quiet := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(
		k.source(k.w.client.Dynamic.Resource(mapping.Resource)), &unstructured.Unstructured{}, (*entries)(k),
		cache.ReflectorOptions{Name: "kubewatch", Logger: &quiet},
	)
	reflector.RunWithContext(ctx)
}

// source lists and watches objects that carry the label, whatever its value, and
// notes whether the cluster answers.
func (k *kind) source(r dynamic.NamespaceableResourceInterface) *cache.ListWatch {
	key, _ := manifest.DeploymentLabel("", "")
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = key
			answered := k.expectAnswer(ctx)
			list, err := r.List(ctx, o)
			answered(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = key
			answered := k.expectAnswer(ctx)
			events, err := r.Watch(ctx, o)
			if err == nil && reflect.TypeOf(events) == brokenWatch {
				events, err = nil, errNoAnswer
			}
			answered(err)
			if err == nil && o.SendInitialEvents == nil {
				k.resumed()
			}
			return events, err
		},
	}
}

// brokenWatch is what the client returns, without an error, when the connection breaks
// before the server has answered.
var brokenWatch = reflect.TypeOf(watch.NewEmptyWatch())

var errNoAnswer = errors.New("the connection broke before there was an answer")

// expectAnswer notes the start of a request. The function that it returns takes the
// outcome. A request that has no answer for a while counts as failed already: the
// client by itself tries some failures again for many seconds before it tells.
func (k *kind) expectAnswer(ctx context.Context) (answered func(error)) {
	started, over := time.Now().UTC(), false
	late := time.AfterFunc(patience, func() {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		if !over && ctx.Err() == nil {
			k.failed(errNoAnswer, started)
		}
	})
	return func(err error) {
		late.Stop()
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		over = true
		if err != nil && ctx.Err() == nil { // otherwise it was we who gave up
			k.failed(err, started)
		}
	}
}

// resumed notes that a watch goes on where the last one broke off: nothing was
// missed, so the entries count again. Otherwise they count once they were replaced.
func (k *kind) resumed() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.state == lost && k.complete {
		k.become(live, "")
	}
}

// failed notes that a request which began at some time was not answered, or was
// refused. That a version to resume from is too old, or that the server is busy, says
// nothing about the objects. The caller holds mu of the watcher.
func (k *kind) failed(err error, began time.Time) {
	if k.state != lost {
		k.since = began
	}
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		clear(k.entries)
		k.complete = false
		k.become(unknownKind, "")
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		k.become(lost, "refused")
	default:
		k.become(lost, "no answer")
	}
}

// become changes the state and marks every app that has objects of the kind. The
// caller holds mu of the watcher.
func (k *kind) become(s state, why string) {
	if k.state == s && k.why == why {
		return
	}
	level := slog.LevelDebug
	if s == lost || k.state == lost {
		level = slog.LevelInfo // an operator may have to act, or need not any more
	}
	k.w.options.Log.Log(context.Background(), level, "watching of a kind changed", "cluster", k.w.options.Cluster, "kind", k.gvk.String(),
		"from", k.state.String(), "to", s.String(), "reason", why)
	k.state, k.why = s, why
	k.changed()
}

// shared reports whether objects of the kind are of all apps that name them: a definition
// carries the label of the app that was applied last.
func (k *kind) shared() bool {
	return manifest.IsCRD(manifest.ID{Group: k.gvk.Group, Kind: k.gvk.Kind})
}

// changed marks every app that has objects of the kind. The caller holds mu of the watcher.
func (k *kind) changed() {
	for label, a := range k.w.apps {
		for _, id := range a.Objects {
			if gvkOf(id) == k.gvk {
				k.w.changed(label)
				break
			}
		}
	}
}

// String returns the state's name, for the log.
func (s state) String() string {
	return [...]string{"waiting", "live", "lost", "unknown kind"}[s]
}
