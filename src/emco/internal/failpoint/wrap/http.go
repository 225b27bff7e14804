package wrap

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
)

// API returns the handler with points before and after requests that change something. A
// client whose answer is lost sees its connection break.
func API(s *failpoint.Set, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.At(r.Context(), APIRequest); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer := &heldAnswer{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		if err := s.At(r.Context(), APIAnswer); err != nil {
			panic(http.ErrAbortHandler)
		}
		answer.release()
	})
}

// heldAnswer is an answer that has not been sent yet.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader keeps the status.
func (h *heldAnswer) WriteHeader(status int) { h.status = status }

// Write keeps the body.
func (h *heldAnswer) Write(p []byte) (int, error) {
	h.body = append(h.body, p...)
	return len(p), nil
}

func (h *heldAnswer) release() {
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
	}
	_, _ = h.ResponseWriter.Write(h.body)
}

// Kube returns the transport to a cluster's API server with points around its requests,
// except watches.
func Kube(s *failpoint.Set, next http.RoundTripper) http.RoundTripper { return kubeTransport{next, s} }

type kubeTransport struct {
	http.RoundTripper
	set *failpoint.Set
}

// WrappedRoundTripper lets client-go find the transport below, to close its connections.
func (k kubeTransport) WrappedRoundTripper() http.RoundTripper { return k.RoundTripper }

// RoundTrip sends a request and returns the answer.
func (k kubeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	before, after := kubePoints(r)
	if before != "" {
		if err := k.set.At(r.Context(), before); err != nil {
			return nil, lostConnection(r, err)
		}
	}
	answer, err := k.RoundTripper.RoundTrip(r)
	if err != nil || after == "" {
		return answer, err
	}
	if err := k.set.At(r.Context(), after); err != nil {
		_ = answer.Body.Close()
		return nil, lostConnection(r, err)
	}
	return answer, nil
}

func lostConnection(r *http.Request, err error) error {
	return fmt.Errorf("%s %s: connection lost: %w", r.Method, r.URL.Host, err)
}

// kubePoints are the points around a request; none for a watch.
func kubePoints(r *http.Request) (before, after string) {
	switch {
	case r.URL.Query().Get("watch") != "":
		return "", ""
	case r.Method == http.MethodDelete:
		return KubePruneBefore, KubePruneAfter
	case r.Method == http.MethodGet:
		return KubeRead, ""
	case strings.Contains(r.URL.Path, "/customresourcedefinitions"):
		return KubeDefineBefore, KubeDefineAfter
	}
	return KubeApplyBefore, KubeApplyAfter
}
