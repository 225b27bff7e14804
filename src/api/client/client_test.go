package client_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

type namedDocument struct {
	Name string `json:"name"`
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func dial(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseBase(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"127.0.0.1:9015":         "http://127.0.0.1:9015",
		"http://h:1/":            "http://h:1",
		"https://h/emco/v2/":     "https://h/emco",
		"https://h:1/v2":         "https://h:1",
		"ftp://h":                "",
		"http://":                "",
		"http://u:sesame@h":      "",
		"http://h/?q=1":          "",
		"http://h:port-and-more": "",
	} {
		got, err := client.ParseBase(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("ParseBase(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "sesame") || !errs.Is(err, errs.Invalid)) {
			t.Errorf("ParseBase(%q): error %q of kind %v, want Invalid without the password", in, err, errs.KindOf(err))
		}
	}
}

func TestRequestsCarryTokenAndConditions(t *testing.T) {
	t.Parallel()
	c := dial(t, client.Options{Token: "sesame", BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("If-Match"), r.Header.Get("Accept"))
	})})
	res, err := c.Do(t.Context(), client.Request{Method: "PUT", Path: "projects/p?x=a%2Bb", IfMatch: `"3"`, Accept: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Body), `PUT /v2/projects/p?x=a%2Bb Bearer sesame "3" application/json`; got != want {
		t.Errorf("server saw %q, want %q", got, want)
	}
	if text := fmt.Sprintf("%v %+v %#v", client.Token("sesame"), client.Options{Token: "sesame"}, client.Options{Token: "sesame"}); strings.Contains(text, "sesame") {
		t.Errorf("the token prints: %s", text)
	}
}

func TestRefusalsBecomeKinds(t *testing.T) {
	t.Parallel()
	c := dial(t, client.Options{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/gone":
			http.Error(w, "Project not found", 404)
		case "/v2/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "/v2/problem":
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.WriteHeader(409)
			fmt.Fprint(w, `{"title":"conflict","detail":"in use by x"}`)
		case "/v2/other-method":
			w.Header().Set("Allow", "POST, PUT")
			w.WriteHeader(405)
		case "/v2/moved":
			http.Redirect(w, r, "/v2/ok", http.StatusFound)
		}
	})})
	for _, tt := range []struct {
		path, text string
		kind       errs.Kind
		status     int
	}{
		{"gone", "GET gone: Project not found", errs.NotFound, 404},
		{"busy", "GET busy: server answered 429 Too Many Requests", errs.Throttled, 429},
		{"other-method", "GET other-method: the path is not for this method; it allows POST, PUT", errs.FromStatus(405), 405},
		{"problem", "GET problem: conflict: in use by x", errs.Conflict, 409},
		{"moved", "", errs.Internal, 302},
	} {
		_, err := client.Get[namedDocument](t.Context(), c, tt.path)
		if !errs.Is(err, tt.kind) || client.StatusOf(err) != tt.status || (tt.text != "" && err.Error() != tt.text) {
			t.Errorf("Get(%s): %v (%v, %d); want %q (%v, %d)", tt.path, err, errs.KindOf(err), client.StatusOf(err), tt.text, tt.kind, tt.status)
		}
		if tt.path == "busy" && errs.RetryAfter(err) != 7*time.Second {
			t.Errorf("RetryAfter = %v, want 7s", errs.RetryAfter(err))
		}
	}
}

func TestTypedHelpers(t *testing.T) {
	t.Parallel()
	c := dial(t, client.Options{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method {
		case "DELETE":
			w.WriteHeader(204)
		case "POST":
			w.WriteHeader(202) // an action: no body
		case "PUT":
			w.Write(body)
		case "GET":
			fmt.Fprint(w, `[{"name":"a"},{"name":"b"}]`)
		}
	})})
	list, err := client.Get[[]namedDocument](t.Context(), c, "projects")
	if err != nil || len(list) != 2 || list[1].Name != "b" {
		t.Errorf("Get = %v, %v", list, err)
	}
	if got, err := client.Post[namedDocument](t.Context(), c, "projects/p/approve", client.None); err != nil || got.Name != "" {
		t.Errorf("Post of an action = %v, %v", got, err)
	}
	if got, err := client.Put[namedDocument](t.Context(), c, "projects/p", namedDocument{"p"}); err != nil || got.Name != "p" {
		t.Errorf("Put = %v, %v", got, err)
	}
	if err := c.Delete(t.Context(), "projects/p"); err != nil {
		t.Errorf("Delete: %v", err)
	}
}

