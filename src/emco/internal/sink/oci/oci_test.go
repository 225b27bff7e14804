package oci_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/oci"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// server is a real registry behind a door that asks for a login, and may be broken.
type server struct {
	*testing.T
	repo git.Repo
	p    *oci.Publisher
	url  string

	mu     sync.Mutex
	calls  []string
	status int    // answered to what contains path, if it is not 0
	path   string // of faults
	wait   string // Retry-After of faults
	bearer bool   // asks for tokens instead of passwords
}

func serve(t *testing.T, tls bool) *server {
	t.Helper()
	s := &server{T: t, p: oci.New(oci.Options{Timeout: 10 * time.Second})}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.admit(w, r) {
			inner.ServeHTTP(w, r)
		}
	})
	web := httptest.NewUnstartedServer(h)
	if tls {
		web.StartTLS()
		s.repo.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	} else {
		web.Start()
	}
	t.Cleanup(web.Close)
	s.url, s.repo.URL = web.URL, web.URL+"/fleet/edge"
	s.repo.User, s.repo.Token = "emco", "planted"
	return s
}

// admit is the door.
func (s *server) admit(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	user, password, basic := r.BasicAuth()
	known := basic && user == "emco" && password == "planted"
	switch {
	case s.status != 0 && strings.Contains(r.URL.Path, s.path):
		if s.wait != "" {
			w.Header().Set("Retry-After", s.wait)
		}
		http.Error(w, "broken", s.status)
	case r.URL.Path == "/token" && known:
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "issued"})
	case s.bearer && r.Header.Get("Authorization") != "Bearer issued":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.url+`/token",service="edge",scope="repository:fleet/edge:pull,push"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
	case !s.bearer && !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="edge"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
	default:
		return true
	}
	return false
}

func (s *server) fail(status int, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.path = status, path
}

// writes returns what was written since the last time.
func (s *server) writes() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if !strings.HasPrefix(c, "GET") && !strings.HasPrefix(c, "HEAD") {
			out = append(out, c)
		}
	}
	s.calls = nil
	return out
}

func (s *server) publish(edits ...git.Edit) git.Hash {
	s.Helper()
	id, err := s.p.Submit(s.Context(), batch.Job{Repo: s.repo, Edits: edits})
	if err != nil {
		s.Fatalf("Submit: %v", err)
	}
	return id
}

const root = "clusters/edge+c1"

func dir(deployment string, files map[string]string) git.Edit {
	e := git.Edit{Path: root + "/context/" + deployment}
	for name, text := range files {
		if e.Dir == nil {
			e.Dir = map[string][]byte{}
		}
		e.Dir[name] = []byte(text)
	}
	return e
}

// holds checks the files of the artifact, which is read as anybody would.
func (s *server) holds(want ...string) {
	s.Helper()
	files := s.pull("edge_c1")
	want = append(want, root+"/emco.yaml")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		s.Errorf("the artifact holds %v, want %v", got, want)
	}
}

func TestPublishedFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	first := s.publish(dir("7", map[string]string{"app/web/a.yaml": "a", "app/web/b.yaml": "b"}), git.Edit{Path: root + "/kust7.yaml", File: []byte("k")})
	s.holds(root+"/context/7/app/web/a.yaml", root+"/context/7/app/web/b.yaml", root+"/kust7.yaml")
	if !strings.HasPrefix(string(first), "sha256:") {
		t.Errorf("Submit returned %q, want a digest", first)
	}
	s.publish(dir("8", map[string]string{"app/db/c.yaml": "c"})) // another deployment leaves it alone
	s.holds(root+"/context/7/app/web/a.yaml", root+"/context/7/app/web/b.yaml", root+"/context/8/app/db/c.yaml", root+"/kust7.yaml")
	s.publish(dir("8", nil))
	if again := s.publish(dir("8", nil)); again != first {
		t.Errorf("the same files have digest %s, and had %s", again, first)
	}
	s.publish(dir("7", nil), git.Edit{Path: root + "/kust7.yaml"})
	s.holds()
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	edit := dir("7", map[string]string{"app/web/a.yaml": "a"})
	s.publish(edit)
	s.writes()
	s.publish(edit)
	if w := s.writes(); len(w) > 0 {
		t.Errorf("the same files were sent again: %v", w)
	}
}

func TestLoginByTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.bearer = true
	s.publish(dir("7", map[string]string{"app/web/a.yaml": "a"}))
	s.bearer = false
	s.holds(root + "/context/7/app/web/a.yaml")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	edit := dir("7", map[string]string{"app/web/a.yaml": "a"})
	s.repo.Token = "planted-wrong"
	_, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{edit}})
	if !errs.Is(err, errs.Unauthorized) || strings.Contains(err.Error(), "planted") {
		t.Errorf("a wrong password = %v, want Unauthorized", err)
	}
	s.repo.Token = "planted"
	for status, want := range map[int]errs.Kind{403: errs.Forbidden, 429: errs.Throttled, 503: errs.Unavailable} {
		s.fail(status, "/manifests/")
		if _, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{edit}}); !errs.Is(err, want) {
			t.Errorf("a registry that answers %d = %v, want %v", status, err, want)
		}
	}
	s.wait = "7"
	s.fail(http.StatusTooManyRequests, "/manifests/")
	if _, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{edit}}); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != 7*time.Second {
		t.Errorf("a registry with Retry-After = %v, after %s; want Throttled for 7 s", err, errs.RetryAfter(err))
	}
	s.fail(0, "")
	for _, url := range []string{"http://registry.example.org/fleet/edge", s.url + "/Fleet/Edge"} {
		r := s.repo
		r.URL = url
		if _, err := s.p.Submit(t.Context(), batch.Job{Repo: r, Edits: []git.Edit{edit}}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s = %v, want Invalid", url, err)
		}
	}
	metadata := s.repo
	metadata.URL = "https://169.254.169.254/fleet/edge" // where machines of clouds find credentials
	if _, err := s.p.Submit(t.Context(), batch.Job{Repo: metadata, Edits: []git.Edit{edit}}); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a link-local address = %v, want Forbidden", err)
	}
	other := git.Edit{Path: "clusters/edge+c2/context/7"}
	if _, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{edit, other}}); !errs.Is(err, errs.Internal) {
		t.Errorf("edits of two clusters = %v, want Internal", err)
	}
}

// A tag moves last, and not at all when the work has been taken over.
func TestReadersSeeWholeArtifacts(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.publish(dir("7", map[string]string{"app/web/a.yaml": "a"}))
	next := dir("7", map[string]string{"app/web/b.yaml": "b"})
	s.fail(500, "/blobs/uploads")
	if _, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{next}}); err == nil {
		t.Error("a failed upload is no error")
	}
	s.fail(0, "")
	s.holds(root + "/context/7/app/web/a.yaml")
	fenced := batch.Fence{Check: func(context.Context) error { return errs.E(errs.Conflict, "write", "shard", errors.New("lost")) }}
	if _, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{next}, Fence: fenced}); !errs.Is(err, errs.Conflict) {
		t.Errorf("Submit after the work was taken over = %v, want Conflict", err)
	}
	s.holds(root + "/context/7/app/web/a.yaml")
	s.publish(next)
	s.holds(root + "/context/7/app/web/b.yaml")
}

func TestForeignTagsStay(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.put("edge_c1", "application/vnd.oci.image.manifest.v1+json", `{"schemaVersion":2,"layers":[]}`)
	_, err := s.p.Submit(t.Context(), batch.Job{Repo: s.repo, Edits: []git.Edit{dir("7", nil)}})
	if !errs.Is(err, errs.Conflict) {
		t.Errorf("Submit onto a foreign tag = %v, want Conflict", err)
	}
}

func TestTagsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]v2.ClusterKey{}
	long := strings.Repeat("x", 100)
	for _, names := range [][2]string{
		{"edge", "c1"}, {"a_b", "c"}, {"a", "b_c"}, {"a", "b-c"}, {"a-b", "c"}, {"a.b", "c"}, {long, long + "1"}, {long, long + "2"}, {long + "_1", "c"}, {long + "_2", "c"},
	} {
		c := v2.NewClusterKey(names[0], names[1])
		tag := oci.Tag(c)
		if other, taken := seen[tag]; taken || len(tag) > 128 || !tagForm.MatchString(tag) {
			t.Errorf("Tag(%s) = %s (as %s)", c, tag, other)
		}
		seen[tag] = c
	}
	if got := oci.Tag(v2.NewClusterKey("edge", "site-1.north")); got != "edge_site-1.north" {
		t.Errorf("a plain name is rewritten to %s", got)
	}
	// Tags that were written once stay: clusters read them.
	if got := oci.Tag(v2.NewClusterKey("a_b", "c")); got != "a_b_c-2f3550957852" {
		t.Errorf("the tag of a_b+c is now %s", got)
	}
}

var tagForm = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// do asks the registry without any library of ours.
func (s *server) do(method, path, kind, body string) []byte {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("emco:planted")))
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := insecure.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		s.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
	}
	return text
}

func (s *server) put(tag, kind, manifest string) {
	s.do("PUT", "/v2/fleet/edge/manifests/"+tag, kind, manifest)
}

// pull reads an artifact as Flux does: the layer of its media type.
func (s *server) pull(tag string) map[string]string {
	s.Helper()
	var m struct {
		MediaType string
		Config    struct{ MediaType string }
		Layers    []struct{ MediaType, Digest string }
	}
	if err := json.Unmarshal(s.do("GET", "/v2/fleet/edge/manifests/"+tag, "", ""), &m); err != nil {
		s.Fatal(err)
	}
	if len(m.Layers) != 1 || m.Layers[0].MediaType != oci.ContentType || m.Config.MediaType != oci.ConfigType {
		s.Fatalf("Flux would not take %+v", m)
	}
	files, err := untar(s.do("GET", "/v2/fleet/edge/blobs/"+m.Layers[0].Digest, "", ""))
	if err != nil {
		s.Fatal(fmt.Errorf("the layer: %w", err))
	}
	return files
}
