// Package observe watches all objects on a cluster that have the label
// "emco/deployment-id", of every kind that the cluster serves and the agent may read, and the objects of Flux and
// Config Sync with the label "emco/deployment", which stand for whole deployments.
//
//	discovery ──► kinds ──► kubehealth.Watch (one per kind) ──► health of objects ──► apps, by label
//
// It keeps the health of an object and a short copy of it (Object.Brief), not the object. A kind that cannot be
// seen, because the agent may not read it or the API server does not answer, is reported as
// unseen, so its missing objects do not count as deleted. If asked to, it also reads what the
// nodes have free.
package observe

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

// Options configure an Observer. Zero values mean the defaults given here.
type Options struct {
	Secrets    bool          // watch the metadata of Secrets; the agent needs the right to list them
	Exclude    []string      // kinds to ignore, as "Kind" or "Kind.group", in addition to ignoredKinds
	Briefs     bool          // keep briefs of objects: see Object.Brief
	Discovery  time.Duration // pause between two discoveries of kinds; default 1 minute
	ListWait   time.Duration // how long the first report waits for kinds that do not answer; default 1 minute
	MaxKinds   int           // kinds to watch; default 300
	MaxObjects int           // objects to keep; default 50,000
	Capacity   time.Duration // between two reads of what the nodes have free; 0: it is not read
	Log        *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Discovery = cmp.Or(o.Discovery, time.Minute)
	o.ListWait = cmp.Or(o.ListWait, time.Minute)
	o.MaxKinds = cmp.Or(o.MaxKinds, 300)
	o.MaxObjects = cmp.Or(o.MaxObjects, 50_000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Clients reach the API server of the cluster.
type Clients struct {
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Discovery discovery.DiscoveryInterface
}

// Connect returns clients. All watches begin at once, so the client's rate limit is above
// its default; the server has a limit of its own.
func Connect(config *rest.Config) (c Clients, err error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 200
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return c, err
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return c, err
	}
	c.Discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return c, err
}

// Object is the health of one object.
type Object struct {
	status.Object
	Label string
	// Brief is the object as JSON, without what only servers read and without the data of
	// ConfigMaps. It is nil for Secrets and for objects that are too large.
	Brief []byte

	applied *reconcilerstatus.Applied // if a reconciler reports with this object what it did for the app
}

// objectName identifies an object within its kind.
type objectName struct{ namespace, name string }

// sourceKey identifies an object that reports about a whole deployment.
type sourceKey struct {
	kind schema.GroupKind
	objectName
}

// Observer watches a cluster. Make it with New.
type Observer struct {
	clients    Clients
	options    Options
	started    time.Time
	rediscover chan struct{} // a value starts a discovery: the cluster may serve more kinds

	// All below is guarded by mu.
	mu         sync.Mutex
	kinds      map[schema.GroupKind]*kindWatch
	ignored    map[schema.GroupKind]string // kinds that are not watched, and why
	discovered bool                        // a discovery has succeeded
	apps       map[string]*appObjects      // by label
	sources    map[sourceKey]reconcilerstatus.DeploymentStatus
	objects    int    // in all apps
	revision   uint64 // grows with each change
	watchers   []chan struct{}

	capacity     status.Capacity
	capacityRead bool // capacity is the result of a read, or of its failure
}

// appObjects are the objects with one label.
type appObjects struct {
	objects  map[schema.GroupKind]map[objectName]Object
	count    int
	revision uint64 // of the observer at the last change
}

// New returns an observer. It does nothing before Run.
func New(c Clients, o Options) *Observer {
	return &Observer{
		clients: c, options: o.withDefaults(), started: time.Now(), rediscover: make(chan struct{}, 1),
		kinds: map[schema.GroupKind]*kindWatch{}, ignored: map[schema.GroupKind]string{}, apps: map[string]*appObjects{}, sources: map[sourceKey]reconcilerstatus.DeploymentStatus{},
	}
}

// Run watches the cluster until ctx ends. It waits for the goroutines that it started.
func (o *Observer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	listWait := time.AfterFunc(o.options.ListWait, func() { // from now on Settled is true
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changedLocked()
	})
	defer listWait.Stop()
	if o.options.Capacity > 0 {
		watches.Go(func() { o.watchCapacity(ctx) })
	}
	for ctx.Err() == nil {
		pause := o.options.Discovery
		result, err := o.discover(ctx)
		if err != nil && ctx.Err() == nil {
			o.options.Log.Warn("cannot list the kinds of the cluster", "err", err)
			pause = min(pause, 10*time.Second)
		}
		if len(result.kinds) > 0 {
			o.updateKinds(ctx, result, &watches)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-o.rediscover:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// Changes returns a channel that has a value whenever something changed since the last
// value was taken.
func (o *Observer) Changes() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := make(chan struct{}, 1)
	o.watchers = append(o.watchers, c)
	return c
}

// changedLocked counts a change and notifies the channels of Changes.
func (o *Observer) changedLocked() {
	o.revision++
	for _, c := range o.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Settled reports whether all kinds were listed and the nodes were read, or Options.ListWait is over. Before that, a
// missing object may just not have been listed.
func (o *Observer) Settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.discovered {
		return false
	}
	if time.Since(o.started) >= o.options.ListWait {
		return true
	}
	for _, k := range o.kinds {
		if k.state == waiting {
			return false
		}
	}
	return o.capacityRead || o.options.Capacity == 0
}

// Revisions returns a number for each label that grows whenever one of its objects changes.
func (o *Observer) Revisions() map[string]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]uint64, len(o.apps))
	for label, a := range o.apps {
		out[label] = a.revision
	}
	return out
}

// Objects returns the objects with a label, sorted by kind, namespace and name. It leaves
// out those of kinds that cannot be seen now.
func (o *Observer) Objects(label string) []Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.objectsLocked(label)
}

func (o *Observer) objectsLocked(label string) []Object {
	a := o.apps[label]
	if a == nil {
		return nil
	}
	out := make([]Object, 0, a.count)
	for gk, objects := range a.objects {
		if k := o.kinds[gk]; k != nil && k.state == live {
			out = slices.AppendSeq(out, maps.Values(objects))
		}
	}
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// hiddenLocked counts the objects with a label whose kinds cannot be seen now.
func (o *Observer) hiddenLocked(label string) (n int) {
	for gk, objects := range o.apps[label].objects {
		if k := o.kinds[gk]; k == nil || k.state != live {
			n += len(objects)
		}
	}
	return n
}

// setLocked replaces the old state of an object, or removes the object if present is false.
func (o *Observer) setLocked(gk schema.GroupKind, n objectName, old, now Object, present bool) {
	if old.Label != "" && (!present || old.Label != now.Label) {
		o.removeLocked(gk, n, old.Label)
	}
	if !present {
		return
	}
	a := o.apps[now.Label]
	if a == nil {
		a = &appObjects{objects: map[schema.GroupKind]map[objectName]Object{}}
		o.apps[now.Label] = a
	}
	if a.objects[gk] == nil {
		a.objects[gk] = map[objectName]Object{}
	}
	if _, there := a.objects[gk][n]; !there {
		a.count++
		o.objects++
	}
	a.objects[gk][n] = now
	o.changedLocked()
	a.revision = o.revision
}

func (o *Observer) removeLocked(gk schema.GroupKind, n objectName, label string) {
	a := o.apps[label]
	if a == nil {
		return
	}
	if _, there := a.objects[gk][n]; !there {
		return
	}
	delete(a.objects[gk], n)
	o.objects--
	o.changedLocked()
	a.revision = o.revision
	if a.count--; a.count == 0 {
		delete(o.apps, label)
	}
}
