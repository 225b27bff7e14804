package gittest

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git/githttp"
)

// User may read all repositories of a server, and write them if Write.
type User struct {
	Name  string
	Token string
	Write bool
	Only  string // if not empty: may write only references that start with it, "refs/heads/status/"
}

// Server serves the bare repositories below a directory over HTTP on 127.0.0.1, by
// "git http-backend". Without users everybody may do all.
type Server struct {
	dir   string
	users []User
	http  *http.Server
	base  string
	ended chan struct{}

	drain githttp.Drain

	mu         sync.Mutex // guards all below
	drop       int
	answers    int
	status     int
	retryAfter string
	redirect   string
	before     func(repo string)
	after      func(repo string)
	requests   int
	pushes     int
}

// Serve starts a server; Close ends it.
func Serve(dir string, users ...User) (*Server, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, users: users, base: "http://" + l.Addr().String(), ended: make(chan struct{})}
	s.http = &http.Server{Handler: s.drain.Wrap(s), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l)
	}()
	return s, nil
}

// Close ends the server, and waits until the git programs of its requests have ended.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.ended
	return errors.Join(err, s.drain.Close())
}

// URL returns the URL of a repository.
func (s *Server) URL(repo string) string { return s.base + "/" + repo + ".git" }

// Bare returns a repository of the server, for direct looks.
func (s *Server) Bare(repo string) Bare { return Bare{Dir: filepath.Join(s.dir, repo+".git")} }

var repoName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// CreateRepo makes an empty repository whose default branch is branch.
func (s *Server) CreateRepo(ctx context.Context, name, branch string) (Bare, error) {
	if !repoName.MatchString(name) {
		return Bare{}, fmt.Errorf("repository name %q is not allowed", name)
	}
	dir := s.Bare(name).Dir
	if _, err := os.Stat(dir); err == nil {
		return Bare{}, fmt.Errorf("repository %s exists", name)
	}
	b, err := Init(ctx, dir, branch)
	if err == nil {
		err = s.guard(b)
	}
	return b, err
}

// guard makes a repository refuse pushes of users to references that are not theirs, as
// hosts with protected branches do.
func (s *Server) guard(b Bare) error {
	var rules strings.Builder
	for _, u := range s.users {
		if u.Only != "" {
			fmt.Fprintf(&rules, "%s) case \"$ref\" in %s*) ;; *) echo \"%s may not push $ref\" >&2; exit 1;; esac;;\n", u.Name, u.Only, u.Name)
		}
	}
	if rules.Len() == 0 {
		return nil
	}
	return b.Hook("pre-receive", "while read -r old new ref; do case \"$REMOTE_USER\" in\n"+rules.String()+"esac; done")
}

// Seed makes a repository whose default branch holds a README.
func (s *Server) Seed(ctx context.Context, name, branch string) (Bare, error) {
	b, err := s.CreateRepo(ctx, name, branch)
	if err != nil {
		return b, err
	}
	return b, b.begin(branch, "# "+name+"\n")
}

// DropReplies lets the next n pushes happen, but breaks the connection before their outcome is
// sent.
func (s *Server) DropReplies(n int) { s.set(func() { s.drop = n }) }

// Answer answers the next n requests with a status, and with Retry-After if that
// is not negative.
func (s *Server) Answer(n, status int, retryAfter time.Duration) {
	header := ""
	if retryAfter >= 0 {
		header = strconv.Itoa(int(retryAfter / time.Second))
	}
	s.set(func() { s.answers, s.status, s.retryAfter = n, status, header })
}

// Redirect sends every request to another server; "" ends that.
func (s *Server) Redirect(base string) { s.set(func() { s.redirect = base }) }

// BeforePush calls f in the middle of every push: after the server advertised its branches, before
// it takes the pack. nil ends that.
func (s *Server) BeforePush(f func(repo string)) { s.set(func() { s.before = f }) }

// AfterPush calls f at the end of every push, before its outcome is sent. nil ends that.
func (s *Server) AfterPush(f func(repo string)) { s.set(func() { s.after = f }) }

// Requests returns how many requests came, and how many of them carried a push.
func (s *Server) Requests() (all, pushes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.pushes
}

func (s *Server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// ServeHTTP answers a request of a Git client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	push := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
	if s.faulty(w, r, push) || !s.allowed(w, r) {
		return
	}
	if !push {
		githttp.Backend(s.dir, user(r)).ServeHTTP(w, r)
		return
	}
	repo := strings.TrimSuffix(strings.Trim(strings.TrimSuffix(r.URL.Path, "/git-receive-pack"), "/"), ".git")
	before, after := s.hooks()
	if before != nil {
		before(repo)
	}
	reply := httptest.NewRecorder()
	githttp.Backend(s.dir, user(r)).ServeHTTP(reply, r)
	if after != nil {
		after(repo)
	}
	if s.dropping() {
		panic(http.ErrAbortHandler) // breaks the connection, as the server's own death would
	}
	for key, values := range reply.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes())
}

func user(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// faulty counts the request, and answers it if a fault is set.
func (s *Server) faulty(w http.ResponseWriter, r *http.Request, push bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if push {
		s.pushes++
	}
	if s.redirect != "" {
		http.Redirect(w, r, s.redirect+r.URL.RequestURI(), http.StatusMovedPermanently)
		return true
	}
	if s.answers > 0 {
		s.answers--
		if s.retryAfter != "" {
			w.Header().Set("Retry-After", s.retryAfter)
		}
		http.Error(w, "fault", s.status)
		return true
	}
	return false
}

func (s *Server) dropping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop == 0 {
		return false
	}
	s.drop--
	return true
}

func (s *Server) hooks() (before, after func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.after
}

// allowed checks the login, and the right to write for receive-pack.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request) bool {
	if len(s.users) == 0 {
		return true
	}
	name, token, _ := r.BasicAuth()
	for _, u := range s.users {
		if u.Name != name || subtle.ConstantTimeCompare([]byte(u.Token), []byte(token)) != 1 {
			continue
		}
		writes := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
		if writes && !u.Write {
			http.Error(w, "you may only read", http.StatusForbidden)
			return false
		}
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
	http.Error(w, "who are you", http.StatusUnauthorized)
	return false
}
