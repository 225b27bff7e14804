package demo

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/git/githttp"
)

const (
	repo = "fleet"
	user = "emco"
)

// gitServer serves one repository on loopback to one user.
type gitServer struct {
	dir   string // of the repository
	token string // of the user
	base  string // the address
	http  *http.Server
	drain githttp.Drain
	ended chan struct{} // closed when the server has ended
}

// serveGit makes a repository below dir whose branch main has a commit, and serves it.
func serveGit(ctx context.Context, dir string) (*gitServer, error) {
	s := &gitServer{dir: filepath.Join(dir, repo+".git"), token: rand.Text(), ended: make(chan struct{})}
	if err := githttp.Init(s.dir, "main"); err != nil {
		return nil, err
	}
	first := s.command(ctx, "fast-import", "--quiet", "--date-format=now")
	first.Stdin = strings.NewReader(`commit refs/heads/main
committer demo <demo@localhost> now
data 12
first commit
M 644 inline README.md
data 8
# fleet

`)
	if out, err := first.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git fast-import: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.base = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s.drain.Wrap(s.authenticated(githttp.Backend(dir, user))), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l) // Close ends it
	}()
	return s, nil
}

// command prepares a command of git on the repository.
func (s *gitServer) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", s.dir}, args...)...)
	cmd.Env = environment()
	return cmd
}

// authenticated refuses who does not know the token.
func (s *gitServer) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, token, _ := r.BasicAuth()
		if name != user || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "the user or the token is wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends the server, and waits until the git programs of its requests have ended.
func (s *gitServer) close() error {
	err := s.http.Close()
	<-s.ended
	return errors.Join(err, s.drain.Close())
}

// url is the address of the repository.
func (s *gitServer) url() string { return s.base + "/" + repo + ".git" }

// cloneURL is the address of the repository with the credential of this demonstration.
func (s *gitServer) cloneURL() string {
	return strings.Replace(s.url(), "://", "://"+user+":"+s.token+"@", 1)
}
