package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// audited returns the lines of the log that a query selects, newest first.
func (s *testStage) audited(query string) (out []audit.Line) {
	s.Helper()
	var page audit.Page
	for {
		s.must("read a page", json.Unmarshal([]byte(s.expect(200, "GET", "audit?limit=1000&"+query+"&continue="+url.QueryEscape(page.Continue), "")), &page))
		for _, text := range page.Items {
			var l audit.Line
			s.must("read a line", json.Unmarshal(text, &l))
			out = append(out, l)
		}
		if page.Continue == "" {
			return out
		}
		page = audit.Page{Continue: page.Continue}
	}
}

// wholeLog wants a log that can be verified, and returns its export.
func (s *testStage) wholeLog() string {
	s.Helper()
	text := s.expect(200, "GET", "audit/export", "")
	if r, err := audit.Verify(strings.NewReader(text)); err != nil || !r.Whole {
		s.Errorf("the log is not whole: %v", err)
	}
	if _, err := audit.Verify(strings.NewReader(text[:strings.IndexByte(text, '\n')+1])); err == nil || !strings.Contains(err.Error(), "the export is cut") {
		s.Errorf("the first line of the export alone: %v", err)
	}
	return text
}

// find returns the newest line with a phase, a verb and a path; zero if there is none.
func find(all []audit.Line, phase, verb, path string) audit.Line {
	i := slices.IndexFunc(all, func(l audit.Line) bool { return l.Phase == phase && l.Verb == verb && l.Path == path })
	if i < 0 {
		return audit.Line{}
	}
	return all[i]
}

