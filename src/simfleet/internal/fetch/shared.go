package fetch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
)

// SharedFetcher fetches each branch once for all clusters, and reads its head at most once
// per interval.
type SharedFetcher struct {
	repo    git.Repo
	objects *inventory.ObjectCache
	every   time.Duration
	host    *plain.Host

	mu       sync.Mutex
	branches map[string]*branchCache // guarded by mu
}

// branchCache is what is known of a branch.
type branchCache struct {
	mu        sync.Mutex // also held while the branch is read
	refreshed time.Time  // guarded by mu, as all below
	err       error
	head      Snapshot                     // without a folder
	folders   map[string]*inventory.Folder // by root
	roots     map[string]string            // by cluster
}

// NewShared returns a SharedFetcher that reads the head of a branch at most once in every.
func NewShared(r git.Repo, o *inventory.ObjectCache, every time.Duration) *SharedFetcher {
	return &SharedFetcher{repo: r, objects: o, every: every, host: plain.New(plain.Options{MaxRepos: 1}), branches: map[string]*branchCache{}}
}

// Fetch returns the location as of the last refresh of its branch.
func (f *SharedFetcher) Fetch(ctx context.Context, p Location, last Snapshot) (Snapshot, error) {
	m := f.branch(p.Branch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.refreshed) >= f.every {
		m.err = f.refresh(ctx, p.Branch, m)
		m.refreshed = time.Now()
	}
	if m.err != nil || m.head.Commit == last.Commit {
		return last, m.err
	}
	out := m.head
	if out.Root = m.roots[p.Cluster]; out.Root == "" {
		out.Root = p.root()
	}
	if out.Folder = m.folders[out.Root]; out.Folder == nil {
		out.Folder = inventory.NewFolder(nil)
	}
	if err := readFiles(ctx, f.host, f.repo, f.objects, out.Folder); err != nil {
		return last, err
	}
	return out, nil
}

func (f *SharedFetcher) branch(branch string) *branchCache {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.branches[branch] == nil {
		f.branches[branch] = &branchCache{}
	}
	return f.branches[branch]
}

// refresh reads a branch if it has moved.
func (f *SharedFetcher) refresh(ctx context.Context, branch string, m *branchCache) error {
	head, err := f.host.Head(ctx, f.repo, branch)
	if err != nil || head == m.head.Commit {
		return err
	}
	born := time.Now()
	s := folderSplitter{previous: m.folders, byDigest: map[inventory.Digest]*inventory.Folder{}, strings: map[string]string{}, folders: map[string]*inventory.Folder{}, roots: map[string]string{}}
	for e, err := range f.host.Tree(ctx, f.repo, head, "clusters") {
		if err != nil {
			return err
		}
		s.add(e)
	}
	s.close()
	m.head, m.folders, m.roots = Snapshot{Commit: head, FirstSeen: born}, s.folders, s.roots
	return nil
}

// Received returns what was fetched.
func (f *SharedFetcher) Received() (exchanges, bytes uint64) {
	s := f.host.Stats()
	return s.Fetches, s.Received
}

// folderSplitter splits a sorted listing into the folders of clusters. Equal folders, also
// from the previous state of the branch, are kept once.
type folderSplitter struct {
	previous, folders map[string]*inventory.Folder
	byDigest          map[inventory.Digest]*inventory.Folder
	strings           map[string]string
	roots             map[string]string
	root              string
	entries           []inventory.Entry
}

func (s *folderSplitter) add(e git.Entry) {
	top, rest, _ := strings.Cut(e.Path, "/")
	cluster, path, inside := strings.Cut(rest, "/")
	root := top + "/" + cluster
	if !strings.Contains(cluster, "+") { // one more level
		cluster, path, inside = strings.Cut(path, "/")
		root += "/" + cluster
	}
	if !inside {
		return
	}
	if root != s.root {
		s.close()
		s.root = root
		s.roots[cluster] = root
	}
	s.entries = append(s.entries, inventory.Entry{Path: s.intern(path), ID: git.Hash(s.intern(string(e.ID)))})
}

// intern returns the kept copy of a string.
func (s *folderSplitter) intern(text string) string {
	if have, ok := s.strings[text]; ok {
		return have
	}
	text = strings.Clone(text)
	s.strings[text] = text
	return text
}

// close ends the current folder.
func (s *folderSplitter) close() {
	if len(s.entries) == 0 {
		return
	}
	f := inventory.NewFolder(s.entries)
	switch before := s.previous[s.root]; {
	case before != nil && before.Digest == f.Digest:
		f = before
	case s.byDigest[f.Digest] != nil:
		f = s.byDigest[f.Digest]
	default:
		f.Entries = slices.Clone(f.Entries)
	}
	s.entries = s.entries[:0]
	s.byDigest[f.Digest], s.folders[s.root] = f, f
}
