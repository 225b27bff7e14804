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

// maxText bounds what is kept of an API server's words, in bytes.
const maxText = 1024

// defaultPause is when to come back to a server that is busy and does not say when.
const defaultPause = 5 * time.Second

// Classify maps an error of a Kubernetes client to a kind; nil stays nil.
//
//	Unavailable   no answer, 5xx, a timeout, a namespace that is going away: trying again may help
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
		return errs.E(errs.Unavailable, op, subject, shortened(err))
	}
	if status.Code == http.StatusTooManyRequests {
		return errs.Throttle(op, subject, pause(err), shortened(err))
	}
	return errs.E(kindOf(status, err), op, subject, shortened(err))
}

// statusOf returns what the API server answered, if it did.
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
	case denied(s):
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

// denied reports whether an admission webhook said no. A webhook that chooses 403
// looks like a missing permission; the API has no other sign of it than the words
// that the server puts before every webhook's own.
func denied(s metav1.Status) bool {
	return s.Code == http.StatusForbidden && strings.HasPrefix(s.Message, "admission webhook ")
}

// pause returns when a busy server wants to be asked again.
func pause(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultPause
}

// shortened keeps the cause for errors.Is, and bounds the text.
func shortened(err error) error {
	if text := err.Error(); len(text) > maxText {
		return &short{strings.ToValidUTF8(text[:maxText], "") + " ...", err}
	}
	return err
}

type short struct {
	text string
	err  error
}

func (s *short) Error() string { return s.text }
func (s *short) Unwrap() error { return s.err }

// guarded drops an API server's words about an object whose content is secret: they
// may quote it. The reason and the names of the fields stay.
func guarded(err error) error {
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

// silent reports whether the cluster did not answer, or will not answer others
// either: there is no point in going on with other objects.
func silent(err error) bool {
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
