// Package fetch reads the folders of simulated clusters from Git: for each cluster alone, as
// a real cluster does, or for all clusters of a branch at once, which costs the server less.
package fetch

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
)

// Location is where the folder of a cluster is.
type Location struct{ Branch, Cluster string }

// root is the path of the folder. If many clusters share a branch, it may be one level deeper.
func (p Location) root() string { return "clusters/" + p.Cluster }

// Snapshot is a folder at a commit.
type Snapshot struct {
	Commit    git.Hash
	FirstSeen time.Time         // when a cluster first saw the commit
	Root      string            // of the folder
	Folder    *inventory.Folder // its files are read
}

// Fetcher reads for many clusters. Several goroutines may use it.
type Fetcher interface {
	// Fetch returns the folder at a location. If the branch has not moved since last, it
	// returns last. The error is NotFound if the branch does not exist.
	Fetch(ctx context.Context, p Location, last Snapshot) (Snapshot, error)
	// Received returns the number of fetches with a result, and the bytes of their packs.
	Received() (exchanges, bytes uint64)
}

// maxFile bounds a manifest, in bytes; larger ones are ignored.
const maxFile = 4 << 20

// OwnFetcher fetches for each cluster alone, and only what that cluster needs: the head of its
// branch and, if that has moved, the directories of the branch and the contents of its own
// files. Clusters share only the parsed content of files.
type OwnFetcher struct {
	repo    git.Repo
	objects *inventory.ObjectCache
	heads   *plain.Host // reads heads only, and caches nothing

	exchanges, bytes atomic.Uint64

	mu        sync.Mutex
	firstSeen map[git.Hash]time.Time // guarded by mu
}

// NewOwn returns an OwnFetcher.
func NewOwn(r git.Repo, o *inventory.ObjectCache) *OwnFetcher {
	return &OwnFetcher{repo: r, objects: o, heads: plain.New(plain.Options{}), firstSeen: map[git.Hash]time.Time{}}
}

// Fetch fetches the location of one cluster.
func (f *OwnFetcher) Fetch(ctx context.Context, p Location, last Snapshot) (Snapshot, error) {
	head, err := f.heads.Head(ctx, f.repo, p.Branch)
	if err != nil || head == last.Commit {
		return last, err
	}
	out := Snapshot{Commit: head, FirstSeen: f.firstSeenAt(head), Root: p.root()}
	host := plain.New(plain.Options{MaxRepos: 1})
	defer func() {
		s := host.Stats()
		f.exchanges.Add(s.Fetches)
		f.bytes.Add(s.Received)
		_ = host.Close()
	}()
	entries, err := listFolder(ctx, host, f.repo, head, out.Root)
	if err == nil && len(entries) == 0 {
		out.Root, entries, err = listNested(ctx, host, f.repo, head, p)
	}
	if err != nil {
		return last, err
	}
	out.Folder = inventory.NewFolder(entries)
	if err := readFiles(ctx, host, f.repo, f.objects, out.Folder); err != nil {
		return last, err
	}
	return out, nil
}

// listFolder returns the files of a folder.
func listFolder(ctx context.Context, host *plain.Host, r git.Repo, at git.Hash, root string) (out []inventory.Entry, err error) {
	for e, err := range host.Tree(ctx, r, at, root) {
		if err != nil {
			return nil, err
		}
		out = append(out, inventory.Entry{Path: strings.TrimPrefix(e.Path, root+"/"), ID: e.ID})
	}
	return out, nil
}

// listNested searches the folder of a cluster one level deeper. The host already has the
// directories of the branch.
func listNested(ctx context.Context, host *plain.Host, r git.Repo, at git.Hash, p Location) (root string, out []inventory.Entry, err error) {
	root = p.root()
	for e, err := range host.Tree(ctx, r, at, "clusters") {
		if err != nil {
			return root, nil, err
		}
		if part := strings.SplitN(e.Path, "/", 4); len(part) == 4 && part[2] == p.Cluster {
			root = strings.Join(part[:3], "/")
			out = append(out, inventory.Entry{Path: part[3], ID: e.ID})
		}
	}
	return root, out, nil
}

// maxFirstSeen bounds the commits in firstSeen.
const maxFirstSeen = 10_000

// firstSeenAt returns when a cluster first saw a commit.
func (f *OwnFetcher) firstSeenAt(commit git.Hash) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.firstSeen[commit]
	if !known {
		if len(f.firstSeen) >= maxFirstSeen {
			clear(f.firstSeen)
		}
		at = time.Now()
		f.firstSeen[commit] = at
	}
	return at
}

// Received returns what was fetched.
func (f *OwnFetcher) Received() (exchanges, bytes uint64) { return f.exchanges.Load(), f.bytes.Load() }

// readFiles adds the files of a folder to the cache, unless they are there.
func readFiles(ctx context.Context, host *plain.Host, r git.Repo, o *inventory.ObjectCache, f *inventory.Folder) error {
	missing := o.Missing(f)
	if len(missing) == 0 {
		return nil
	}
	files, err := host.Blobs(ctx, r, missing, maxFile)
	if err != nil {
		return err
	}
	for _, id := range missing {
		if _, ok := files[id]; !ok {
			files[id] = nil // too large, or gone
		}
	}
	o.Add(files)
	return nil
}
