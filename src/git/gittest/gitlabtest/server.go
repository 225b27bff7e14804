package gitlabtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git/githttp"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// Server is a GitLab on 127.0.0.1. Start it with Serve.
type Server struct {
	dir    string
	prefix string
	base   string
	http   *http.Server
	api    http.Handler
	ended  chan struct{}
	drain  githttp.Drain

	mu       sync.Mutex // guards all below
	projects []*gitlabProject
	tokens   []*Token
	faults   faults
	limit    rateLimit
	calls    []string
	git      int
}

// Serve starts a server that keeps its repositories below dir, with a prefix in front of
// all of its paths, such as "/gitlab", or none. Close ends it.
func Serve(dir, prefix string) (*Server, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, prefix: prefix, base: "http://" + l.Addr().String() + prefix, ended: make(chan struct{})}
	s.api = s.routes()
	s.http = &http.Server{Handler: s.drain.Wrap(http.HandlerFunc(s.serve)), ReadHeaderTimeout: 10 * time.Second}
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

// URL returns the address of a project's repository.
func (s *Server) URL(project string) string { return s.base + "/" + project + ".git" }

// API returns the address of the REST API.
func (s *Server) API() string { return s.base + "/api/v4" }

// Calls returns the calls of the API that came, as "METHOD path", without query.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Requests returns how many requests of Git clients came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.git
}

var fullPath = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$`)

// CreateProject makes an empty private project of a path, such as "group/sub/project", and
// a default branch that is protected: maintainers push to it, and merge.
func (s *Server) CreateProject(ctx context.Context, path, branch string) (gittest.Bare, error) {
	bare := gittest.Bare{Dir: filepath.Join(s.dir, path+".git")}
	if !fullPath.MatchString(path) {
		return bare, fmt.Errorf("project path %q is not allowed", path)
	}
	bare, err := gittest.Init(ctx, bare.Dir, branch)
	if err != nil {
		return bare, err
	}
	for _, kv := range []string{"receive.denyNonFastForwards", "receive.denyDeletes"} { // the hook decides
		if err := bare.Config(ctx, kv, "false"); err != nil {
			return bare, err
		}
	}
	if err := bare.Hook("pre-receive", protectHook); err != nil {
		return bare, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &gitlabProject{id: int64(1000 + len(s.projects)), path: path, branch: branch, bare: bare, url: s.base + "/" + path, statuses: map[string][]commitStatus{}}
	s.projects = append(s.projects, p)
	return bare, p.protect(branchRule{pattern: branch, push: Maintainer, merge: Maintainer})
}

// Protect sets who may push to and merge into the branches of a pattern, such as "release/*".
func (s *Server) Protect(project, pattern string, push, merge Level) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(project)
	if p == nil {
		return fmt.Errorf("no project %s", project)
	}
	return p.protect(branchRule{pattern: pattern, push: push, merge: merge})
}

// FastForward lets a project take merge requests by fast-forward only.
func (s *Server) FastForward(project string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(project)
	if p == nil {
		return fmt.Errorf("no project %s", project)
	}
	p.forward = true
	return nil
}

// find returns the project of a path or id, nil if there is none.
func (s *Server) find(id string) *gitlabProject {
	for _, p := range s.projects {
		if p.path == id || fmt.Sprint(p.id) == id {
			return p
		}
	}
	return nil
}

// serve hands a request to the API or to Git.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.redirected(w, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, s.prefix+"/") {
		http.Error(w, "<html>another program</html>", http.StatusNotFound)
		return
	}
	http.StripPrefix(s.prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v4/") {
			s.serveAPI(w, r)
			return
		}
		s.serveGit(w, r)
	})).ServeHTTP(w, r)
}
