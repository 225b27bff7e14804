package observe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/reconciler"
	"github.com/emco-orchestrator/emco/src/monitor/internal/watchstore"
)

// state is what is known of a kind.
type state uint8

const (
	waiting state = iota // nothing yet
	live                 // entries are what the cluster says
	lost                 // the API server does not answer; entries are what it said last
	refused              // the agent may not read the kind
	full                 // there are more objects than are followed
)

const (
	refusedPause = 5 * time.Minute // before a kind that may not be read is asked for again
	patience     = 5 * time.Second // a request that stays without an answer for longer has failed
)

// kind follows the objects of one kind. The fields below stop are guarded by mu of the
// observer.
type kind struct {
	served
	o    *Observer
	stop context.CancelFunc

	state   state
	since   time.Time // of lost and refused
	ended   bool
	entries map[name]Object
}

func newKind(o *Observer, s served, stop context.CancelFunc) *kind {
	return &kind{served: s, o: o, stop: stop, entries: map[name]Object{}}
}

// end stops following and forgets what there was. The caller holds mu of the observer.
func (k *kind) end() {
	k.stop()
	k.ended = true
	k.replace(nil)
}

// reason says why the kind is not seen.
func (k *kind) reason() string {
	switch k.state {
	case refused:
		return "forbidden"
	case full:
		return "there are too many objects"
	case lost:
		return "no answer since " + k.since.UTC().Format(time.RFC3339)
	}
	return "not listed yet"
}

// run follows until ctx ends. Where it is not allowed to, it asks again at long intervals:
// rights may be granted.
func (k *kind) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // what matters is logged here, once per transition
	for ctx.Err() == nil {
		k.follow(ctx)
		rest := time.NewTimer(refusedPause + rand.N(refusedPause/4))
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		rest.Stop()
	}
}

// follow lists and watches until ctx ends or the agent is refused.
func (k *kind) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := klog.Logger{}
	var example runtime.Object = &unstructured.Unstructured{}
	if k.form == header {
		example = &metav1.PartialObjectMetadata{}
	}
	reflector := cache.NewReflectorWithOptions(k.requests(cancel), example, watchstore.Store{Taker: k}, cache.ReflectorOptions{Name: "observe", Logger: &quiet})
	reflector.RunWithContext(ctx)
}

// requests list and watch what carries the label, and note whether there is an answer.
func (k *kind) requests(giveUp func()) *cache.ListWatch {
	selector := status.DeploymentLabel
	if k.form == source {
		selector = reconciler.SourceLabel
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			answered := k.expectAnswer(ctx, giveUp)
			list, err := k.list(ctx, o)
			answered(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			answered := k.expectAnswer(ctx, giveUp)
			events, err := k.open(ctx, o)
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

func (k *kind) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if k.form == header {
		return k.o.clients.Metadata.Resource(k.gvr).List(ctx, o)
	}
	return k.o.clients.Dynamic.Resource(k.gvr).List(ctx, o)
}

func (k *kind) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if k.form == header {
		return k.o.clients.Metadata.Resource(k.gvr).Watch(ctx, o)
	}
	return k.o.clients.Dynamic.Resource(k.gvr).Watch(ctx, o)
}

// brokenWatch is what the client returns, without an error, when the connection breaks
// before the server has answered.
var brokenWatch = reflect.TypeOf(watch.NewEmptyWatch())

var errNoAnswer = errors.New("the connection broke before there was an answer")

// expectAnswer notes the start of a request; what it returns takes the outcome. The
// client by itself tries some failures again for many seconds before it tells, so that
// a request without an answer counts as failed after a while.
func (k *kind) expectAnswer(ctx context.Context, giveUp func()) (answered func(error)) {
	began, over := time.Now(), false
	late := time.AfterFunc(patience, func() {
		k.o.mu.Lock()
		defer k.o.mu.Unlock()
		if !over && ctx.Err() == nil {
			k.failed(errNoAnswer, began)
		}
	})
	return func(err error) {
		late.Stop()
		k.o.mu.Lock()
		over = true
		if err != nil && ctx.Err() == nil { // otherwise it was we who gave up
			k.failed(err, began)
		}
		gone := k.state == refused
		k.o.mu.Unlock()
		if gone && err != nil {
			giveUp()
		}
	}
}

// failed notes a request that was not answered, or refused. That a version to resume
// from is too old, or that the server is busy, says nothing about the objects. The
// caller holds mu of the observer.
func (k *kind) failed(err error, began time.Time) {
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		k.become(refused, began)
	case apierrors.IsNotFound(err):
		k.replace(nil) // the kind is gone; the next discovery says so too
		k.become(live, began)
	default:
		k.become(lost, began)
	}
}

// resumed notes that a watch goes on where the last one broke off.
func (k *kind) resumed() {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	if k.state == lost {
		k.become(live, time.Now())
	}
}

// become changes the state. The caller holds mu of the observer.
func (k *kind) become(s state, since time.Time) {
	if k.state == s || k.ended {
		return
	}
	level := slog.LevelDebug
	if s == lost || k.state == lost {
		level = slog.LevelInfo // an operator may have to act, or need not any more
	}
	k.state, k.since = s, since
	k.o.options.Log.Log(context.Background(), level, "watching of a kind changed", "kind", k.gvk.String(), "seen", s == live, "reason", k.reason())
	for label := range k.labels() {
		if a := k.o.apps[label]; a != nil {
			a.revision = k.o.revision + 1
		}
	}
	k.o.changed()
}

// labels are the apps that have objects of the kind.
func (k *kind) labels() map[string]bool {
	out := map[string]bool{}
	for _, e := range k.entries {
		out[e.Label] = true
	}
	return out
}
