package kubehealth

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// The client's error handlers rate-limit by a time from outside of the tests' bubbles.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// failures is a handler that keeps the failures, each with when it came.
type failures struct {
	began time.Time
	list  []Failure
	after []time.Duration
}

func (f *failures) Put(metav1.Object)       {}
func (f *failures) Delete(metav1.Object)    {}
func (f *failures) Replace([]metav1.Object) {}
func (f *failures) Resumed()                {}

func (f *failures) Failed(x Failure) {
	f.list, f.after = append(f.list, x), append(f.after, time.Since(f.began))
}

// watchFor watches a source whose requests all end with answer, for a time that passes at once.
func watchFor(t *testing.T, d, refusedPause time.Duration, answer func(context.Context) error) (*failures, int) {
	t.Helper()
	var f *failures
	var requests atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		f = &failures{began: time.Now()}
		ask := func(ctx context.Context) error {
			requests.Add(1)
			return answer(ctx)
		}
		source := Source{
			example: &unstructured.Unstructured{},
			list:    func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return nil, ask(ctx) },
			watch:   func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) { return nil, ask(ctx) },
		}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		Watch{
			Resolve: func(context.Context) (Source, error) { return source, nil }, Handler: f, RefusedPause: refusedPause,
		}.Run(ctx)
	})
	return f, int(requests.Load())
}

// Where the client has no rights, requests come at long intervals.
func TestARefusedWatchPauses(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no rights"))
	refuse := func(context.Context) error { return forbidden }
	f, often := watchFor(t, 4*time.Minute, 0, refuse)
	if often < 5 || len(f.list) < 5 || f.list[0].Cause != Refused {
		t.Errorf("without a pause there were %d requests and the failures %v, want many", often, f.list)
	}
	if _, seldom := watchFor(t, 12*time.Minute, 5*time.Minute, refuse); seldom < 4 || seldom > 6 { // each try asks for a watch, and then for a list
		t.Errorf("with a pause of 5 minutes there were %d requests in 12 minutes", seldom)
	}
}

// A request without an answer counts as failed after a while, from when it began, and once.
func TestARequestWithoutAnAnswerFails(t *testing.T) {
	t.Parallel()
	f, _ := watchFor(t, time.Minute, 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if len(f.list) != 1 || f.list[0] != (Failure{Unreachable, f.began}) || !slices.Equal(f.after, []time.Duration{5 * time.Second}) {
		t.Errorf("failures are %v after %v, want one after 5 s, since the beginning at %s", f.list, f.after, f.began)
	}
}
