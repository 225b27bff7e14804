package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	webhook := apierrors.NewForbidden(pods, "p", errors.New("no"))
	webhook.ErrStatus.Message = `admission webhook "w.example.org" denied the request: no`
	terminating := apierrors.NewForbidden(pods, "p", errors.New("namespace is going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := []struct {
		name string
		err  error
		want errs.Kind
	}{
		{"the network", &net.OpError{Op: "dial", Err: errors.New("refused")}, errs.Unavailable},
		{"a request that took too long", context.DeadlineExceeded, errs.Unavailable},
		{"an error of the server", apierrors.NewInternalError(errors.New("boom")), errs.Unavailable},
		{"a server that shuts down", apierrors.NewServiceUnavailable("bye"), errs.Unavailable},
		{"a server that takes too long", apierrors.NewTimeoutError("slow", 1), errs.Unavailable},
		{"a gateway", apierrors.NewGenericServerResponse(502, "get", pods, "", "", 0, true), errs.Unavailable},
		{"a namespace that is being deleted", terminating, errs.Unavailable},
		{"too many requests", apierrors.NewTooManyRequests("busy", 7), errs.Throttled},
		{"malformed content", apierrors.NewBadRequest("no"), errs.Invalid},
		{"content against the schema", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), errs.Invalid},
		{"a webhook that refuses", webhook, errs.Invalid},
		{"a missing permission", apierrors.NewForbidden(pods, "p", errors.New("no")), errs.Forbidden},
		{"no login", apierrors.NewUnauthorized("who"), errs.Unauthorized},
		{"a missing object", apierrors.NewNotFound(pods, "p"), errs.NotFound},
		{"a lost race", apierrors.NewConflict(pods, "p", errors.New("changed")), errs.Conflict},
		{"too large", apierrors.NewRequestEntityTooLargeError("big"), errs.TooLarge},
		{"wrapped", fmt.Errorf("while: %w", apierrors.NewUnauthorized("who")), errs.Unauthorized},
		{"classified already", errs.E(errs.Conflict, "a", "b", errors.New("c")), errs.Conflict},
	}
	for _, test := range tests {
		got := kube.Classify("apply", "v1 Pod n/p", test.err)
		if errs.KindOf(got) != test.want || !errors.Is(got, test.err) {
			t.Errorf("%s: Classify = %v (%v), want %v and the cause within", test.name, errs.KindOf(got), got, test.want)
		}
	}
	if err := kube.Classify("apply", "x", nil); err != nil {
		t.Errorf("Classify(nil) = %v, want nil", err)
	}
}

func TestRetryAfterOfABusyServer(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]time.Duration{7: 7 * time.Second, 0: 5 * time.Second} {
		err := kube.Classify("apply", "x", apierrors.NewTooManyRequests("busy", seconds))
		if got := errs.RetryAfter(err); got != want {
			t.Errorf("RetryAfter with Retry-After %d is %s, want %s", seconds, got, want)
		}
	}
}

func TestLongTextsAreTruncated(t *testing.T) {
	t.Parallel()
	long := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadRequest, Message: strings.Repeat("é", 4000)}}
	if got := kube.Classify("apply", "x", long).Error(); len(got) > 1100 || !strings.HasSuffix(got, " ...") {
		t.Errorf("the text has %d bytes, want about a thousand that end in dots", len(got))
	}
}
