package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/leak"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// S-21: an installation with identity, browsers, audit log, traces, webhooks, reports and an OPA server gets secrets.
// None is in what it writes: the log, metrics, traces, the audit log, the dump, a backup, Git, the files of etcd and of
// the documents.
func TestS21NoSecretIsInWhatTheProgramWrites(t *testing.T) {
	do := steps{TB: t}
	do.next("plant secrets: in settings, files and variables, in a browser, and where none belongs: paths, queries, headers")
	planted := func(name string) leak.Secret { return leak.Secret{Name: name, Text: "planted" + rand.Text()} }
	token, override, shared := planted("Git token"), planted("override"), planted("secret of a sync object")
	query, header, cookie, wrong, body := planted("query"), planted("header"), planted("cookie"), planted("wrong token"), planted("body that is refused")
	web, hook, wrongHook, policy, collector := planted("secret of the web client"), planted("webhook secret"), planted("wrong webhook secret"), planted("token for the OPA server"), planted("header of traces")
	traces, engine := newTraceServer(t), newPolicyServer(t)
	var gateway front
	door := httptest.NewTLSServer(&gateway)
	t.Cleanup(door.Close)
	files := t.TempDir()
	file := func(name, text string) (path string) {
		path = filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw}))
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-collector="+collector.Text)
	t.Setenv("EMCO_STATUS_WEBHOOK_SECRET", hook.Text)
	args := []string{"-log.level", "debug", "-auth.requests", "0", "-audit.reads", "-trace.endpoint", traces.URL + "/v1/traces", "-trace.ratio", "1"}
	s := newIdentityStageWith(t, fmt.Sprintf("{client: emco-web, redirect: %q, secretFile: %q}", door.URL+"/v2/auth/callback", file("web", web.Text)),
		fmt.Sprintf("outbound:\n  engines: [%q]\n  engineAccess: [{url: %q, tokenFile: %q, ca: %q}]\n", engine.URL+"/", engine.URL, file("opa", policy.Text), file("ca.pem", authority)), args...)
	s.op.SetSecret("emco-web", web.Text)
	sealing, err := os.ReadFile(s.path("one/data/sealing.key"))
	s.must("read the sealing key", err)
	s.must("stop", s.emco.Stop())
	s.must("remove the sealing key", os.Rename(s.path("one/data/sealing.key"), s.path("kept.key")))
	t.Setenv("EMCO_STORE_KEY", strings.TrimSpace(string(sealing)))
	s.emco = s.start("one", args...)
	gateway.to(t, s.emco.URL())

	robot := leak.Secret{Name: "API token", Text: strings.TrimSpace(s.as(s.root, 0, "auth", "token", "create", "robot", "--role", "viewer", "--place", "projects/bank").Out)}
	secrets := append(s.signIn(door),
		token, override, shared, query, header, cookie, wrong, body, web, hook, wrongHook, policy, collector, robot,
		leak.Secret{Name: "bootstrap token", Text: bootstrapToken},
		leak.Secret{Name: "token of the provider", Text: s.root},
		leak.Secret{Name: "sealing key", Text: strings.TrimSpace(string(sealing))},
	)
	visible := planted("a name that may be seen")
	visible.Text = strings.ToLower(visible.Text)

	git, err := gittest.Serve(s.path("git"), gittest.User{Name: writer, Token: token.Text, Write: true})
	s.must("serve Git", err)
	t.Cleanup(func() { git.Close() })
	bare, err := git.Seed(t.Context(), repoName, branch)
	s.must("create the repository", err)
	f, err := fleet.OpenAs(s.emco.URL(), client.Token(s.root))
	s.must("open the API", err)
	s.as(s.root, 0, "delete", "projects/shop") // the fleet makes its own
	s.must("register the fleet", f.Found(t.Context(), fleet.Repository{URL: git.URL(repoName), User: writer, Token: token.Text}))
	s.as(s.root, 0, "apply", "-f", s.write("cloud.yaml", "version: emco/v2\nresourceContext: {anchor: cluster-providers/edge/cluster-sync-objects}\nmetadata: {name: cloud}\nspec: {kv: [{clientID: id}, {clientSecret: "+shared.Text+"}]}\n"))
	s.must("register clusters", f.Register(t.Context(), 2))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	report := leak.Secret{Name: "report token", Text: member(t, "token", s.send(http.MethodPost, "cluster-providers/edge/clusters/"+fleet.GitCluster(0)+"/monitor/token", "", "Authorization", "Bearer "+s.root))}
	secrets = append(secrets, report)
	find := leak.NewFinder(secrets...)
	d := fleet.Deployment{Name: visible.Text, Apps: []fleet.App{{Chart: fleet.Synthetic("web", 3), Overrides: map[string]string{"database.password": override.Text}}}}
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	got := s.send(http.MethodGet, d.Path(), "", "Authorization", "Bearer "+s.root)
	if find.Look("the document", got); !bytes.Contains(got, []byte(`"database.password":"***"`)) {
		t.Errorf("the document does not have the override, so nothing was planted:\n%s", got)
	}
	s.as(s.root, 0, "wait", d.Path(), "--for=instantiated", "--timeout="+patience.String())
	for _, r := range []struct{ method, path, body string }{
		{"GET", "projects?token=" + url.QueryEscape(query.Text), ""},
		{"POST", "projects?password=" + query.Text, `{"metadata":{"name":"` + body.Text + `!"},"spec":{"token":"` + body.Text + `"}}`},
		{"POST", "cluster-providers/edge/cluster-sync-objects", `{"metadata":{"name":"x"},"spec":{"kv":[{"gitToken":["` + body.Text + `"]}]}}`},
		{"DELETE", "tokens/none", ""},
		{"GET", "auth/callback?code=" + query.Text + "&state=" + query.Text, ""},
		{"POST", "cluster-providers/edge/clusters/" + fleet.GitCluster(0) + "/monitor/report", `{"token":"` + body.Text + `"}`},
	} {
		for _, bearer := range []string{s.root, wrong.Text, robot.Text, report.Text} {
			find.Look("answer to "+r.method+" "+r.path, s.send(r.method, r.path, r.body, "Authorization", "Bearer "+bearer, "X-Api-Key", header.Text, "Cookie", "session="+cookie.Text))
		}
	}
	for given, want := range map[string]string{hook.Text: "202", wrongHook.Text: "401"} {
		got := s.send(http.MethodPost, "webhooks/git", `{"repository":{"clone_url":"`+git.URL(repoName)+`"}}`, "X-Gitlab-Token", given)
		if find.Look("answer to a webhook", got); !bytes.HasPrefix(got, []byte(want)) {
			t.Errorf("a webhook: %s, want %s", got, want)
		}
	}
	root := []string{"Authorization", "Bearer " + s.root}
	s.send(http.MethodPost, "policy/agents/watcher", `{}`, root...)
	s.send(http.MethodPost, d.Path()+"/policy-intents/ask", `{"spec":{"event":{"id":"alarm","agent":"watcher"},"policy":{"engineUrl":"`+engine.URL+`","policyName":"shop/halt"},"actor":"terminate"}}`, root...)
	got = s.send(http.MethodPost, "policy/agents/watcher/events", `{"id":"alarm"}`, root...)
	if find.Look("answer to an event", got); !bytes.Contains(got, []byte("Bearer *** is not allowed")) {
		t.Errorf("the OPA server did not refuse the token: %s", got)
	}

	do.next("read all that it writes")
	for name, args := range map[string][]string{"the audit log": {"audit", "list", "--limit", "0", "-o", "json"}, "the dump": {"dump"}, "the status": {"status", d.Path(), "-o", "json"}, "the events": {"events", d.Path(), "-o", "json"}} {
		r := s.as(s.root, 0, args...)
		find.Look(name, []byte(r.Out+r.Err))
		if name == "the events" {
			continue // of one deployment, without its name
		}
		s.shows(name, []byte(r.Out), visible)
	}
	code, metrics := askAs(t.Context(), s.emco, "/metrics", s.root)
	if code != http.StatusOK || !strings.Contains(metrics, "emco_git_commits_total") {
		t.Errorf("the metrics: %d %.200s", code, metrics)
	}
	find.Look("metrics", []byte(metrics))
	backup := s.path("backup.tar")
	out, err := exec.CommandContext(t.Context(), filepath.Join(binaries(), "emco"), "backup", "-data", s.path("one/data"), "-to", backup).CombinedOutput()
	if err != nil {
		t.Fatalf("back up: %v\n%s", err, out)
	}
	content, err := os.ReadFile(backup)
	s.must("read the backup", err)
	find.Look("the backup", content)
	s.shows("the backup", content, visible)
	objects := exec.CommandContext(t.Context(), "git", "cat-file", "--batch-all-objects", "--batch")
	objects.Dir = bare.Dir
	content, err = objects.Output()
	s.must("read the repository", err)
	find.Look("Git", content)
	s.shows("Git", content, visible)
	log, err := os.ReadFile(program.LogPath(s.path("one")))
	s.must("read the log", err)
	find.Look("the log", log)
	s.shows("the log", log, visible)
	eventually(t, "a trace of the action", func() error {
		if !bytes.Contains(traces.all(), []byte("/instantiate")) {
			return fmt.Errorf("%d bytes of traces", len(traces.all()))
		}
		return nil
	})
	find.Look("traces", traces.all())
	if heads := traces.allHeads(); !strings.Contains(heads, collector.Text) {
		t.Errorf("the collector did not get its header: %.300s", heads)
	} else {
		find.Look("headers of traces", []byte(heads), collector)
	}
	searchedFiles, err := find.LookIn(s.path("one/data"))
	s.must("search the data folder", err)
	for _, store := range []string{"documents.db*", "etcd"} { // the same search finds what is there
		paths, err := filepath.Glob(s.path("one/data/" + store))
		s.must("find the files of a store", err)
		control := leak.NewFinder(visible)
		for _, path := range paths {
			_, err := control.LookIn(path)
			s.must("search "+path, err)
		}
		if found, _ := control.Found(); len(found) == 0 {
			t.Errorf("%s does not show the name of the deployment", store)
		}
	}

	leaks, searched := find.Found()
	for _, leaked := range leaks {
		t.Error(leaked)
	}
	t.Logf("searched %.1f MiB and %d files of the data folder for %d secrets in 5 forms: %d leaks", float64(searched)/mib, searchedFiles, len(secrets), len(leaks))
	do.next("done")
}

