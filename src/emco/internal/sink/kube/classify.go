package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxText bounds the text of an error, in bytes.
const maxText = 1024

// defaultRetryDelay applies if a busy server sends no Retry-After.
const defaultRetryDelay = 5 * time.Second

// Classify maps an error of a Kubernetes client to a kind; nil stays nil.
//
//	Unavailable   no answer, 5xx, a timeout, a namespace that is being deleted: a retry may help
//	Throttled     429, with the time to come back
//	Invalid       400, 422, or refused by an admission rule: final until the content changes
//	Unauthorized  401
//	Forbidden     403
//	NotFound      404
//	Conflict      409
func Classify(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*errs.Error](err); done {
		return err
	}
	status, answered := statusOf(err)
	if !answered {
		return errs.E(errs.Unavailable, op, subject, truncate(err))
	}
	if status.Code == http.StatusTooManyRequests {
		return errs.Throttle(op, subject, retryDelay(err), truncate(err))
	}
	return errs.E(kindOf(status, err), op, subject, truncate(err))
}

// statusOf returns the answer of the API server, if there is one.
func statusOf(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}

func kindOf(s metav1.Status, err error) errs.Kind {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errs.Unavailable
	case s.Code >= 500:
		return errs.Unavailable
	case deniedByWebhook(s):
		return errs.Invalid
	}
	switch s.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		return errs.Invalid
	case http.StatusUnauthorized:
		return errs.Unauthorized
	case http.StatusForbidden:
		return errs.Forbidden
	case http.StatusNotFound, http.StatusGone:
		return errs.NotFound
	case http.StatusConflict:
		return errs.Conflict
	case http.StatusRequestEntityTooLarge:
		return errs.TooLarge
	case http.StatusRequestTimeout:
		return errs.Unavailable
	}
	return errs.Internal
}

// deniedByWebhook reports whether an admission webhook refused the request. With status 403
// this looks like a missing permission; only the prefix of the message differs.
func deniedByWebhook(s metav1.Status) bool {
	return s.Code == http.StatusForbidden && strings.HasPrefix(s.Message, "admission webhook ")
}

// retryDelay returns how long to wait before the next request to a busy server.
func retryDelay(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultRetryDelay
}

// truncate bounds the text of an error. The cause stays visible to errors.Is.
func truncate(err error) error {
	if text := err.Error(); len(text) > maxText {
		return &truncatedError{strings.ToValidUTF8(text[:maxText], "") + " ...", err}
	}
	return err
}

type truncatedError struct {
	text string
	err  error
}

func (s *truncatedError) Error() string { return s.text }
func (s *truncatedError) Unwrap() error { return s.err }

// withoutValues replaces the text of an error about a Secret, because an API server may
// quote values in it. The reason and the names of the fields stay.
func withoutValues(err error) error {
	s, answered := statusOf(err)
	if !answered {
		return err
	}
	text := fmt.Sprintf("the cluster answers %d %s", s.Code, s.Reason)
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			text += fmt.Sprintf("; %s: %s", cause.Field, cause.Type)
		}
	}
	return errors.New(text)
}

// unreachable reports whether the cluster did not answer, or will refuse all other requests
// too: then other objects need not be tried.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, context.Canceled) {
		return true
	}
	status, answered := statusOf(err)
	if !answered {
		return errs.Is(err, errs.Unavailable)
	}
	return status.Code == http.StatusTooManyRequests || status.Code == http.StatusUnauthorized
}
