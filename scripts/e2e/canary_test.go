package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
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

// S-21: an installation with identity, audit log and traces gets secrets in all ways that it takes them. None is in
// what it writes: the log, metrics, traces, the audit log, the dump, a backup, Git, the files of etcd and of the documents.
func TestS21NoSecretIsInWhatTheProgramWrites(t *testing.T) {
	do := steps{TB: t}
	do.next("plant secrets, also where none belongs: paths, queries, headers, cookies")
	traces := newTraceServer(t)
	s := newIdentityStage(t, "-log.level", "debug", "-auth.requests", "0", "-audit.reads", "-trace.endpoint", traces.URL+"/v1/traces", "-trace.ratio", "1")
	planted := func(name string) leak.Secret { return leak.Secret{Name: name, Text: "planted" + rand.Text()} }
	token, override, shared := planted("Git token"), planted("override"), planted("secret of a sync object")
	query, header, cookie, wrong, body := planted("query"), planted("header"), planted("cookie"), planted("wrong token"), planted("body that is refused")
	robot := leak.Secret{Name: "API token", Text: strings.TrimSpace(s.as(s.root, 0, "auth", "token", "create", "robot", "--role", "viewer", "--place", "projects/bank").Out)}
	secrets := []leak.Secret{
		token, override, shared, query, header, cookie, wrong, body, robot,
		{Name: "bootstrap token", Text: bootstrapToken},
		{Name: "token of the provider", Text: s.root},
	}
	sealing, err := os.ReadFile(s.path("one/data/sealing.key"))
	s.must("read the sealing key", err)
	secrets = append(secrets, leak.Secret{Name: "sealing key", Text: strings.TrimSpace(string(sealing))})
	find := leak.NewFinder(secrets...)
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
	} {
		for _, bearer := range []string{s.root, wrong.Text, robot.Text} {
			find.Look("answer to "+r.method+" "+r.path, s.send(r.method, r.path, r.body, "Authorization", "Bearer "+bearer, "X-Api-Key", header.Text, "Cookie", "session="+cookie.Text))
		}
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
	s.must("remove the sealing key", os.Rename(s.path("one/data/sealing.key"), s.path("kept.key")))
	files, err := find.LookIn(s.path("one/data"))
	s.must("search the data folder", err)
	s.must("put the sealing key back", os.Rename(s.path("kept.key"), s.path("one/data/sealing.key")))

	leaks, searched := find.Found()
	for _, leaked := range leaks {
		t.Error(leaked)
	}
	t.Logf("searched %.1f MiB and %d files of the data folder for %d secrets in 5 forms: %d leaks", float64(searched)/mib, files, len(secrets), len(leaks))
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

// send sends a request with headers, and returns the whole answer.
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
		_ = r.Header.Write(&s.text)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *traceServer) all() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.text.Bytes())
}