// shows wants a text that is no secret: what does not show it is not readable, and proves nothing.
func (s *identityStage) shows(place string, text []byte, visible leak.Secret) {
	s.Helper()
	finder := leak.NewFinder(visible)
	finder.Look(place, text)
	if found, _ := finder.Found(); len(found) == 0 {
		s.Errorf("%s does not show the name of the deployment", place)
	}
}

// signIn signs a browser in at a door, and reads something with its session. It returns what the browser and the
// program got, all of which is secret.
func (s *identityStage) signIn(door *httptest.Server) (secrets []leak.Secret) {
	s.Helper()
	jar, err := cookiejar.New(nil)
	s.must("make a jar", err)
	browser := door.Client()
	browser.Jar = jar
	got := map[string]bool{} // by name
	remember := func(name, text string) {
		if got[name] = true; text != "" {
			secrets = append(secrets, leak.Secret{Name: name, Text: text})
		}
	}
	cookies := func() {
		at, err := url.Parse(door.URL)
		s.must("read the address of the door", err)
		for _, c := range jar.Cookies(at) {
			name := c.Name
			if strings.HasPrefix(name, "__Host-emco-signin-") {
				name = "cookie of the sign-in"
			}
			remember(name, c.Value)
		}
	}
	browser.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		cookies()
		for _, name := range []string{"state", "nonce", "code", "code_challenge"} {
			remember(name, r.URL.Query().Get(name))
		}
		if len(via) > 5 {
			return errors.New("too many redirects")
		}
		return nil
	}
	s.op.SetPerson(map[string]any{"sub": "root"})
	for _, path := range []string{"/v2/auth/login?return=/v2/projects", "/v2/auth/whoami", "/v2/projects/shop"} {
		req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, door.URL+path, nil)
		s.must("make a request", err)
		res, err := browser.Do(req)
		s.must("browse", err)
		text, err := io.ReadAll(res.Body)
		s.must("read "+path, errors.Join(err, res.Body.Close()))
		if res.StatusCode != http.StatusOK {
			s.Fatalf("%s: %s %s", path, res.Status, text)
		}
		cookies()
	}
	for i, token := range s.op.Granted() {
		remember("token of the sign-in", token)
		remember(fmt.Sprintf("signature of token %d", i), token[strings.LastIndex(token, ".")+1:])
	}
	for _, name := range []string{"state", "nonce", "code", "code_challenge", "cookie of the sign-in", "__Host-emco", "token of the sign-in"} {
		if !got[name] {
			s.Errorf("the sign-in has no %s", name)
		}
	}
	return secrets
}

