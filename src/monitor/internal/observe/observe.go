// Package observe follows all objects on a cluster that carry the label
// "emco/deployment-id", of whatever kind the cluster has and the agent may read.
//
//	discovery ──► kinds ──► one watch each ──► objects, judged ──► apps, by label
//
// It keeps the verdict on an object and what is shown of it, not the object. What cannot
// be seen (a kind that may not be read, or of which the API server tells nothing now) is
// known as such, so that nobody takes its absence for a fact.
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
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
)

// Options say what is followed. Zero values mean the defaults given here.
type Options struct {
	Secrets    bool          // follow Secrets too, by their metadata alone; it needs the right to list them
	Exclude    []string      // kinds that are left alone, as "Kind" or "Kind.group", besides those that are never a user's
	Briefs     bool          // keep what is shown of objects: see Object.Brief
	Discovery  time.Duration // pause between looks for new kinds; 1 minute
	Patience   time.Duration // how long kinds that do not answer hold up the first report; 1 minute
	MaxKinds   int           // kinds that are followed; 300
	MaxObjects int           // objects that are followed; 50,000
	Log        *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Discovery = cmp.Or(o.Discovery, time.Minute)
	o.Patience = cmp.Or(o.Patience, time.Minute)
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

// Connect returns clients. Watches of many kinds begin at once, so the limit of the
// client is above its default; the server has its own.
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

// Object is how one object is doing.
type Object struct {
	status.Object
	Label string
	// Brief is what is shown of the object, as JSON: all of it but for what only servers
	// read and the data of ConfigMaps. Nil for Secrets and for objects that are too large.
	Brief []byte

	applied *reconciler.Applied // if a reconciler says with it what it did for the app
}

// name identifies an object within its kind.
type name struct{ namespace, name string }

// sourceKey identifies an object that is about a whole deployment.
type sourceKey struct {
	kind schema.GroupKind
	name
}

// Observer follows a cluster. Make it with New.
type Observer struct {
	clients Clients
	options Options
	begun   time.Time
	look    chan struct{} // kinds may have come: look for them now

	mu       sync.Mutex
	kinds    map[schema.GroupKind]*kind
	leftOut  map[schema.GroupKind]string     // kinds that are not followed, and why
	looked   bool                            // kinds were discovered
	apps     map[string]*app                 // by label
	sources  map[sourceKey]reconciler.Source // what is said of whole deployments, if anything
	objects  int
	revision uint64
	watchers []chan struct{}
}

// app is what carries one label.
type app struct {
	objects  map[schema.GroupKind]map[name]Object
	count    int
	revision uint64 // of the observer when it changed last
}

// New returns an observer. It does nothing before Run.
func New(c Clients, o Options) *Observer {
	return &Observer{
		clients: c, options: o.withDefaults(), begun: time.Now(), look: make(chan struct{}, 1),
		kinds: map[schema.GroupKind]*kind{}, leftOut: map[schema.GroupKind]string{}, apps: map[string]*app{}, sources: map[sourceKey]reconciler.Source{},
	}
}

// Run follows the cluster until ctx ends.
func (o *Observer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	patience := time.AfterFunc(o.options.Patience, o.touch)
	defer patience.Stop()
	for ctx.Err() == nil {
		pause := o.options.Discovery
		found, err := o.discover(ctx)
		if err != nil && ctx.Err() == nil {
			o.options.Log.Warn("kinds of the cluster cannot be listed", "err", err)
			pause = min(pause, 10*time.Second)
		}
		if len(found.kinds) > 0 {
			o.arrange(ctx, found, &running)
		}
		rest := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-o.look:
		case <-rest.C:
		}
		rest.Stop()
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

// touch wakes who waits for changes.
func (o *Observer) touch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed()
}

// changed tells that something did. The caller holds mu.
func (o *Observer) changed() {
	o.revision++
	for _, c := range o.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Settled says whether all kinds were heard of, or had time enough. Before that the
// absence of an object means nothing.
func (o *Observer) Settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.looked {
		return false
	}
	if time.Since(o.begun) >= o.options.Patience {
		return true
	}
	for _, k := range o.kinds {
		if k.state == waiting {
			return false
		}
	}
	return true
}

// Revisions returns for each label a number that is higher whenever something of it
// changed.
func (o *Observer) Revisions() map[string]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]uint64, len(o.apps))
	for label, a := range o.apps {
		out[label] = a.revision
	}
	return out
}

// Objects returns the objects of a label, in order of kind, namespace and name. Those of
// kinds that are not seen now are left out.
func (o *Observer) Objects(label string) []Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.objectsOf(label)
}

// objectsOf is Objects for who holds mu.
func (o *Observer) objectsOf(label string) []Object {
	a := o.apps[label]
	if a == nil {
		return nil
	}
	out := make([]Object, 0, a.count)
	for gk, its := range a.objects {
		if k := o.kinds[gk]; k != nil && k.state == live {
			out = slices.AppendSeq(out, maps.Values(its))
		}
	}
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// hidden is how many objects a label has of kinds that are not seen now: they were there
// when they were seen last. The caller holds mu.
func (o *Observer) hidden(label string) (n int) {
	for gk, its := range o.apps[label].objects {
		if k := o.kinds[gk]; k == nil || k.state != live {
			n += len(its)
		}
	}
	return n
}

// set takes in an object, or with ok false its end. The caller holds mu.
func (o *Observer) set(gk schema.GroupKind, n name, old, now Object, ok bool) {
	if old.Label != "" && (!ok || old.Label != now.Label) {
		o.drop(gk, n, old.Label)
	}
	if !ok {
		return
	}
	a := o.apps[now.Label]
	if a == nil {
		a = &app{objects: map[schema.GroupKind]map[name]Object{}}
		o.apps[now.Label] = a
	}
	if a.objects[gk] == nil {
		a.objects[gk] = map[name]Object{}
	}
	if _, there := a.objects[gk][n]; !there {
		a.count++
		o.objects++
	}
	a.objects[gk][n] = now
	o.changed()
	a.revision = o.revision
}

func (o *Observer) drop(gk schema.GroupKind, n name, label string) {
	a := o.apps[label]
	if a == nil {
		return
	}
	if _, there := a.objects[gk][n]; !there {
		return
	}
	delete(a.objects[gk], n)
	o.objects--
	o.changed()
	a.revision = o.revision
	if a.count--; a.count == 0 {
		delete(o.apps, label)
	}
}
