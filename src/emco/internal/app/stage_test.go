package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

const (
	branch = "main"
	writer = "emco" // our login at the Git server
)

// patience bounds every wait. Tests assert no times: this only ends
// what hangs, also on a busy machine.
const patience = 4 * time.Minute

// testStage is a real Git server with one repository, and the whole program on embedded
// stores, driven by HTTP.
type testStage struct {
	*testing.T
	dir    string
	token  string // of the writer
	git    *gittest.Server
	bare   gittest.Bare
	read   *branchCache // of bare
	log    *logBuffer
	config config.Config
	api    *client.Client

	address, grpc string // of the program that runs now

	options []app.Option // of the program; changes apply to its next start

	stop func() // ends the program that runs now, cleanly
}

// newStage starts everything. At the end of the test the program must end cleanly, and must
// never have logged the token.
func newStage(t *testing.T) *testStage {
	t.Helper()
	return newStageWith(t, func(*config.Config) {})
}

// onSQLite is for tests that look into the files of that driver, or count the requests to etcd.
func onSQLite(c *config.Config) { c.Store.Driver = "sqlite" }

// newStageWith changes the configuration first.
func newStageWith(t *testing.T, change func(*config.Config), options ...app.Option) *testStage {
	t.Helper()
	s := &testStage{T: t, dir: t.TempDir(), token: "planted-" + rand.Text(), log: &logBuffer{}, options: append(cheap(), options...)}
	s.config = config.Default()
	s.config.Data = filepath.Join(s.dir, "data")
	s.config.Store.Driver = os.Getenv("EMCO_TEST_DOCUMENTS") // runs the tests on another driver than the default
	s.config.HTTP.Address, s.config.GRPC.Address = "127.0.0.1:0", "127.0.0.1:0"
	s.config.Git.Window = config.Duration(time.Millisecond)
	s.config.Retry = config.Retry{First: config.Duration(50 * time.Millisecond), Longest: config.Duration(300 * time.Millisecond)}
	s.config.Workflows.Endpoints = []string{"http://127.0.0.1:9/"}
	change(&s.config)
	var err error
	s.git, err = gittest.Serve(filepath.Join(s.dir, "git"), gittest.User{Name: writer, Token: s.token, Write: true})
	s.must("serve Git", err)
	t.Cleanup(func() { _ = s.git.Close() })
	s.bare, err = s.git.Seed(t.Context(), "fleet", branch)
	s.must("make the repository", err)
	s.read = newBranchCache(s.bare)
	s.start()
	t.Cleanup(s.end)
	return s
}

// cheap are the options of most tests. TestWholeLoop runs without them.
func cheap() []app.Option { return []app.Option{app.WithRenderingHere(), app.WithoutFsync()} }

func (s *testStage) end() {
	s.stop()
	if strings.Contains(s.log.String(), s.token) {
		s.Error("the log holds the token")
	}
	if s.Failed() {
		s.Logf("the end of the log:\n%s", s.log.tail(12))
	}
}

// start runs the program until stop or the end of the test.
func (s *testStage) start() {
	s.Helper()
	s.launch()
	s.eventually("ready", func() string { return unless(s.do("GET", "/readyz", "").Status, http.StatusOK) })
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	var out strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&out, 2)
	return out.String()
}

// launch starts the program, which may not become ready.
func (s *testStage) launch() {
	s.Helper()
	log := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	a, err := app.New(ctx, s.config, log, s.options...)
	if err != nil {
		cancel()
		s.Fatalf("start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("the program ended with %v", err)
			}
		case <-time.After(patience):
			s.Error("the program does not end; its goroutines are:\n" + goroutines())
		}
	})
	s.address, s.grpc = "http://"+a.Address(), a.GRPCAddress()
	s.api, err = client.New(client.Options{BaseURL: s.address})
	s.must("make a client", err)
}

func (s *testStage) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// eventually calls complaint until it is empty, for at most patience. The pause grows,
// because other tests need the processors.
func (s *testStage) eventually(what string, complaint func() string) {
	s.Helper()
	eventually(s.T, what, complaint)
}

// eventually is as the method of a stage, for tests without one.
func eventually(t *testing.T, what string, complaint func() string) {
	t.Helper()
	const often, seldom = 10 * time.Millisecond, 100 * time.Millisecond
	limit := time.After(patience)
	for pause := often; ; pause = min(pause*5/4, seldom) {
		last := complaint()
		if last == "" {
			return
		}
		select {
		case <-time.After(pause):
		case <-limit:
			t.Fatalf("%s: %s", what, last)
		}
	}
}

// apiAnswer is an answer of the API.
type apiAnswer struct {
	Status int
	Body   string
}

// do sends a request, with a JSON body unless it is empty. Paths are below /v2, except
// those with a leading slash.
func (s *testStage) do(method, path, body string) apiAnswer {
	s.Helper()
	var b client.Body
	if body != "" {
		b = client.JSON([]byte(body))
	}
	return s.send(client.Request{Method: method, Path: path, Body: b})
}

func (s *testStage) send(r client.Request) apiAnswer {
	s.Helper()
	res, err := s.api.Do(context.WithoutCancel(s.Context()), r)
	s.must(r.Method+" "+r.Path, err)
	return apiAnswer{Status: res.Status, Body: strings.TrimSpace(string(res.Body))}
}

// expect sends a request that must be answered with a status, and returns the body.
func (s *testStage) expect(status int, method, path, body string) string {
	s.Helper()
	a := s.do(method, path, body)
	if a.Status != status {
		s.Fatalf("%s %s %.300s: got %d %s, want %d", method, path, body, a.Status, a.Body, status)
	}
	return a.Body
}

// uploadRequest is a request with a document and a file.
func (s *testStage) uploadRequest(method, path, doc string, file []byte) client.Request {
	s.Helper()
	b, err := client.Multipart([]byte(doc), client.File{Part: client.FilePart, Name: client.FileName, Data: file})
	s.must("pack "+path, err)
	return client.Request{Method: method, Path: path, Body: b}
}

// upload creates or replaces a document with a file.
func (s *testStage) upload(method, path, doc string, file []byte) {
	s.Helper()
	a := s.send(s.uploadRequest(method, path, doc, file))
	if a.Status != http.StatusCreated && a.Status != http.StatusOK {
		s.Fatalf("%s %s: got %d %s", method, path, a.Status, a.Body)
	}
}

// logBuffer keeps the log.
type logBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // closed by the next Write; nil: no goroutine waits for it; guarded by mu
}

// Write adds to the log.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return l.text.Write(b)
}

// await returns when the log contains a text, or ctx has ended.
func (l *logBuffer) await(ctx context.Context, text string) {
	for {
		l.mu.Lock()
		if strings.Contains(l.text.String(), text) {
			l.mu.Unlock()
			return
		}
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown := l.grown
		l.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

// String returns all that was logged.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tail returns the last n lines, except those of requests that only read.
func (l *logBuffer) tail(n int) string {
	lines := slices.DeleteFunc(strings.Split(l.String(), "\n"), func(line string) bool {
		return strings.Contains(line, `"method":"GET"`)
	})
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
