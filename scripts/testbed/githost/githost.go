// Package githost is the Git server of the test bed's own tests: it serves bare repositories over http with basic auth, through
// git's own http-backend. Other tests use package gittest.
package githost

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// maxPush is the largest size of a request.
const maxPush = 256 << 20

// Options configure a host.
type Options struct {
	Dir      string // contains the repositories; created if missing
	User     string
	Password string
}

// Host is a running server.
type Host struct {
	options Options
	url     string
	server  *http.Server
	done    chan struct{} // closed when the server has ended
}

// Start serves the repositories of a folder on a free port of 127.0.0.1. The caller closes the host.
func Start(ctx context.Context, o Options) (*Host, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	execPath, err := git(ctx, o.Dir, "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Host{options: o, url: "http://" + listener.Addr().String(), done: make(chan struct{})}
	h.server = &http.Server{Handler: h.handler(filepath.Join(execPath, "git-http-backend")), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(h.done)
		_ = h.server.Serve(listener)
	}()
	return h, nil
}

// URL returns the address of a repository, without credentials.
func (h *Host) URL(name string) string { return h.url + "/" + name + ".git" }

// PushURL returns the address of a repository with credentials.
func (h *Host) PushURL(name string) string {
	return strings.Replace(h.URL(name), "http://", "http://"+h.options.User+":"+h.options.Password+"@", 1)
}

// Create creates an empty bare repository with first branch main that accepts pushes.
func (h *Host) Create(ctx context.Context, name string) error {
	dir := filepath.Join(h.options.Dir, name+".git")
	if _, err := git(ctx, h.options.Dir, "init", "-q", "--bare", "--initial-branch=main", dir); err != nil {
		return err
	}
	_, err := git(ctx, dir, "config", "http.receivepack", "true")
	return err
}

// Close ends the server and its connections, and waits for it.
func (h *Host) Close() error {
	err := h.server.Close()
	<-h.done
	return err
}

func (h *Host) handler(backend string) http.Handler {
	git := &cgi.Handler{
		Path: backend, Root: "/",
		Env:        []string{"GIT_PROJECT_ROOT=" + h.options.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + h.options.User},
		InheritEnv: []string{"HOME"}, // git reads its configuration from the environment
		Stderr:     io.Discard,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allowed(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "name and password are needed", http.StatusUnauthorized)
			return
		}
		if err := unchunk(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		git.ServeHTTP(w, r)
	})
}

func (h *Host) allowed(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	return equal(user, h.options.User)&equal(password, h.options.Password) == 1
}

func equal(a, b string) int { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) }

// unchunk reads a body of unknown length: git sends one in big pushes, and package cgi refuses it.
func unchunk(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("git is not installed: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
