package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/mux"
	"google.golang.org/grpc/test/bufconn"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// logLines is a log that tests may read while it is written.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func logTo(l *logLines) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// serve sends one request through Wrap to a handler.
func serve(h http.Handler, r *http.Request) (*httptest.ResponseRecorder, string) {
	log := &logLines{}
	w := httptest.NewRecorder()
	web.Wrap(logTo(log), h).ServeHTTP(w, r)
	return w, log.String()
}

func failing(err error) web.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

func TestErrorsBecomeAnswers(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	cases := []struct {
		err    error
		status int
		body   string
	}{
		{errs.E(errs.Malformed, "", "", why), 422, "why\n"},
		{errs.E(errs.Invalid, "read", "x", why), 400, "read x: why\n"},
		{errs.E(errs.NotFound, "", "", why), 404, "why\n"},
		{errs.E(errs.Exists, "", "", why), 409, "why\n"},
		{errs.E(errs.Conflict, "", "", why), 409, "why\n"},
		{errs.E(errs.TooLarge, "", "", why), 413, "why\n"},
		{errs.E(errs.Unauthorized, "", "", why), 401, "why\n"},
		{errs.E(errs.Forbidden, "", "", why), 403, "why\n"},
		{errs.E(errs.NotAcceptable, "", "", why), 406, "why\n"},
		{errs.E(errs.Throttled, "", "", why), 429, "why\n"},
		{errs.E(errs.Unavailable, "", "", why), 503, "why\n"},
		{web.WithStatus(412, errs.E(errs.Conflict, "", "", why)), 412, "why\n"},
		{fmt.Errorf("password is hunter2: %w", why), 500, "internal error\n"},
	}
	for _, c := range cases {
		w, log := serve(failing(c.err), httptest.NewRequest("GET", "/v2/x?token=hunter3", nil))
		if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%v: got %d %q %v, want %d %q", c.err, w.Code, w.Body, w.Header(), c.status, c.body)
		}
		if !strings.Contains(log, "why") || strings.Contains(log, "hunter3") || strings.Count(log, "\n") != 1 {
			t.Errorf("%v: logged %q, want one line with the cause and without the query", c.err, log)
		}
	}
}

func TestThrottledSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	w, _ := serve(failing(errs.Throttle("push", "r", 1500*time.Millisecond, errors.New("slow down"))), httptest.NewRequest("GET", "/", nil))
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After = %q, want 2", got)
	}
}

// Answers for outages and limits have a retry time, also if the server does not know it; other refusals do not.
func TestOutagesSayWhenToComeBack(t *testing.T) {
	t.Parallel()
	known := &errs.Error{Kind: errs.Unavailable, Err: errors.New("away"), After: 3 * time.Second}
	for want, err := range map[string]error{"1": errs.New(errs.Unavailable, "away"), "3": known, "": errs.New(errs.NotFound, "gone")} {
		w, _ := serve(failing(err), httptest.NewRequest("GET", "/", nil))
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%v: Retry-After = %q, want %q", err, got, want)
		}
	}
	w, _ := serve(web.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Retry-After", "10")
		return errs.New(errs.Unavailable, "away")
	}), httptest.NewRequest("GET", "/", nil))
	if got := w.Header().Get("Retry-After"); got != "10" {
		t.Errorf("a time of the handler: Retry-After = %q, want 10", got)
	}
}

func TestProblemDocuments(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/v2/x", nil)
	r.Header.Set("Accept", "application/json, application/problem+json")
	r.Header.Set(web.HeaderRequestID, "my-id.1")
	w, log := serve(failing(errs.New(errs.NotFound, "Project not found")), r)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "urn:emco:error:not-found", "title": "Not Found", "status": 404.0,
		"detail": "Project not found", "instance": "/v2/x", "requestId": "my-id.1",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %v %v, want %v", got, w.Header(), want)
	}
	if w.Header().Get(web.HeaderRequestID) != "my-id.1" || !strings.Contains(log, "request=my-id.1") {
		t.Errorf("the id of the client is neither sent back nor logged: %v %s", w.Header(), log)
	}
}

