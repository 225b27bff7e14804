package fastimport

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	maxJobs     = 500 // after which what is known is thrown away: each leaves a pack
	jobsToWeigh = 25  // after how many jobs the bytes on disk are counted again
)

// cache is what is known of a repository: a bare one. One job at a time works with it.
type cache struct {
	used uint64        // guarded by the host's lock
	busy chan struct{} // held by the job

	dir   string // empty: nothing is known
	known map[git.Hash]bool
	hung  map[git.Hash]tree.BranchTip // commits of views
	jobs  int
}

// settings of a bare repository that lacks objects on purpose. Its address and credentials
// are told to each run that needs them.
const settings = `[core]
	repositoryformatversion = 1
	bare = true
[extensions]
	partialClone = origin
[remote "origin"]
	promisor = true
	partialclonefilter = blob:none
[gc]
	auto = 0
`

// of returns the cache of a repository, making room if there are too many.
func (h *Host) of(r git.Repo) *cache {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	c, ok := h.repos[r]
	if !ok {
		h.makeRoom()
		c = &cache{busy: make(chan struct{}, 1)}
		h.repos[r] = c
	}
	c.used = h.clock
	return c
}

// makeRoom forgets repositories that nobody works with.
func (h *Host) makeRoom() {
	for len(h.repos) >= h.opt.MaxRepos {
		r, c := h.longestUnused()
		if c == nil {
			return
		}
		c.drop()
		delete(h.repos, r)
		<-c.busy
	}
}

// longestUnused returns a cache that nobody works with, and keeps it so; nil if there is none.
func (h *Host) longestUnused() (oldest git.Repo, found *cache) {
	for r, c := range h.repos {
		if found != nil && found.used < c.used {
			continue
		}
		select {
		case c.busy <- struct{}{}:
		default:
			continue
		}
		if found != nil {
			<-found.busy
		}
		oldest, found = r, c
	}
	return oldest, found
}

// drop throws away what is known.
func (c *cache) drop() {
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	c.dir, c.known, c.hung, c.jobs = "", nil, nil, 0
}

// folder returns the host's folder, which is emptied when it is first asked for.
func (h *Host) folder() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir != "" {
		return h.dir, nil
	}
	dir, err := h.opt.Dir, error(nil)
	if dir == "" {
		dir, err = os.MkdirTemp("", "emco-git-")
	} else if err = os.RemoveAll(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		h.dir = dir
	}
	return dir, err
}

// name returns a name that no other folder of the host has.
func (h *Host) name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	return strconv.Itoa(h.made) + ".git"
}

// Close throws away all that is known, after the jobs that run. The host stays usable.
func (h *Host) Close() error {
	h.mu.Lock()
	caches, dir := slices.Collect(maps.Values(h.repos)), h.dir
	h.repos, h.dir = map[git.Repo]*cache{}, ""
	h.mu.Unlock()
	for _, c := range caches {
		c.busy <- struct{}{} // a job ends at the latest by its deadline
		c.drop()
		<-c.busy
	}
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// ready sees to it that there is a bare repository to work with.
func (j *job) ready() error {
	c := j.cache
	if c.jobs++; c.jobs > maxJobs || c.jobs%jobsToWeigh == 0 && weigh(c.dir) > j.h.opt.MaxDisk {
		c.drop()
	}
	if c.dir != "" {
		return nil
	}
	dir, err := j.initialise()
	if err == nil {
		c.dir, c.known = dir, map[git.Hash]bool{}
	}
	return err
}

// initialise makes an empty bare repository.
func (j *job) initialise() (string, error) {
	folder, err := j.h.folder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(folder, j.h.name())
	if _, err := j.local(run{args: []string{"init", "--quiet", "--bare", "--template=", dir}}); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config"), []byte(settings), 0o600)
}

// weigh returns the bytes below a folder.
func weigh(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it may be gone by now
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// spoil has what is known thrown away, since it may not be sound.
func (j *job) spoil() {
	if j.cache != nil {
		j.cache.drop()
	}
}

// open makes sure that a commit is here, with its trees.
func (j *job) open(commit git.Hash) error {
	if err := j.ready(); err != nil || j.cache.known[commit] {
		return err
	}
	id, err := tree.ParseID(commit)
	if err != nil {
		return err
	}
	if err = j.bring("--filter=blob:none", id.String()); err == nil {
		_, err = j.object(id, "commit")
	}
	if err == nil {
		j.cache.known[commit] = true
	}
	return err
}

// bring fetches commits, without their past, by their names, or all that branches point at
// from a server that gives out nothing else.
func (j *job) bring(filter string, commits ...string) error {
	err := j.fetch(filter, commits...)
	if errs.Is(err, errs.NotFound) {
		err = j.fetch(filter, "+refs/heads/*:refs/emco/heads/*")
	}
	return err
}

// fetch brings what is asked for, without its past.
func (j *job) fetch(filter string, what ...string) error {
	_, err := j.remote(run{args: fetching("--depth=1", filter, what...), file: j.h.opt.MaxDisk})
	return err
}

func fetching(depth, filter string, what ...string) []string {
	return append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", depth, filter, "origin"}, what...)
}

// root returns the tree of a commit that is here.
func (b *batch) root(commit git.Hash) (tree.ID, error) {
	id, err := tree.ParseID(commit)
	if err != nil {
		return tree.ID{}, err
	}
	raw, err := b.read(id, "commit")
	if err != nil {
		return tree.ID{}, err
	}
	return rootOf(raw)
}

// rootOf reads the tree out of a commit.
func rootOf(raw []byte) (tree.ID, error) {
	var text string
	if _, err := fmt.Sscanf(string(raw), "tree %40s\n", &text); err != nil {
		return tree.ID{}, errors.New("the commit has no tree")
	}
	return tree.ParseID(git.Hash(text))
}