// member returns a text member of a JSON object at the end of an answer.
func member(t *testing.T, name string, answer []byte) string {
	t.Helper()
	var object map[string]any
	if at := bytes.IndexByte(answer, '{'); at < 0 || json.Unmarshal(answer[at:], &object) != nil {
		t.Fatalf("no JSON: %s", answer)
	}
	text, ok := object[name].(string)
	if !ok || len(text) < 12 {
		t.Fatalf("no %s: %s", name, answer)
	}
	return text
}

// newPolicyServer starts an OPA server that refuses all callers, and shows them what they sent.
func newPolicyServer(t *testing.T) *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, "%s is not allowed", r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	return server
}

// send sends a request with headers, and returns the whole answer: status, head and body.
func (s *identityStage) send(method, path, body string, headers ...string) []byte {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.emco.URL()+"/v2/"+path, strings.NewReader(body))
	s.must("make a request", err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	s.must(method+" "+path, err)
	defer res.Body.Close()
	var all bytes.Buffer
	all.WriteString(res.Status + "\r\n")
	s.must("write the head", res.Header.Write(&all))
	_, err = all.ReadFrom(res.Body)
	s.must("read the answer", err)
	return all.Bytes()
}

func (s *identityStage) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// traceServer keeps the traces that it gets.
type traceServer struct {
	*httptest.Server

	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	head bytes.Buffer // guarded by mu
}

func newTraceServer(t *testing.T) *traceServer {
	s := &traceServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, err := s.text.ReadFrom(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = r.Header.Write(&s.head)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *traceServer) all() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.text.Bytes())
}

func (s *traceServer) allHeads() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.String()
}
