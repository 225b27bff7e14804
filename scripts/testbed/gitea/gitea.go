// Package gitea runs a Gitea: a real Git server with users, tokens, private repositories
// and protected branches, on a free port of 127.0.0.1.
package gitea

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout limits the time from an empty folder to an answering server.
const startTimeout = 5 * time.Minute

// Options place a server.
type Options struct {
	Dir      string    // contains database, repositories and log; created if missing, must be empty
	Progress io.Writer // receives one line per step; nil drops them
}

// Gitea is a running server.
type Gitea struct {
	dir, part string
	url       string
	admin     userLogin
	http      *http.Client
	process   *process.Process
}

// Start builds Gitea if the cache lacks it, sets up an empty server and starts it. The caller stops it.
func Start(ctx context.Context, o Options) (*Gitea, error) {
	if o.Dir == "" {
		return nil, errors.New("a Gitea needs a folder: set Dir")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	builder, err := build.New(o.Progress)
	if err != nil {
		return nil, err
	}
	part, err := builder.Build(ctx, "gitea")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	g := &Gitea{dir: dir, part: part, admin: userLogin{"keeper", rand.Text()}, http: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	return g, g.start(ctx, o.Progress)
}

// Stop ends the server. A second call does nothing.
func (g *Gitea) Stop() {
	g.process.Stop()
	g.http.CloseIdleConnections()
}

// URL returns the address of a repository, without credentials.
func (g *Gitea) URL(owner, repo string) string { return g.url + "/" + owner + "/" + repo + ".git" }

// RepoDir returns the path of a repository on this machine.
func (g *Gitea) RepoDir(owner, repo string) string {
	return filepath.Join(g.dir, "repositories", owner, repo+".git")
}

func (g *Gitea) start(ctx context.Context, progress io.Writer) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := g.setUp(ctx); err != nil {
		return err
	}
	if err := process.Retry(func() error { return g.run(ctx) }); err != nil {
		return err
	}
	fmt.Fprintf(progress, "testbed: gitea: ready at %s in %.1f s\n", g.url, time.Since(begin).Seconds())
	return nil
}

// run starts the server on a free port.
func (g *Gitea) run(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	if err := g.configure(ports[0]); err != nil {
		return err
	}
	p, err := process.Start(process.Spec{Name: "gitea", Path: g.program(), Dir: g.dir, Args: []string{"web", "-c", g.config()}})
	if err != nil {
		return err
	}
	g.process = p
	if err := p.Ready(ctx, func(ctx context.Context) error { return g.get(ctx, "/version") }); err != nil {
		p.Stop()
		return err
	}
	return nil
}

func (g *Gitea) program() string { return filepath.Join(g.part, "gitea") }
func (g *Gitea) config() string  { return filepath.Join(g.dir, "app.ini") }

// setUp creates the database and its administrator.
func (g *Gitea) setUp(ctx context.Context) error {
	if err := g.configure(0); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"migrate"},
		{"admin", "user", "create", "--admin", "--username", g.admin.name, "--password", g.admin.password, "--email", mail(g.admin.name), "--must-change-password=false"},
	} {
		cmd := exec.CommandContext(ctx, g.program(), append(args, "-c", g.config())...)
		cmd.Dir = g.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gitea %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func mail(user string) string { return user + "@example.test" }