// The log records who did what from where with which outcome, also refusals; it holds no credential and no
// content; and each caller sees the lines of its own projects.
func TestTheAuditLogRecordsWhoDidWhat(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	dev := g.user("dev", "shop")
	dev.expect(201, "POST", "projects/shop/composite-apps", `{"metadata":{"name":"scan","description":"content-4711"},"spec":{"compositeAppVersion":"v1"}}`)
	dev.expect(201, "PUT", "projects/shop/composite-apps/scan/v1", `{"metadata":{"name":"scan","description":"content-4712"},"spec":{"compositeAppVersion":"v1"}}`)
	dev.expect(403, "POST", "projects/shop/role-bindings", binding("more", "deployer", "user:corp:dev"))
	dev.expect(404, "GET", "projects/bank", "")
	g.with("").expect(401, "DELETE", "projects/shop", "")
	g.with("emco_planted-wrong-token").expect(401, "GET", "projects", "")
	made := root.expect(201, "POST", "tokens", tokenDocument("ci"))
	root.expect(200, "GET", "tokens", "")
	root.expect(400, "POST", "projects/bank/composite-apps", `{"metadata":{"name":"?"}}`)

	all := root.audited("")
	const apps, scan = "/v2/projects/shop/composite-apps", "/v2/projects/shop/composite-apps/scan/v1"
	created, replaced := find(all, audit.Outcome, "create", apps), find(all, audit.Outcome, "update", scan)
	if created.Subject != "user:corp:dev" || created.Via != "oidc" || created.Address != "127.0.0.1" || created.Code != 201 || created.Place != "projects/shop" || created.Rev != 1 || created.UID == "" || created.Before != "" || created.After == "" || created.Request == "" {
		t.Errorf("the creation: %+v", created)
	}
	if replaced.Rev != 2 || replaced.UID != created.UID || replaced.Before != created.After || replaced.After == created.After {
		t.Errorf("the replacement: %+v", replaced)
	}
	if i := find(all, audit.Intent, "create", apps); i.Seq == 0 || i.Seq != created.Of || i.Code != 0 {
		t.Errorf("the intent of %+v: %+v", created, i)
	}
	for _, c := range []struct {
		verb, path, subject string
		code                int
	}{
		{"create", "/v2/projects/shop/role-bindings", "user:corp:dev", 403},
		{"get", "/v2/projects/bank", "user:corp:dev", 404},
		{"delete", "/v2/projects/shop", "", 401},
		{"get", "/v2/projects", "", 401},
	} {
		if l := find(all, audit.Refused, c.verb, c.path); l.Code != c.code || l.Subject != c.subject {
			t.Errorf("the refusal of %s %s: %+v", c.verb, c.path, l)
		}
	}
	if l := find(all, audit.Outcome, "create", "/v2/projects/bank/composite-apps"); l.Code != 400 {
		t.Errorf("the failure: %+v", l)
	}
	for _, path := range []string{"/v2/tokens", "/v2/audit"} {
		if l := find(all, audit.Read, "list", path); l.Subject != "user:corp:root" {
			t.Errorf("the reading of %s: %+v", path, l)
		}
	}
	signIns := root.audited("phase=sign-in&subject=dev")
	if len(signIns) != 1 || signIns[0].Reason != "group:corp:shop" {
		t.Errorf("sign-ins of dev: %+v", signIns)
	}
	if b := root.audited("phase=sign-in"); !slices.ContainsFunc(b, func(l audit.Line) bool { return l.Via == "bootstrap" }) {
		t.Errorf("the bootstrap token did not sign in: %+v", b)
	}

	text := root.wholeLog()
	var token struct {
		Token string `json:"token"`
	}
	s := g.testStage
	s.must("read the token", json.Unmarshal([]byte(made), &token))
	for _, secret := range []string{"content-47", "planted-wrong", g.bootstrap, token.Token} {
		if secret == "" || strings.Contains(text, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}

	for _, l := range g.user("lead-shop").audited("") {
		if l.Place != "projects/shop" {
			t.Fatalf("the administrator of shop reads %+v", l)
		}
	}
	if n := len(g.user("lead-shop").audited("project=shop")); n < 5 {
		t.Errorf("the administrator of shop reads %d lines", n)
	}
	if n := len(g.user("lead-shop").audited("project=bank")); n != 0 {
		t.Errorf("the administrator of shop reads %d lines of bank", n)
	}
	dev.expect(403, "GET", "audit", "")
	for _, u := range []*testStage{dev, g.user("lead-shop")} {
		u.expect(403, "GET", "audit/export", "")
	}
	g.with("").expect(401, "GET", "audit", "")
	root.expect(201, "POST", "role-bindings", binding("watch", "auditor", "user:corp:eve"))
	g.user("eve").wholeLog()
}

// A client that is not let in cannot fill the log: beyond some lines it is counted.
func TestRefusalsDoNotFillTheAuditLog(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	nobody := g.with("")
	const each = 10 // lines a second of one address
	first := time.Now().Unix()
	for range 300 {
		nobody.do("GET", "projects", "")
	}
	seconds := int(time.Now().Unix() - first + 1)
	n := len(root.audited("phase=refused"))
	if n == 0 || n > each*seconds {
		t.Errorf("%d lines of 300 refusals in %d seconds", n, seconds)
	}
	g.stop()
	g.start()
	var missed int64
	for _, l := range g.user("root").audited("phase=missed") {
		missed += l.Count
	}
	if int64(n)+missed != 300 {
		t.Errorf("%d refusals are described and %d counted, of 300", n, missed)
	}
}

// Each request that was answered is in the log after kill -9, whether requests wait for etcd or not.
func TestAnsweredRequestsAreInTheAuditLogAfterAKill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{config.AuditRelaxed, config.AuditStrict} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			v := newCrashStage(t, func(s *testStage) { s.config.Audit.Mode = mode })
			answered := map[string]bool{}
			var mu sync.Mutex
			for round := range 3 {
				var clients sync.WaitGroup
				var enough atomic.Int64
				v.mu.Lock()
				p := v.now
				v.mu.Unlock()
				for c := range 4 {
					clients.Go(func() {
						for i := 0; ; i++ {
							name := fmt.Sprintf("p-%d-%d-%d", round, c, i)
							a, err := v.try(client.Request{Method: http.MethodPut, Path: "/v2/projects/" + name, Body: client.JSON([]byte(named(name)))})
							if err != nil {
								return
							}
							if a.Status == http.StatusOK || a.Status == http.StatusCreated {
								mu.Lock()
								answered["/v2/projects/"+name] = true
								mu.Unlock()
							}
							if enough.Add(1) == 60 {
								_ = p.cmd.Process.Kill()
							}
							select {
							case <-p.ended:
								return
							default:
							}
						}
					})
				}
				clients.Wait()
				v.eventually("the next process serves", func() string {
					if a, err := v.try(client.Request{Method: http.MethodGet, Path: "/readyz"}); err != nil || a.Status != http.StatusOK {
						return "not yet"
					}
					return ""
				})
			}
			s := *v.testStage
			v.mu.Lock()
			s.api = v.api
			v.mu.Unlock()
			recorded := map[string]bool{}
			intents := map[string]bool{}
			for _, l := range s.audited("") {
				recorded[l.Path] = recorded[l.Path] || l.Phase == audit.Outcome
				intents[l.Path] = intents[l.Path] || l.Phase == audit.Intent
			}
			for path := range answered {
				if !recorded[path] || mode == config.AuditStrict && !intents[path] {
					t.Errorf("%s was answered; outcome %v, intent %v", path, recorded[path], intents[path])
				}
			}
			if len(answered) < 100 {
				t.Errorf("%d requests were answered", len(answered))
			}
			s.wholeLog()
		})
	}
}

// Processes on one etcd write one log, which each of them shows.
func TestProcessesShareTheAuditLog(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "" })
	second := s.beside(func(c *config.Config) {
		key, err := os.ReadFile(s.config.Path("sealing.key"))
		s.must("read the key", err)
		c.Store.Key = config.Secret(strings.TrimSpace(string(key)))
	})
	second.start()
	defer second.stop()
	s.expect(201, "POST", "projects", named("one"))
	second.expect(200, "PUT", "projects/two", named("two"))
	for _, at := range []*testStage{s, second} {
		s.eventually("both lines are there", func() string {
			all := at.audited("phase=outcome")
			return unless(find(all, audit.Outcome, "create", "/v2/projects").Code+find(all, audit.Outcome, "update", "/v2/projects/two").Code, 401)
		})
		at.wholeLog()
	}
}

