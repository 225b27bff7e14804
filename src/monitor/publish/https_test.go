package publish

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

// fakeControlPlane takes reports as the control plane does: one token, sequences that go up, and
// the name of the last document.
type fakeControlPlane struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	token   string
	last    uint64
	name    string
	limit   int
	busy    bool
	reports []string // "#seq whole|same"
}

func newFakeControlPlane(t *testing.T) *fakeControlPlane {
	c := &fakeControlPlane{t: t, token: "right", limit: status.MaxSize}
	c.Server = httptest.NewTLSServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *fakeControlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
	}
	sent, err := status.Decode(text)
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/base/v2/cluster-providers/edge/clusters/c1/monitor/report":
		http.NotFound(w, r)
	case r.Header.Get("Authorization") != "Bearer "+c.token:
		http.Error(w, "the token is not one of this cluster", http.StatusUnauthorized)
	case c.busy:
		w.Header().Set("Retry-After", "7")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case len(text) > c.limit:
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case sent.Seq <= c.last:
		w.Header().Set(status.SequenceHeader, fmt.Sprint(c.last))
		http.Error(w, "replayed", http.StatusConflict)
	case sent.Same != "" && sent.Same != c.name:
		http.Error(w, "send it whole", http.StatusPreconditionFailed)
	default:
		c.last = sent.Seq
		what := "same"
		if sent.Same == "" {
			c.name, what = status.Digest(sent), "whole"
		}
		c.reports = append(c.reports, fmt.Sprintf("%s %d", what, len(sent.Apps)))
		w.Header().Set("ETag", `"`+c.name+`"`)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *fakeControlPlane) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeControlPlane) takeReports() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.reports, ", ")
	c.reports = nil
	return out
}

// writer is one that trusts the control plane, with a token.
func (c *fakeControlPlane) writer(token string) *HTTPS {
	line, err := NewControlPlane(c.URL + "/base/")
	if err != nil {
		c.t.Fatal(err)
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	return NewHTTPS(line, func() (Credentials, error) { return Credentials{git.Secret(token), ca}, nil }, v2.NewClusterKey("edge", "c1"), 0)
}

func reportOf(reason string) status.Report {
	return status.Report{Cluster: "edge+c1", At: time.Now(), Agent: "monitor/test", Apps: []status.App{{Label: "42-web", Objects: []status.Object{{Version: "v1", Kind: "Pod", Name: "p", Status: status.InProgress, Reason: reason}}}}}
}

func TestAnUnchangedReportIsAReference(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	w := c.writer("right")
	write := func(what string, r status.Report, want string) {
		t.Helper()
		if err := w.Write(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := c.takeReports(); got != want {
			t.Errorf("%s: taken were %q, want %q", what, got, want)
		}
	}
	write("the first", reportOf("a"), "whole 1")
	write("the same again", reportOf("a"), "same 0")
	write("news", reportOf("b"), "whole 1")
	write("the same again", reportOf("b"), "same 0")
	c.set(func() { c.name = "lost" })
	write("what the control plane has lost", reportOf("b"), "whole 1")
	c.set(func() { c.last = uint64(time.Now().Add(time.Hour).Unix()) })
	write("below a sequence that was used", reportOf("b"), "same 0")
	w = c.writer("right")
	write("after a restart, with a clock that was set back", reportOf("b"), "whole 1")
	c.set(func() { c.limit = 100 << 10 })
	large := reportOf("c")
	for i := range 2000 {
		large.Apps[0].Objects = append(large.Apps[0].Objects, status.Object{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("a-long-name-%d-%s", i, strings.Repeat("x", 60)), Status: status.Current})
	}
	write("what is too large for it", large, "whole 1")
}

func TestRefusalsByHTTPS(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	err := c.writer("wrong-and-secret").Write(t.Context(), reportOf("a"))
	if !errs.Is(err, errs.Unauthorized) || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a wrong token: %v", err)
	}
	c.set(func() { c.busy = true })
	w := c.writer("right")
	if err = w.Write(t.Context(), reportOf("a")); !errs.Is(err, errs.Unavailable) || errs.RetryAfter(err) != 7*time.Second {
		t.Errorf("when it is busy: %v, to come again after %s", err, errs.RetryAfter(err))
	}
	c.set(func() { c.busy = false })
	if err := w.Write(t.Context(), reportOf("a")); err != nil {
		t.Errorf("when it is no longer busy: %v", err)
	}
	line, err := NewControlPlane(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	stranger := NewHTTPS(line, func() (Credentials, error) { return Credentials{Token: "right"}, nil }, v2.NewClusterKey("edge", "c1"), 0)
	if err := stranger.Write(t.Context(), reportOf("a")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a server whose certificate is not trusted: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, reportOf("b")); err == nil {
		t.Error("after the end: no error")
	}
}

// The token goes only to the configured address, also if that redirects to a server which
// the client would accept.
func TestTokensDoNotFollowRedirects(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		followed.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(other.Close)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := httptest.NewServer(http.RedirectHandler(other.URL, code))
		t.Cleanup(c.Close)
		line, err := NewControlPlane(c.URL)
		if err != nil {
			t.Fatal(err)
		}
		w := NewHTTPS(line, func() (Credentials, error) { return Credentials{Token: "right"}, nil }, v2.NewClusterKey("edge", "c1"), 0)
		if err := w.Write(t.Context(), reportOf("a")); err == nil || followed.Load() != 0 {
			t.Errorf("status %d: Write = %v, and %d requests followed the redirect; want an error and none", code, err, followed.Load())
		}
	}
}

func TestAddressesOfControlPlanes(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"https://emco.example.org": true, "https://emco.example.org:8443/base/": true, "http://127.0.0.1:9015": true, "http://localhost:9015": true, "http://[::1]:1": true,
		"http://emco.example.org": false, "emco.example.org": false, "https://": false, "https://u:p@h": false, "https://h?x=1": false, "ftp://h": false, "": false,
	} {
		if _, err := NewControlPlane(address); good != (err == nil) {
			t.Errorf("NewLine(%q): %v", address, err)
		}
	}
}