func TestRefusalsNameThePathAlone(t *testing.T) {
	t.Parallel()
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no project", http.StatusNotFound) })
	c := dial(t, client.Options{BaseURL: base})
	_, err := client.Get[namedDocument](t.Context(), c, "projects/p?limit=1")
	if want := "GET projects/p: no project"; !errs.Is(err, errs.NotFound) || err.Error() != want {
		t.Errorf("the refusal is %v, want %s", err, want)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1001)) })
	_, err := dial(t, client.Options{BaseURL: base, MaxBytes: 1000}).Do(t.Context(), client.Request{Method: "GET", Path: "x"})
	if !errs.Is(err, errs.TooLarge) {
		t.Errorf("Do: %v, want TooLarge", err)
	}
	if _, err = dial(t, client.Options{BaseURL: base, MaxBytes: 1001}).Do(t.Context(), client.Request{Method: "GET", Path: "x"}); err != nil {
		t.Errorf("Do at the limit: %v", err)
	}
}

func TestCopyStreamsFilesAndKeepsRefusals(t *testing.T) {
	t.Parallel()
	c := dial(t, client.Options{MaxBytes: 10, BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/octet-stream" {
			http.Error(w, "not acceptable", http.StatusNotAcceptable)
			return
		}
		w.Write(bytes.Repeat([]byte("x"), 5000))
	})})
	var got bytes.Buffer
	res, err := c.Copy(t.Context(), client.Request{Method: "GET", Path: "f", Accept: "application/octet-stream"}, &got)
	if err != nil || !res.OK() || got.Len() != 5000 {
		t.Errorf("Copy: %d bytes, %v, %v", got.Len(), res, err)
	}
	got.Reset()
	res, err = c.Copy(t.Context(), client.Request{Method: "GET", Path: "f"}, &got)
	if err != nil || got.Len() != 0 || !errs.Is(res.Err("GET", "f"), errs.NotAcceptable) {
		t.Errorf("Copy of a refusal: %d bytes, %v, %v", got.Len(), res, err)
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	base := s.URL
	s.Close()
	_, err := dial(t, client.Options{BaseURL: base}).Do(t.Context(), client.Request{Method: "GET", Path: "projects"})
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), base) {
		t.Errorf("Do: %v (%v), want Unavailable that names the address", err, errs.KindOf(err))
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	t.Parallel()
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := dial(t, client.Options{BaseURL: base, Timeout: 20 * time.Millisecond}).Do(t.Context(), client.Request{Method: "GET", Path: "x"})
	if !errs.Is(err, errs.Unavailable) {
		t.Errorf("Do: %v, want Unavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = dial(t, client.Options{BaseURL: base}).Do(ctx, client.Request{Method: "GET", Path: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Do with an ended context: %v, want context.Canceled", err)
	}
}

func TestOwnCertificateAuthority(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"tls"}`) }))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get[namedDocument](t.Context(), dial(t, client.Options{BaseURL: s.URL, CAFile: ca}), "x"); err != nil || got.Name != "tls" {
		t.Errorf("Get = %v, %v", got, err)
	}
	if _, err := client.Get[namedDocument](t.Context(), dial(t, client.Options{BaseURL: s.URL}), "x"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Get without the authority: %v, want Unavailable", err)
	}
	if _, err := client.New(client.Options{BaseURL: s.URL, CAFile: ca + "x"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("New with a missing CA file: %v, want Invalid", err)
	}
}

// The server asks to come back later: with patience the request is sent again, with its body, and not for longer
// than that.
func TestAPatientClientComesBackLater(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *client.Client, client.Request) (*client.Response, error){
		"Do": func(ctx context.Context, api *client.Client, r client.Request) (*client.Response, error) {
			return api.Do(ctx, r)
		},
		"Copy": func(ctx context.Context, api *client.Client, r client.Request) (*client.Response, error) {
			return api.Copy(ctx, r, io.Discard)
		},
		"Lines": func(ctx context.Context, api *client.Client, r client.Request) (*client.Response, error) {
			return api.Lines(ctx, r, func([]byte) error { return nil })
		},
		"Parts": func(ctx context.Context, api *client.Client, r client.Request) (*client.Response, error) {
			return api.Parts(ctx, r, func(*multipart.Part) error { return nil })
		},
	}
	for name, c := range map[string]struct {
		patience time.Duration
		asks     int // how often the server asks
		want     int
	}{"patient": {5 * time.Second, 1, 200}, "not patient": {0, 1, 429}, "for too long": {1500 * time.Millisecond, 9, 429}} {
		for method, call := range calls {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"a":1}` {
						t.Errorf("body %s, %v", body, err)
					}
					if int(asked.Add(1)) <= c.asks {
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(http.StatusTooManyRequests)
					}
				}))
				defer server.Close()
				api, err := client.New(client.Options{BaseURL: server.URL, Patience: c.patience})
				if err != nil {
					t.Fatal(err)
				}
				res, err := call(t.Context(), api, client.Request{Method: http.MethodPost, Path: "x", Body: client.JSON([]byte(`{"a":1}`))})
				if err != nil || res.Status != c.want {
					t.Errorf("got %+v, %v after %d requests, want %d", res, err, asked.Load(), c.want)
				}
			})
		}
	}
}
