// Package resourcetest runs tables of HTTP scenarios against resources on a real
// SQLite store, through router, wrapper and handlers. It also has stores that can be away (Outage) or count reads (Reads).
package resourcetest

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Server is a running server with a store of its own.
type Server struct {
	DB  *store.DB
	URL string
	Log *Log // what was logged
}

// Log collects log lines.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write adds to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// DB opens a store in a temporary directory; it is closed when the test ends.
func DB(t testing.TB) *store.DB {
	t.Helper()
	driver, blobs := Driver(t)
	return store.New(driver, blobs, seal.New(seal.NewKey()))
}

// Driver opens what a store keeps its documents and packages in, for tests that put something between; it is closed
// when the test ends.
func Driver(t testing.TB) (store.Driver, store.Blobs) {
	t.Helper()
	dir := t.TempDir()
	driver, err := sqlite.Open(filepath.Join(dir, "docs.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := blobdir.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return driver, blobs
}

// Put creates a document below its parent, which must exist. doc may be nil, and secret empty.
func Put(t testing.TB, db *store.DB, key store.Key, doc any, secret string) {
	t.Helper()
	w := store.Write{Key: key, Secret: seal.Secret(secret)}
	if parent := path.Dir(path.Dir(string(key))); parent != "." {
		w.Parent = store.Key(parent)
	}
	var err error
	if doc != nil {
		w.Body, err = json.Marshal(doc)
	}
	if err == nil {
		_, err = db.Create(t.Context(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Serve starts a server for what mount adds to its router.
func Serve(t testing.TB, mount func(r *mux.Router, db *store.DB)) *Server {
	t.Helper()
	s := &Server{DB: DB(t), Log: &Log{}}
	r := web.NewRouter()
	mount(r, s.DB)
	server := httptest.NewServer(web.Wrap(slog.New(slog.NewTextHandler(s.Log, nil)), r))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Step is one request and what is expected of its answer.
type Step struct {
	Do     string // "POST /v2/projects"
	Body   string
	File   string // content of the multipart part "file"; makes Body the part "metadata"
	Header string // one header, "Accept: application/json"
	Status int
	Text   string // that the answer has to contain; with a "=" in front: be, but for the newline
}

// Run carries the steps out, one after the other, and returns the last answer. It
// stops at the first surprise, since later steps build on earlier ones.
func (s *Server) Run(t testing.TB, steps ...Step) Answer {
	t.Helper()
	var a Answer
	for _, step := range steps {
		a = s.Do(t, step)
		if a.Status != step.Status {
			t.Fatalf("%s %.200s\ngot  %d %.500s\nwant %d", step.Do, step.Body, a.Status, a.Body, step.Status)
		}
		exact, whole := strings.CutPrefix(step.Text, "=")
		if whole && strings.TrimSuffix(a.Body, "\n") != exact || !whole && !strings.Contains(a.Body, step.Text) {
			t.Fatalf("%s %.200s\ngot  %d %.500s\nwant %s", step.Do, step.Body, a.Status, a.Body, step.Text)
		}
	}
	return a
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends one request.
func (s *Server) Do(t testing.TB, step Step) Answer {
	t.Helper()
	method, path, _ := strings.Cut(step.Do, " ")
	body, kind := io.Reader(strings.NewReader(step.Body)), "application/json"
	if step.File != "" {
		body, kind = form(t, step)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if name, value, ok := strings.Cut(step.Header, ": "); ok {
		req.Header.Set(name, value)
	}
	return s.Send(t, req)
}

// Send sends a request as it is.
func (s *Server) Send(t testing.TB, req *http.Request) Answer {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}
}

func form(t testing.TB, step Step) (io.Reader, string) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	if err := w.WriteField("metadata", step.Body); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("file", "filename")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(part, step.File); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf, w.FormDataContentType()
}