func TestRequestIDsThatForgeLinesAreReplaced(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a\nb", strings.Repeat("x", 65), "a b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header[web.HeaderRequestID] = []string{id}
		w, _ := serve(failing(nil), r)
		if got := w.Header().Get(web.HeaderRequestID); got == id || len(got) != 32 {
			t.Errorf("the id %q was answered with %q, want a new one", id, got)
		}
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret of ours") })
	w, log := serve(h, httptest.NewRequest("GET", "/", nil))
	if w.Code != 500 || w.Body.String() != "internal error\n" || !strings.Contains(log, "secret of ours") || !strings.Contains(log, "web_test.go") {
		t.Errorf("got %d %q, logged %.200q; want 500, and the cause with its stack in the log", w.Code, w.Body, log)
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	r := web.NewRouter()
	web.Handle(r, http.MethodPost, "/v2/things/{thing}", authz.Permission{Verb: authz.Public, Type: "tests"}, thing)
	cases := []struct {
		method, path string
		status       int
		body         string
	}{
		{"POST", "/v2/things/a", 200, "\"a\"\n"},
		{"POST", "/v2/things/%61", 200, "\"a\"\n"},
		{"POST", "//v2/things/a", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
		{"POST", "/v2/things/a/", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
		{"POST", "/v2/things/", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
		{"POST", "/v2/other/a", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
		{"POST", "/v2/things/../things/a", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
		{"POST", "/v2/things/..", 400, ""},
		{"POST", "/v2/things/a%2Fb", 400, `"a/b"`},
		{"POST", "/v2/things/%00", 400, `"\x00"`},
		{"POST", "/v2/things/a%0Ab", 400, `"a\nb"`},
		{"POST", "/v2/things/%2e%2e", 400, `".."`},
		{"GET", "/v2/things/a", 405, ""},
		{"HEAD", "/v2/other", 404, "404 page not found: the server has no such path; GET /openapi.json lists the API"},
	}
	for name, h := range map[string]http.Handler{"routed": r, "ahead": web.Ahead(http.MethodPost, "/v2/things/{thing}", thing, r)} {
		for _, c := range cases {
			w, _ := serve(h, httptest.NewRequest(c.method, c.path, nil))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%s: %s %s = %d %q, want %d %q", name, c.method, c.path, w.Code, w.Body, c.status, c.body)
			}
			if c.status == 405 && (w.Body.Len() > 0 || w.Header().Get("Allow") != "POST") {
				t.Errorf("%s: %s %s = %q, Allow %q; want no body and POST", name, c.method, c.path, w.Body, w.Header().Get("Allow"))
			}
		}
	}
}

// Routes of equal paths, and routes that fit in part, leave no variables to the one that answers.
func TestVariablesAreThoseOfTheRouteThatAnswers(t *testing.T) {
	t.Parallel()
	r := web.NewRouter()
	shown := func(w http.ResponseWriter, r *http.Request) error {
		vars, err := web.Vars(r)
		if err != nil {
			return err
		}
		return web.JSON(w, http.StatusOK, vars)
	}
	anyone := authz.Permission{Verb: authz.Public, Type: "tests"}
	web.Handle(r, http.MethodPost, "/v2/{root}/{thing}/parts", anyone, shown)
	web.Handle(r, http.MethodGet, "/v2/things/{name}/others", anyone, shown)
	web.Handle(r, http.MethodGet, "/v2/things/{name}/parts", anyone, shown)
	web.Handle(r, http.MethodGet, "/v2/things/{name}/", anyone, shown)
	web.Handle(r, http.MethodGet, "/v2/things", anyone, shown)
	for path, want := range map[string]string{
		"/v2/things/a/parts": `{"name":"a"}`, "/v2/things/a/": `{"name":"a"}`, "/v2/things": `{}`,
	} {
		w, _ := serve(r, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s = %d %q, want %s", path, w.Code, w.Body, want)
		}
	}
}

// thing answers with the name that a path holds.
func thing(w http.ResponseWriter, r *http.Request) error {
	vars, err := web.Vars(r)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, vars["thing"])
}

// What comes often is logged when it goes wrong on our side, and else for those who look.
func TestQuietRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, level string
		err         error
	}{
		{"it is fine", "", nil},
		{"the client is wrong", "", errs.New(errs.Invalid, "no")},
		{"we are busy", "", errs.New(errs.Unavailable, "no")},
		{"we are broken", "ERROR", errs.New(errs.Internal, "no")},
	} {
		_, log := serve(web.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			web.Quiet(r)
			return c.err
		}), httptest.NewRequest("GET", "/", nil))
		if got := strings.Contains(fmt.Sprint(log), "level="+c.level); c.level != "" && !got || c.level == "" && strings.Contains(fmt.Sprint(log), "request") {
			t.Errorf("%s: logged is %v, want level %q", c.name, log, c.level)
		}
	}
}

// echo answers with the size of the body.
func echo(w http.ResponseWriter, r *http.Request) error {
	body, err := web.Body(w, r, 1<<20)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, len(body))
}

