package gitlabtest

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/git/githttp"
)

// serveGit answers a Git client: any login name will do, the token is the password.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	name, ok := repository(r.URL.Path)
	if !ok {
		http.Error(w, "<html>sign in</html>", http.StatusNotFound)
		return
	}
	level, code, why := s.mayGit(r, name)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="GitLab"`)
	}
	switch {
	case why != "":
		http.Error(w, why, code)
	case !strings.Contains(r.URL.Path, ".git/"): // the URL for people
		http.Redirect(w, r, s.URL(name)+strings.TrimPrefix(r.URL.RequestURI(), "/"+name), http.StatusMovedPermanently)
	default:
		githttp.Backend(s.dir, "gitlab", fmt.Sprintf("GL_LEVEL=%d", level)).ServeHTTP(w, r)
	}
}

// repository returns the project whose repository a Git client asks for.
func repository(url string) (string, bool) {
	dir, last := path.Split(url)
	switch last {
	case "refs":
		dir = strings.TrimSuffix(dir, "info/")
	case "git-upload-pack", "git-receive-pack":
	default:
		return "", false
	}
	return strings.TrimSuffix(strings.Trim(dir, "/"), ".git"), true
}

// mayGit returns the role of a request, or the refusal if it is not allowed.
func (s *Server) mayGit(r *http.Request, name string) (level Level, code int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.git++
	_, password, _ := r.BasicAuth()
	t := s.token(password)
	if t == nil || t.over() != "" {
		return 0, http.StatusUnauthorized, "HTTP Basic: Access denied. If a password was provided for Git authentication, the password was incorrect or you're required to use a token instead of a password. If a token was provided, it was either incorrect, expired, or improperly scoped."
	}
	p := s.find(name)
	if p == nil || !t.reaches(p) || !t.has("api", "read_repository", "write_repository") {
		return 0, http.StatusNotFound, "The project you were looking for could not be found or you don't have permission to view it."
	}
	push := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	if push && (t.Level < Developer || !t.has("api", "write_repository")) {
		return 0, http.StatusForbidden, "You are not allowed to push code to this project."
	}
	return t.Level, 0, ""
}
