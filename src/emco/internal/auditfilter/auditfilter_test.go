package auditfilter_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditfilter"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

var etcd *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(etcdtest.RunShared(m, func(c *clientv3.Client) { etcd = c }))
}

// However a handler ends, there is an outcome; what only asks leaves no line unless it is watched.
func TestEachEndHasAnOutcome(t *testing.T) {
	t.Parallel()
	log, err := auditlog.New(auditlog.Options{
		KV: etcdkv.New(etcd, etcdtest.Prefix(t), etcdkv.Options{}), Holder: "a", TTL: 2 * time.Second, Spool: filepath.Join(t.TempDir(), "spool"),
		Keep: time.Hour, Bytes: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler), OnLines: func(int) {}, OnFailed: func() { t.Error("failed") },
	})
	etcdtest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- log.Run(ctx) }()
	defer func() { cancel(); etcdtest.Must(t, <-over) }()

	w := &auditfilter.Filter{AuditLog: log, Veils: func(k store.Key) bool { return strings.HasSuffix(string(k), "veiled") }, Now: time.Now, Count: func(int) {}}
	r := web.NewRouter()
	r.Use(w.Route)
	handle := func(method, path, verb string, h web.HandlerFunc) {
		web.Handle(r, method, path, authz.Permission{Verb: verb, Type: "things"}, h)
	}
	tell := func(key, before, after string) web.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) error {
			store.Tell(r.Context(), store.Doc{Key: store.Key(key), Body: []byte(before)}, store.Doc{Key: store.Key(key), UID: "7", Rev: 2, Body: []byte(after)})
			return nil
		}
	}
	handle("POST", "/v2/panics", authz.Create, func(http.ResponseWriter, *http.Request) error { panic("a fault") })
	handle("POST", "/v2/writes", authz.Create, func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("x")); return err })
	handle("POST", "/v2/acts", authz.Act("go"), func(_ http.ResponseWriter, r *http.Request) error { _, err := io.ReadAll(r.Body); return err })
	handle("PUT", "/v2/clear", authz.Update, tell("projects/shop", "old", "new"))
	handle("PUT", "/v2/veiled", authz.Update, tell("projects/shop/veiled", "old", "new"))
	handle("GET", "/v2/reads", authz.Get, func(http.ResponseWriter, *http.Request) error { return nil })
	handle("GET", "/v2/reveals", authz.Reveal, func(http.ResponseWriter, *http.Request) error { return nil })
	handle("GET", "/v2/reveals/again", authz.Reveal, func(http.ResponseWriter, *http.Request) error { return nil })
	handle("PUT", "/v2/clear/again", authz.Update, func(http.ResponseWriter, *http.Request) error { return nil })
	handle("POST", "/v2/asks", authz.SignedIn, func(http.ResponseWriter, *http.Request) error { return nil })
	api := web.Wrap(slog.New(slog.DiscardHandler), r)
	for _, target := range []string{"POST panics", "POST writes", "POST acts", "PUT clear", "PUT veiled", "GET reads", "GET reveals", "POST asks", "GET reveals/again?dryRun=true", "PUT clear/again?dryRun=true"} {
		method, path, _ := strings.Cut(target, " ")
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/v2/"+path, strings.NewReader("body")))
	}

	page, err := log.List(t.Context(), auditlog.Query{Limit: 100, Admit: func(l audit.Line) bool { return l.Phase == audit.Outcome }})
	etcdtest.Must(t, err)
	var got []string
	lines := map[string]audit.Line{}
	for _, text := range slices.Backward(page.Items) {
		var l audit.Line
		etcdtest.Must(t, json.Unmarshal(text, &l))
		lines[l.Path] = l
		got = append(got, strings.TrimPrefix(l.Path, "/v2/")+" "+http.StatusText(l.Code))
	}
	if want := []string{"panics Internal Server Error", "writes OK", "acts OK", "clear OK", "veiled OK", "reveals OK", "reveals/again OK", "clear/again OK"}; !slices.Equal(got, want) {
		t.Errorf("outcomes: %q, want %q", got, want)
	}
	if l := lines["/v2/acts"]; l.Body != audit.Digest([]byte("body")) {
		t.Errorf("the action: %+v", l)
	}
	if l := lines["/v2/clear"]; l.Before != audit.Digest([]byte("old")) || l.After != audit.Digest([]byte("new")) || l.UID != "7" || l.Rev != 2 || l.Place != "projects/shop" || l.Documents != 0 || l.Body != "" {
		t.Errorf("a document: %+v", l)
	}
	if l := lines["/v2/veiled"]; l.Before != "" || l.After != "" || l.Rev != 2 {
		t.Errorf("a document whose values are sealed: %+v", l)
	}
	if l := lines["/v2/reveals/again"]; l.Reason != "" {
		t.Errorf("a credential that was shown: %+v; want that it is no dry run", l)
	}
	if l := lines["/v2/clear/again"]; l.Reason != "dry run" {
		t.Errorf("a dry run: %+v", l)
	}
}

// While the log cannot be written, dry runs go on as reads do; what changes something, or shows a credential, does not.
func TestDryRunsGoOnWithoutTheLog(t *testing.T) {
	t.Parallel()
	failed := 0
	log, err := auditlog.New(auditlog.Options{
		KV: etcdkv.New(etcd, etcdtest.Prefix(t), etcdkv.Options{}), Holder: "a", TTL: 2 * time.Second, Strict: true,
		Keep: time.Hour, Bytes: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler), OnLines: func(int) {}, OnFailed: func() { failed++ },
	})
	etcdtest.Must(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	etcdtest.Must(t, log.Run(stopped)) // it takes no lines any longer
	w := &auditfilter.Filter{AuditLog: log, Veils: func(store.Key) bool { return false }, Now: time.Now, Count: func(int) {}}
	r := web.NewRouter()
	r.Use(w.Route)
	for target, verb := range map[string]string{"POST /v2/things": authz.Create, "GET /v2/secrets": authz.Reveal} {
		method, path, _ := strings.Cut(target, " ")
		web.Handle(r, method, path, authz.Permission{Verb: verb, Type: "things"}, func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusNoContent)
			return nil
		})
	}
	api := web.Wrap(slog.New(slog.DiscardHandler), r)
	for target, want := range map[string]int{
		"POST /v2/things": 503, "POST /v2/things?dryRun=false": 503, "POST /v2/things?dryRun=true": 204, "GET /v2/secrets": 503, "GET /v2/secrets?dryRun=true": 503,
	} {
		method, path, _ := strings.Cut(target, " ")
		got := httptest.NewRecorder()
		api.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if got.Code != want {
			t.Errorf("%s: %d %s, want %d", target, got.Code, got.Body, want)
		}
	}
	if failed == 0 {
		t.Error("the dry run that is not in the log was not counted")
	}
}
