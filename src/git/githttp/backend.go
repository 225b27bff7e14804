package githttp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxBody bounds a request that is held in memory.
const maxBody = 1 << 30

// Backend serves the bare repositories below a folder, at any depth, with the git program; a
// repository that does not exist is 404. The caller decides who may do what. Hooks find the
// user as REMOTE_USER, and env, which are "NAME=value". The git program ends with its
// request.
//
// Fetches and pushes start git-upload-pack and git-receive-pack, as "git http-backend" does,
// but without its two processes in between, which cost more than the work. Everything else
// goes to "git http-backend".
func Backend(root, user string, env ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		git, err := exec.LookPath("git")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		env := append([]string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
			"REMOTE_USER=" + user, "LC_ALL=C",
		}, env...)
		if service, dir := smartRequest(root, r); service != "" {
			serveSmart(w, r, git, service, dir, env)
			return
		}
		if err := bufferBody(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		h := cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: "/", Stderr: io.Discard, Env: env}
		h.ServeHTTP(w, r)
	})
}

// smartRequest returns the service that a request of the smart protocol asks for,
// "upload-pack" or "receive-pack", and the repository's folder; empty for other requests.
func smartRequest(root string, r *http.Request) (service, dir string) {
	path := r.URL.Path
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/info/refs"):
		service, path = strings.TrimPrefix(r.URL.Query().Get("service"), "git-"), strings.TrimSuffix(path, "/info/refs")
	case r.Method == http.MethodPost:
		slash := strings.LastIndexByte(path, '/')
		service, path = strings.TrimPrefix(path[slash+1:], "git-"), path[:max(slash, 0)]
		if r.Header.Get("Content-Type") != "application/x-git-"+service+"-request" {
			return "", ""
		}
	}
	if service != "upload-pack" && service != "receive-pack" {
		return "", ""
	}
	dir = filepath.Join(root, filepath.FromSlash(filepath.Clean("/"+path)))
	for _, dir := range []string{dir, dir + ".git"} {
		if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
			return service, dir
		}
	}
	return "", ""
}

// serveSmart answers as "git http-backend" does.
func serveSmart(w http.ResponseWriter, r *http.Request, git, service, dir string, env []string) {
	args, kind := []string{service, "--stateless-rpc", dir}, "result"
	version := r.Header.Get("Git-Protocol")
	out := &startedWriter{ResponseWriter: w}
	body := io.Reader(http.MaxBytesReader(w, r.Body, maxBody))
	if r.Method == http.MethodGet {
		args, kind, body = []string{service, "--stateless-rpc", "--advertise-refs", dir}, "advertisement", nil
	} else if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	w.Header().Set("Content-Type", "application/x-git-"+service+"-"+kind)
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	// A client that leaves ends its input and output, and so the program. A kill would leave
	// the lock of a reference behind, and no later push would succeed.
	cmd := exec.Command(git, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = dir, body, out
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "GIT_PROTOCOL="+version,
		"GIT_COMMITTER_NAME=pusher", "GIT_COMMITTER_EMAIL=pusher@localhost")
	if kind == "advertisement" && !strings.Contains(version, "version=2") {
		line := "# service=git-" + service + "\n"
		out.preface = fmt.Sprintf("%04x%s0000", len(line)+4, line)
	}
	if err := cmd.Run(); err != nil && !out.started {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// startedWriter writes a preface before the first output, and remembers that it has begun.
type startedWriter struct {
	http.ResponseWriter
	preface string
	started bool // only the goroutine that copies the program's output, until the program has ended
}

func (w *startedWriter) Write(p []byte) (int, error) {
	if !w.started {
		w.started = true
		if _, err := io.WriteString(w.ResponseWriter, w.preface); err != nil {
			return 0, err
		}
	}
	return w.ResponseWriter.Write(p)
}

// bufferBody gives a chunked body a length: net/http/cgi refuses it otherwise.
func bufferBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return errors.New("body too large or broken")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	return nil
}
