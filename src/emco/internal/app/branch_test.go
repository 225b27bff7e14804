package app_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// branchCache reads branches of a repository. It starts a git program only for commits and
// blobs that it has not read yet, since tests look at branches all the time.
type branchCache struct {
	bare gittest.Bare

	mu    sync.Mutex
	tips  map[string]branchListing // by branch; guarded by mu
	blobs map[string]string        // by id; guarded by mu
}

// branchListing is what a branch held at a commit: blobs by path.
type branchListing struct {
	tip   string
	files map[string]string
}

func newBranchCache(bare gittest.Bare) *branchCache {
	return &branchCache{bare: bare, tips: map[string]branchListing{}, blobs: map[string]string{}}
}

// files returns the branch's files, each with its blob. Callers must not change the map.
func (c *branchCache) files(ctx context.Context, branch string) (map[string]string, error) {
	tip, err := c.bare.Tip(branch)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.tips[branch]; known.tip == tip {
		return known.files, nil
	}
	text, err := c.bare.Git(ctx, "", "ls-tree", "-r", tip)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for line := range strings.Lines(text) {
		info, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = strings.Fields(info)[2]
	}
	c.tips[branch] = branchListing{tip, files}
	return files, nil
}

// paths returns the paths of the branch's files, sorted.
func (c *branchCache) paths(ctx context.Context, branch string) ([]string, error) {
	files, err := c.files(ctx, branch)
	return slices.Sorted(maps.Keys(files)), err
}

// blob returns the content of a blob.
func (c *branchCache) blob(ctx context.Context, id string) (string, error) {
	c.mu.Lock()
	text, known := c.blobs[id]
	c.mu.Unlock()
	if known {
		return text, nil
	}
	out, err := c.bare.Git(ctx, id+"\n", "cat-file", "--batch")
	if err != nil {
		return "", err
	}
	_, text, _ = strings.Cut(out, "\n") // before it stand id, type and size
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blobs[id] = text
	return text, nil
}

// file returns the content of a file.
func (c *branchCache) file(ctx context.Context, branch, path string) (string, error) {
	files, err := c.files(ctx, branch)
	if err != nil {
		return "", err
	}
	id, found := files[path]
	if !found {
		return "", fmt.Errorf("branch %s has no file %s", branch, path)
	}
	return c.blob(ctx, id)
}
