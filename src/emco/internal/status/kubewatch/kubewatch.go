// Package kubewatch tells how the objects of apps are doing on a cluster that can be
// reached directly. It watches the kinds that it is told to track, only objects that
// carry the label "emco/deployment-id", and judges each by the rules of kstatus.
//
//	API server ──watch──► kind (one per kind) ──► entries ──► changed apps ──debounce──► Deliver
//
// It keeps the verdict on an object and not the object. When the cluster does not
// answer, what was known becomes Unknown, with the time since when; it never stays green.
package kubewatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Options say how a cluster is watched.
type Options struct {
	Cluster  string        // <provider>+<cluster>, for the log
	Debounce time.Duration // how long changes of an app are gathered before it is reported; 500 ms unless given
	Log      *slog.Logger
	// Deliver takes a report of an app whenever its statuses changed. It is called by
	// one goroutine; while it blocks, changes are gathered. A report lists all objects
	// of the app, in the order in which they were tracked.
	Deliver func(context.Context, appcontext.Report)
}

// Client reaches the cluster. Requests for watching should not wait for a limit.
type Client struct {
	Dynamic dynamic.Interface
	Mapper  meta.ResettableRESTMapperWithContext
}

// App is an app to report on.
type App struct {
	Key     appcontext.PairKey
	Objects []manifest.ID // those that are not on the cluster are reported as NotFound
}

// Watcher watches one cluster.
type Watcher struct {
	client  Client
	options Options
	compute func(*unstructured.Unstructured) (*status.Result, error)
	wake    chan struct{} // there is something to arrange or to report

	mu    sync.Mutex
	apps  map[string]*app // by value of the label
	kinds map[schema.GroupVersionKind]*kind
	dirty map[string]bool // apps to report, by value of the label
}

// app is an App with what was last said of it.
type app struct {
	App
	told manifest.Digest
}

// New returns a watcher. It does nothing before Run.
func New(c Client, o Options) *Watcher {
	if o.Debounce == 0 {
		o.Debounce = 500 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		client: c, options: o, compute: compute, wake: make(chan struct{}, 1),
		apps: map[string]*app{}, kinds: map[schema.GroupVersionKind]*kind{}, dirty: map[string]bool{},
	}
}

// Track reports on an app from now on; tracking it again replaces its objects. The
// kinds of its objects are watched from now on if they were not; one that the cluster
// did not know so far is looked up again at once.
func (w *Watcher) Track(a App) {
	w.mu.Lock()
	defer w.mu.Unlock()
	label := labelOf(a.Key)
	tracked := &app{App: a}
	if have := w.apps[label]; have != nil {
		tracked.told = have.told
	}
	w.apps[label] = tracked
	for _, id := range a.Objects {
		if k := w.kinds[gvkOf(id)]; k != nil {
			k.nudge()
		}
	}
	w.changed(label)
}

// Forget ends reporting on an app. Kinds that no other app has are not watched any more.
func (w *Watcher) Forget(key appcontext.PairKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.apps, labelOf(key))
	delete(w.dirty, labelOf(key))
	w.poke()
}

// Run watches until ctx ends. When it returns, all that it started has ended.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	gathering := time.NewTimer(w.options.Debounce)
	defer gathering.Stop()
	for armed := true; ; {
		w.arrange(ctx, &running)
		if !armed && w.anyDirty() {
			gathering.Reset(w.options.Debounce)
			armed = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-gathering.C:
			armed = false
			for _, r := range w.take(time.Now().UTC()) {
				w.options.Deliver(ctx, r)
			}
		}
	}
}

// arrange starts watching kinds that are tracked, and stops watching others.
func (w *Watcher) arrange(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	needed := map[schema.GroupVersionKind]bool{}
	for _, a := range w.apps {
		for _, id := range a.Objects {
			needed[gvkOf(id)] = true
		}
	}
	for gvk, k := range w.kinds {
		if !needed[gvk] {
			k.stop()
			delete(w.kinds, gvk)
		}
	}
	for gvk := range needed {
		if w.kinds[gvk] == nil {
			kindCtx, stop := context.WithCancel(ctx)
			k := newKind(w, gvk, stop)
			w.kinds[gvk] = k
			running.Go(func() { k.run(kindCtx) })
		}
	}
}

// changed marks an app as changed, if it is tracked. The caller holds mu.
func (w *Watcher) changed(label string) {
	if w.apps[label] != nil {
		w.dirty[label] = true
		w.poke()
	}
}

// poke wakes Run.
func (w *Watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) anyDirty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirty) > 0
}

func labelOf(key appcontext.PairKey) string {
	_, value := manifest.DeploymentLabel(key.UID, key.App)
	return value
}

func gvkOf(id manifest.ID) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
}
