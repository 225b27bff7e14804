// Package source exports the sources of a commit: what a fresh clone contains, and nothing else.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tree is the exported content of one commit.
type Tree struct {
	Dir     string   // where it is
	Files   []string // its files: slash-separated paths below Dir, sorted
	Commit  string
	Version string
	Date    time.Time // of the commit
}

// shortCommit is the length of a commit in a version.
const shortCommit = 12

// Export writes the commit of a repository's HEAD to dir. Without a version it takes the commit's
// tag, or makes a version of date and commit, as Go does.
func Export(ctx context.Context, repo, dir, version string) (Tree, error) {
	t := Tree{Dir: dir, Version: version}
	out, err := git(ctx, repo, "log", "-1", "--format=%H %ct", "HEAD")
	if err != nil {
		return t, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return t, fmt.Errorf("date of %s: %w", commit, err)
	}
	t.Commit, t.Date = commit, time.Unix(unix, 0).UTC()
	if t.Version == "" {
		t.Version = t.versionOf(ctx, repo)
	}
	if out, err = git(ctx, repo, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit); err != nil {
		return t, err
	}
	t.Files = strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return t, t.write(ctx, repo)
}

func (t *Tree) versionOf(ctx context.Context, repo string) string {
	if tag, err := git(ctx, repo, "describe", "--tags", "--exact-match", "--match", "v*", t.Commit); err == nil {
		return strings.TrimSpace(tag)
	}
	return "v0.0.0-" + t.Date.Format("20060102150405") + "-" + t.Commit[:shortCommit]
}

// write fills the folder by way of an index of its own, so that the repository's is left alone.
func (t *Tree) write(ctx context.Context, from string) error {
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return err
	}
	dir, err := filepath.Abs(t.Dir)
	if err != nil {
		return err
	}
	top, err := git(ctx, from, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	repo, index := strings.TrimSpace(top), filepath.Join(dir, ".index")
	if _, err := gitWith(ctx, index, repo, "read-tree", t.Commit); err != nil {
		return err
	}
	_, err = gitWith(ctx, index, repo, "checkout-index", "--all", "--prefix="+dir+"/")
	return errors.Join(err, os.Remove(index))
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return gitWith(ctx, "", dir, args...)
}

// gitWith runs git in a folder with an index of its own, or "" for the repository's.
func gitWith(ctx context.Context, index, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	if index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+index)
	}
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}