// start runs a server and returns its address; it is stopped at the end.
func start(t *testing.T, limits web.Limits, h http.Handler) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), startOn(t, l, limits, h)
}

// startOn runs a server on a listener.
func startOn(t *testing.T, l net.Listener, limits web.Limits, h http.Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	log := logTo(&logLines{})
	go func() { done <- web.Server{Log: log, Handler: web.Wrap(log, h), Limits: limits}.Serve(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestLargeBodiesAreCut(t *testing.T) {
	t.Parallel()
	address, _ := start(t, web.DefaultLimits(), web.HandlerFunc(echo))
	// A reader without a length makes the client send chunks.
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 5<<20)))
	res, err := http.Post("http://"+address+"/", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("5 MiB in chunks = %d, want 413", res.StatusCode)
	}
}

func TestSlowClientsAreCutAndOthersServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a client that is not slow needs no time, however busy the machine is
		listener := bufconn.Listen(1 << 16)
		limits := web.DefaultLimits()
		limits.Read = 300 * time.Millisecond
		startOn(t, listener, limits, web.HandlerFunc(echo))
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
		slow, err := dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := io.WriteString(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		res, err := client.Post("http://x/", "application/json", strings.NewReader("{}"))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("another client next to a slow one: %v, %v", res, err)
		}
		res.Body.Close()
		text, err := io.ReadAll(slow)
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 408 ") {
			t.Errorf("a body that does not arrive = %q, %v, want 408", text, err)
		}
	})
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	address, stop := start(t, web.DefaultLimits(), web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		close(entered)
		<-release
		return errors.Join(r.Context().Err(), web.JSON(w, http.StatusOK, "done"))
	}))
	answers := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + address + "/")
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answers <- string(text)
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	waitRefused(t, address)
	close(release)
	if got := <-answers; got != "\"done\"\n" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

// waitRefused waits until the port is closed.
func waitRefused(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("the server goes on listening")
}

// What stores something is refused by its route, whatever its method, and what takes something away where no change is
// allowed; a dry run is not; what is no route stays one that does not exist.
func TestChangesAreRefusedByTheirRoutes(t *testing.T) {
	t.Parallel()
	need, refusal := authz.Permission{Verb: authz.Public, Type: "things"}, errs.New(errs.Unavailable, "full")
	done := func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil }
	for refuse, wants := range map[string]map[[2]string]int{
		"what stores": {
			{"GET", "/things"}: 204, {"POST", "/things"}: 503, {"PUT", "/things"}: 503, {"DELETE", "/things"}: 204,
			{"GET", "/begin"}: 503, {"POST", "/end"}: 204, {"POST", "/ask"}: 204, {"POST", "/begin"}: 405, {"POST", "/nowhere"}: 404,
			{"POST", "/things?dryRun=true"}: 204, {"PUT", "/things?dryRun=server"}: 204, {"POST", "/things?dryRun=false"}: 503, {"POST", "/things?dryRun=yes"}: 503, {"GET", "/begin?dryRun=true"}: 503,
		},
		"changes": {
			{"GET", "/things"}: 204, {"POST", "/things"}: 503, {"PUT", "/things"}: 503, {"DELETE", "/things"}: 503,
			{"GET", "/begin"}: 503, {"POST", "/end"}: 503, {"POST", "/ask"}: 204, {"POST", "/begin"}: 405, {"POST", "/nowhere"}: 404,
			{"POST", "/things?dryRun=true"}: 204, {"DELETE", "/things?dryRun=true"}: 204, {"POST", "/things?dryRun=false"}: 503, {"GET", "/begin?dryRun=true"}: 503,
		},
	} {
		router, now := web.NewRouter(), error(refusal)
		middleware := map[string]func(func() error) mux.MiddlewareFunc{"what stores": web.RefuseStoring, "changes": web.RefuseChanges}[refuse]
		router.Use(middleware(func() error { return now }))
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			web.Handle(router, method, "/things", need, done)
		}
		web.HandleStoring(router, "GET", "/begin", need, done)
		web.HandleFreeing(router, "POST", "/end", need, done)
		web.HandleReading(router, "POST", "/ask", need, done)
		ask := func(r [2]string) int {
			w := httptest.NewRecorder()
			router.ServeHTTP(w, httptest.NewRequest(r[0], r[1], nil))
			return w.Code
		}
		for r, want := range wants {
			if got := ask(r); got != want {
				t.Errorf("%s are refused: %v: %d, want %d", refuse, r, got, want)
			}
		}
		now = nil
		for r := range wants {
			if got := ask(r); got == 503 {
				t.Errorf("%v is refused for nothing", r)
			}
		}
	}
}
