// Package kubewatch reports the health of the objects of apps on a cluster that can be
// reached directly. It watches the kinds of the tracked apps, restricted to objects with
// the label "emco/deployment-id"; package kubehealth watches and judges them.
//
//	API server ──kubehealth──► kindWatch (one per kind) ──► changed apps ──debounce──► Deliver
//
// It keeps the health of an object and not the object. When the cluster does not answer,
// the last known health becomes Unknown, with the time since when.
package kubewatch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Options configure the watch of a cluster.
type Options struct {
	Cluster  v2.ClusterKey // for the log
	Debounce time.Duration // how long to collect changes of an app before it is reported; default 500 ms
	// AnswerTimeout is how long a request may stay unanswered before the statuses become
	// Unknown; default 3 s.
	AnswerTimeout time.Duration
	Log           *slog.Logger
	// Deliver takes a report of an app whenever its statuses changed. Run calls it; while it
	// blocks, changes are collected. A report lists all objects of the app, in tracking
	// order.
	Deliver func(context.Context, appcontext.Report)
}

// Client reaches the cluster. It should not limit the rate of requests: watches are few.
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
	wake    chan struct{} // a value makes Run compare kinds and apps again

	mu    sync.Mutex
	apps  map[string]*trackedApp                 // by value of the label; guarded by mu
	kinds map[schema.GroupVersionKind]*kindWatch // guarded by mu
	dirty map[string]bool                        // values of labels of apps to report; guarded by mu
}

// trackedApp is an app and its last report. It is guarded by mu of the watcher.
type trackedApp struct {
	App
	reported manifest.Digest // of the statuses in the last report
}

// New returns a watcher. It does nothing before Run.
func New(c Client, o Options) *Watcher {
	if o.Debounce == 0 {
		o.Debounce = 500 * time.Millisecond
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		client: c, options: o, wake: make(chan struct{}, 1),
		apps: map[string]*trackedApp{}, kinds: map[schema.GroupVersionKind]*kindWatch{}, dirty: map[string]bool{},
	}
}

// Track starts to report on an app; tracking it again replaces its objects. Run starts to
// watch kinds that are new. A kind that the cluster did not serve is looked up again at once.
func (w *Watcher) Track(a App) {
	w.mu.Lock()
	defer w.mu.Unlock()
	label := labelOf(a.Key)
	tracked := &trackedApp{App: a}
	if have := w.apps[label]; have != nil {
		tracked.reported = have.reported
	}
	w.apps[label] = tracked
	for _, id := range a.Objects {
		if k := w.kinds[gvkOf(id)]; k != nil {
			k.lookUpAgain()
		}
	}
	w.markDirtyLocked(label)
}

// Forget stops reporting on an app. Run stops watching kinds that no other app has.
func (w *Watcher) Forget(key appcontext.PairKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.apps, labelOf(key))
	delete(w.dirty, labelOf(key))
	w.wakeRun()
}

// Run watches until ctx ends. It waits for the goroutines that it started.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	debounce := time.NewTimer(w.options.Debounce)
	defer debounce.Stop()
	for armed := true; ; {
		w.updateKinds(ctx, &watches)
		if !armed && w.anyDirty() {
			debounce.Reset(w.options.Debounce)
			armed = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-debounce.C:
			armed = false
			for _, r := range w.changedReports(time.Now().UTC()) {
				w.options.Deliver(ctx, r)
			}
		}
	}
}

// updateKinds starts to watch kinds that apps need, and stops to watch all others.
func (w *Watcher) updateKinds(ctx context.Context, watches *sync.WaitGroup) {
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
			k := newKindWatch(w, gvk, stop)
			w.kinds[gvk] = k
			watches.Go(func() { k.run(kindCtx) })
		}
	}
}

// changedReports returns reports of the apps whose statuses differ from their last report.
// It leaves out apps with a kind that was not listed yet.
func (w *Watcher) changedReports(now time.Time) []appcontext.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []appcontext.Report
	for _, label := range slices.Sorted(maps.Keys(w.dirty)) {
		a := w.apps[label]
		delete(w.dirty, label) // a kind that was not listed yet marks it again
		statuses, complete := w.statusesLocked(a, label)
		if digest := digestOf(statuses); complete && digest != a.reported {
			a.reported = digest
			out = append(out, appcontext.Report{Key: a.Key, Resources: statuses, At: now})
		}
	}
	return out
}

// statusesLocked returns the status of each object of an app; complete is false if one of
// its kinds was not listed yet.
func (w *Watcher) statusesLocked(a *trackedApp, label string) (out []appcontext.ResourceStatus, complete bool) {
	out = make([]appcontext.ResourceStatus, len(a.Objects))
	for i, id := range a.Objects {
		k := w.kinds[gvkOf(id)]
		if k == nil || k.state == waiting {
			return nil, false
		}
		out[i] = k.statusLocked(id, label)
	}
	return out, true
}

// markDirtyLocked has Run report an app, if it is tracked.
func (w *Watcher) markDirtyLocked(label string) {
	if w.apps[label] != nil {
		w.dirty[label] = true
		w.wakeRun()
	}
}

func (w *Watcher) wakeRun() {
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
	_, value := manifest.DeploymentLabel(key.Deployment, key.App)
	return value
}

func gvkOf(id manifest.ID) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
}
