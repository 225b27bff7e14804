package kubehealth

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Handler takes what Watch sees. Watch waits for each call to return before the next
// object; Failed may be called at the same time as the others.
type Handler interface {
	Put(o metav1.Object)             // the object is new or has changed
	Delete(o metav1.Object)          // the object was deleted; o is its last known state
	Replace(objects []metav1.Object) // these are all objects, after a start or a gap
	Failed(f Failure)                // what is known of the objects may be outdated
	Resumed()                        // a watch continues where the last one ended: nothing was missed
}

// Failure is a request without an answer, or with a refusal.
type Failure struct {
	Cause Cause
	Since time.Time // when the request began
}

// Cause is a class of failures.
type Cause uint8

// The causes.
const (
	Unreachable Cause = iota // the API server does not answer, or answers with an error of its own
	Refused                  // the client may not read the kind
	NotServed                // the API server does not serve the kind
)

// Source reads the objects of one kind.
type Source struct {
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Objects reads whole objects.
func Objects(r dynamic.ResourceInterface) Source {
	return Source{
		example: &unstructured.Unstructured{},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		watch:   r.Watch,
	}
}

// Metadata reads the metadata of objects only.
func Metadata(r metadata.ResourceInterface) Source {
	return Source{
		example: &metav1.PartialObjectMetadata{},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		watch:   r.Watch,
	}
}

// Pauses between two calls of Watch.Resolve.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Watch follows the objects of one kind. It keeps no objects.
type Watch struct {
	// Resolve returns where the kind is served. It is called until it succeeds, with pauses
	// that grow; a value from Retry ends a pause.
	Resolve  func(context.Context) (Source, error)
	Retry    <-chan struct{}
	Selector string // of labels; empty for all objects
	Handler  Handler

	// AnswerTimeout is how long a request may stay unanswered before it counts as failed;
	// default 5 seconds. The client retries some failures for much longer before it returns them.
	AnswerTimeout time.Duration

	// RefusedPause is how long to wait before the next request after the API server refused
	// one. If it is zero, requests are repeated at the pace of other failures.
	RefusedPause time.Duration
}

// Run follows the objects until ctx ends. It makes no call of the handler after it has
// returned.
func (w Watch) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // handlers log what matters, once per transition
	r := &watchRun{Watch: w}
	source, found := r.resolve(ctx)
	for found && ctx.Err() == nil {
		r.follow(ctx, source)
		r.pause(ctx, w.RefusedPause)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// watchRun is one call of Run.
type watchRun struct {
	Watch

	mu    sync.Mutex // held while Handler.Failed is called
	ended bool       // guarded by mu; requests that are still under way count no longer
}

// resolve returns where the kind is served; false if ctx ended before that was known.
func (r *watchRun) resolve(ctx context.Context) (Source, bool) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		answered := r.expectAnswer(ctx, func() {})
		source, err := r.Resolve(ctx)
		answered(err)
		if err == nil {
			return source, true
		}
		if r.pause(ctx, pause) {
			pause = firstPause / 2
		}
	}
	return Source{}, false
}

// pause waits for a time, with jitter. It reports whether Retry ended it.
func (r *watchRun) pause(ctx context.Context, d time.Duration) (retried bool) {
	t := time.NewTimer(d + rand.N(d/4+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.Retry:
		return true
	}
	return false
}

// follow lists and watches until ctx ends, or until a request is refused and RefusedPause
// is set.
func (r *watchRun) follow(ctx context.Context, source Source) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	quiet := klog.Logger{}
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = r.Selector
			answered := r.expectAnswer(ctx, stop)
			list, err := source.list(ctx, o)
			answered(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = r.Selector
			answered := r.expectAnswer(ctx, stop)
			events, err := source.watch(ctx, o)
			if err == nil && reflect.TypeOf(events) == brokenWatch {
				events, err = nil, errNoAnswer
			}
			answered(err)
			if err == nil && o.SendInitialEvents == nil {
				r.Handler.Resumed()
			}
			return events, err
		},
	}
	cache.NewReflectorWithOptions(requests, source.example, store{r.Handler}, cache.ReflectorOptions{Name: "kubehealth", Logger: &quiet}).RunWithContext(ctx)
}

// brokenWatch is what the client returns, without an error, when the connection breaks
// before the server has answered.
var brokenWatch = reflect.TypeOf(watch.NewEmptyWatch())

var errNoAnswer = errors.New("the connection broke before the server answered")

// expectAnswer is called when a request begins. The returned function takes its outcome.
// A failure, or the lack of an answer, is passed to the handler.
func (r *watchRun) expectAnswer(ctx context.Context, stop func()) (answered func(error)) {
	began := time.Now()
	over := false // guarded by mu
	late := time.AfterFunc(cmp.Or(r.AnswerTimeout, 5*time.Second), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !over && !r.ended && ctx.Err() == nil {
			r.Handler.Failed(Failure{Unreachable, began})
		}
	})
	return func(err error) {
		late.Stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		over = true
		if err == nil || r.ended || ctx.Err() != nil { // a request that we gave up has not failed
			return
		}
		cause, failed := causeOf(err)
		if !failed {
			return
		}
		r.Handler.Failed(Failure{cause, began})
		if cause == Refused && r.RefusedPause > 0 {
			stop()
		}
	}
}

// causeOf classifies an error. A server that is busy, or that no longer has the version to
// resume from, has not failed: what is known of the objects still holds.
func causeOf(err error) (c Cause, failed bool) {
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
		return 0, false
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Refused, true
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return NotServed, true
	}
	return Unreachable, true
}

// store passes what a reflector brings to a handler. The reflector's interface is untyped;
// it only ever passes objects.
type store struct{ handler Handler }

// Add takes a new object.
func (s store) Add(obj any) error { return s.Update(obj) }

// Update takes an object that changed.
func (s store) Update(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.handler.Put(o)
	}
	return nil
}

// Delete takes an object that was deleted.
func (s store) Delete(obj any) error {
	if o, ok := obj.(metav1.Object); ok {
		s.handler.Delete(o)
	}
	return nil
}

// Replace takes all objects.
func (s store) Replace(list []any, _ string) error {
	objects := make([]metav1.Object, 0, len(list))
	for _, obj := range list {
		if o, ok := obj.(metav1.Object); ok {
			objects = append(objects, o)
		}
	}
	s.handler.Replace(objects)
	return nil
}

// Resync does nothing: handlers keep nothing that could be out of step.
func (s store) Resync() error { return nil }
