package gittest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
)

// Backend serves the bare repositories below a folder, at whatever depth, by "git
// http-backend"; a repository that is not there is 404. Who may do what is the caller's
// to say. Hooks find the user as REMOTE_USER, and env, which are "NAME=value". The git
// program ends with its request.
func Backend(root, user string, env ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		git, err := exec.LookPath("git")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := bufferBody(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		h := cgi.Handler{
			Path: git, Args: []string{"http-backend"}, Root: "/", Stderr: io.Discard,
			Env: append([]string{
				"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
				"REMOTE_USER=" + user, "LC_ALL=C",
			}, env...),
		}
		h.ServeHTTP(w, r)
	})
}

// bufferBody gives a chunked body a length: net/http/cgi refuses it else.
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