// S-19: while the log cannot be written, what would change something is refused and not done; reading goes on.
func TestWithoutTheAuditLogNothingChanges(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints, c.Store.Driver = etcd.Endpoints(), "sqlite" })
	s.expect(201, "POST", "projects", named("before"))
	etcd.Pause(0)
	a := s.do("POST", "projects", named("meanwhile"))
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "audit log") {
		t.Errorf("a request without the log: %d %s", a.Status, a.Body)
	}
	if got := s.expect(200, "GET", "projects", ""); !strings.Contains(got, "before") || strings.Contains(got, "meanwhile") {
		t.Errorf("projects: %s", got)
	}
	etcd.Resume(0)
	s.eventually("the log is written again", func() string {
		return unless(s.do("PUT", "projects/after", named("after")).Status, http.StatusOK)
	})
	s.wholeLog()
}

// Without authentication the log is kept too, and a gateway's name counts; with audit.mode off there is none.
func TestTheAuditLogWithoutAuthentication(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if a := s.raw("POST", "/v2/projects", "", named("bank"), "Content-Type: application/json", "X-Forwarded-User: alice", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); a.Status != http.StatusCreated {
		t.Fatalf("make a project: %d %s", a.Status, a.Body)
	}
	if a := s.raw("DELETE", "/v2/projects/bank", "", "", "Sec-Fetch-Site: cross-site"); a.Status != http.StatusForbidden {
		t.Fatalf("a page of another origin: %d %s", a.Status, a.Body)
	}
	s.expect(201, "POST", "projects?dryRun=true", named("tried"))
	l := find(s.audited("since="+url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))), audit.Outcome, "create", "/v2/projects")
	alice := s.audited("subject=alice")
	if len(alice) != 1 || alice[0].Via != "header" || alice[0].Trace != "0af7651916cd43dd8448eb211c80319c" || alice[0].Code != 201 || alice[0].Place != "projects/bank" {
		t.Errorf("alice: %+v", alice)
	}
	if l := find(s.audited(""), audit.Refused, "delete", "/v2/projects/bank"); l.Code != 403 {
		t.Errorf("the request of a page of another origin: %+v", l)
	}
	if l.Reason != "dry run" || l.Rev != 0 {
		t.Errorf("the dry run: %+v", l)
	}
	g := s.running("a")
	if l := find(s.audited("project=shop"), audit.Program, "act:instantiate", "/v2/"+g.path); l.Subject != "anonymous" || l.Rev != 1 || l.Reason != "done" || l.Type != "deployment-intent-groups" {
		t.Errorf("what the program did: %+v", l)
	}
	if l := find(s.audited(""), audit.Outcome, "act:instantiate", "/v2/"+g.path+"/instantiate"); l.Code != 202 {
		t.Errorf("the action: %+v", l)
	}
	s.expect(400, "GET", "audit?since=yesterday", "")
	s.expect(400, "GET", "audit?continue=x", "")
	s.expect(400, "GET", "audit?phase=refuse", "")
	s.expect(200, "GET", "audit?phase=refused", "")
	s.stop()
	s.config.Audit.Mode = config.AuditOff
	s.start()
	s.expect(404, "GET", "audit", "")
}

// The server of audit.webhook.url gets each line, with the token, also those that were written while it did not answer and while EMCO was stopped.
func TestTheAuditLogIsPosted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string // guarded by mu
	refuse := true   // guarded by mu
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect is followed") }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || refuse || r.Header.Get("Authorization") != "Bearer secret-of-the-hook" {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		got = append(got, string(body))
	}))
	t.Cleanup(server.Close)
	posted := func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(strings.Join(got, ""), `"path":"/v2/projects/`+name+`"`)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret-of-the-hook\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStageWith(t, func(c *config.Config) {
		c.Audit.Webhook = config.AuditWebhook{URL: server.URL + "/audit", TokenFile: token}
	})
	s.expect(200, "PUT", "projects/shop", named("shop"))
	s.eventually("a refusal of the server", func() string {
		if s.metric("emco_audit_webhook_failed_total") == "0" {
			return "it was not asked"
		}
		return ""
	})
	s.stop()
	mu.Lock()
	refuse = false
	mu.Unlock()
	s.start()
	s.eventually("the line", func() string { return unless(posted("shop"), 1) })
	s.expect(200, "PUT", "projects/bank", named("bank"))
	s.eventually("the next line", func() string { return unless(posted("bank"), 1) })
	if n := posted("shop"); n != 1 {
		t.Errorf("the first line was posted %d times", n)
	}
	if strings.Contains(s.log.String(), "secret-of-the-hook") {
		t.Error("the log has the token")
	}
}
