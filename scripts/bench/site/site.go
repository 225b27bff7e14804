// Package site is the Git side of a benchmark: an origin that git itself serves over HTTP. It acknowledges a push once it
// is on disk (fsync). Methods read its content.
package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// The one repository of a site, and its default branch.
const (
	Repository = "fleet"
	Branch     = "main"
	user       = "writer"
	token      = "writer-of-the-benchmark"
)

// Site is a server with one repository.
type Site struct {
	Dir    string
	Server *gittest.Server
	Bare   gittest.Bare

	last atomic.Int64 // time of the last push, in nanoseconds of Unix time

	mu     sync.Mutex
	pushes []push // in order; guarded by mu
}

// Open creates a site below a folder. Its repository contains a README.
func Open(ctx context.Context, dir string) (*Site, error) {
	srv, err := gittest.Serve(filepath.Join(dir, "git"), gittest.User{Name: user, Token: token, Write: true})
	if err != nil {
		return nil, err
	}
	s := &Site{Dir: dir, Server: srv}
	if s.Bare, err = srv.Seed(ctx, Repository, Branch); err == nil {
		err = s.Bare.Config(ctx, "core.fsync", "all")
	}
	if err != nil {
		return nil, errors.Join(err, srv.Close())
	}
	srv.AfterPush(func(string) { s.notePush() })
	return s, nil
}

// Close ends the server and removes its data.
func (s *Site) Close() error {
	return errors.Join(s.Server.Close(), os.RemoveAll(s.Dir))
}

// LastPush is the time when the last push was durable; the zero time if there was none.
func (s *Site) LastPush() time.Time {
	if n := s.last.Load(); n > 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Repo is the repository for our own packages.
func (s *Site) Repo() git.Repo {
	return git.Repo{URL: s.Server.URL(Repository), User: user, Token: token}
}

// Credential returns the writer's credential.
func (s *Site) Credential() (name, secret string) { return user, token }

// CloneURL is the repository for the git program.
func (s *Site) CloneURL() string {
	return strings.Replace(s.Server.URL(Repository), "http://", "http://"+user+":"+token+"@", 1)
}

// Clone creates a work tree of the default branch.
func (s *Site) Clone(ctx context.Context) (Work, error) {
	w := Work{Dir: filepath.Join(s.Dir, "work")}
	cmd := exec.CommandContext(ctx, "git", "clone", "-q", s.CloneURL(), w.Dir)
	cmd.Dir, cmd.Env = s.Dir, environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return w, fmt.Errorf("git clone: %w: %s", err, out)
	}
	return w, nil
}

// Seed writes pairs to branches with git fast-import, for a peer that starts with them. shard returns
// the branch of a cluster.
func (s *Site) Seed(ctx context.Context, pairs []world.Pair, shard func(cluster string) string) error {
	byBranch := map[string]map[string]gittest.File{}
	for _, p := range pairs {
		b := shard(p.Cluster)
		if byBranch[b] == nil {
			byBranch[b] = map[string]gittest.File{}
		}
		for name, text := range p.Files {
			byBranch[b][p.Dir()+"/"+name] = gittest.File{Content: string(text)}
		}
	}
	for b, files := range byBranch {
		if _, err := s.Bare.CommitExternal(ctx, b, files); err != nil {
			return err
		}
	}
	return nil
}

// State lists the content of the branches below clusters/<cluster>/<app>/: the pairs, and not a peer's
// other files.
func (s *Site) State(ctx context.Context, branches ...string) (world.State, error) {
	out := world.State{}
	for _, b := range branches {
		held, err := s.list(ctx, b, "clusters")
		if err != nil {
			return nil, err
		}
		for path, id := range held {
			if strings.Count(path, "/") == 3 {
				out[path] = id
			}
		}
	}
	return out, nil
}

// Below lists the files of the default branch in a folder.
func (s *Site) Below(ctx context.Context, folder string) (world.State, error) {
	return s.list(ctx, Branch, folder)
}

func (s *Site) list(ctx context.Context, branch, folder string) (world.State, error) {
	listing, err := s.Bare.Git(ctx, "", "ls-tree", "-r", "-z", branch, "--", folder+"/")
	if err != nil {
		return nil, err
	}
	out := world.State{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		head, path, ok := strings.Cut(entry, "\t")
		if field := strings.Fields(head); ok && len(field) == 3 {
			out[path] = field[2]
		}
	}
	return out, nil
}

// Commits counts the commits of all branches.
func (s *Site) Commits(ctx context.Context) (int, error) {
	out, err := s.Bare.Git(ctx, "", "rev-list", "--count", "--branches")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// Size is the size of the repository on disk, in bytes.
func (s *Site) Size() (total int64, err error) {
	err = filepath.WalkDir(s.Bare.Dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git may remove its own file during the walk
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total, err
}

// Work is a work tree.
type Work struct{ Dir string }

// Git runs the git program in the work tree.
func (w Work) Git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = w.Dir, environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w: %.300s", args[0], err, out)
	}
	return nil
}

// Write writes the files of pairs.
func (w Work) Write(pairs ...world.Pair) error {
	for _, p := range pairs {
		dir := filepath.Join(w.Dir, filepath.FromSlash(p.Dir()))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for name, text := range p.Files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// environment excludes the user's own settings of git.
func environment() []string {
	return append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=peer", "GIT_AUTHOR_EMAIL=peer@localhost", "GIT_COMMITTER_NAME=peer", "GIT_COMMITTER_EMAIL=peer@localhost",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0", "GIT_CONFIG_KEY_1=advice.detachedHead", "GIT_CONFIG_VALUE_1=false")
}
