// Package fetch brings simulated clusters what Git holds for them: each by itself, as a
// real one does, or all of a branch at once, which loads the server less.
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

// Place is what a cluster reads: its folder on a branch.
type Place struct{ Branch, Cluster string }

// root is where EMCO has the folder. Where many clusters share a branch it may be a level deeper.
func (p Place) root() string { return "clusters/" + p.Cluster }

// Found is what a cluster read.
type Found struct {
	Commit git.Hash
	Born   time.Time         // when the first of all clusters saw the commit
	Root   string            // of the folder
	Folder *inventory.Folder // its files are read
}

// Fetcher reads for many clusters. It may be used by several goroutines.
type Fetcher interface {
	// Look returns what a place holds now, with the commit of last and nothing else changed
	// if the branch has not moved. NotFound if there is no such branch.
	Look(ctx context.Context, p Place, last Found) (Found, error)
	// Received counts exchanges in which something came, and the bytes of their packs.
	Received() (exchanges, bytes uint64)
}

// maxFile is the largest manifest that is read.
const maxFile = 4 << 20

// Own has each cluster fetch by itself and only what is its own: the head of its branch
// and, when that has moved, the directories of the branch and the contents of its own files
// that it has not. Nothing is shared but the memory of what was read of a file.
type Own struct {
	repo    git.Repo
	objects *inventory.Objects
	heads   *plain.Host // asks where branches are, and keeps nothing

	exchanges, bytes atomic.Uint64

	mu   sync.Mutex
	born map[git.Hash]time.Time
}

// NewOwn returns a fetcher of a repository.
func NewOwn(r git.Repo, o *inventory.Objects) *Own {
	return &Own{repo: r, objects: o, heads: plain.New(plain.Options{}), born: map[git.Hash]time.Time{}}
}

// Look fetches what has changed.
func (f *Own) Look(ctx context.Context, p Place, last Found) (Found, error) {
	head, err := f.heads.Head(ctx, f.repo, p.Branch)
	if err != nil || head == last.Commit {
		return last, err
	}
	out := Found{Commit: head, Born: f.birth(head), Root: p.root()}
	host := plain.New(plain.Options{MaxRepos: 1})
	defer func() {
		s := host.Stats()
		f.exchanges.Add(s.Fetches)
		f.bytes.Add(s.Received)
		_ = host.Close()
	}()
	entries, err := list(ctx, host, f.repo, head, out.Root)
	if err == nil && len(entries) == 0 {
		out.Root, entries, err = deeper(ctx, host, f.repo, head, p)
	}
	if err != nil {
		return last, err
	}
	out.Folder = inventory.NewFolder(entries)
	if err := read(ctx, host, f.repo, f.objects, out.Folder); err != nil {
		return last, err
	}
	return out, nil
}

// list returns the files of a folder.
func list(ctx context.Context, host *plain.Host, r git.Repo, at git.Hash, root string) (out []inventory.Entry, err error) {
	for e, err := range host.Tree(ctx, r, at, root) {
		if err != nil {
			return nil, err
		}
		out = append(out, inventory.Entry{Path: strings.TrimPrefix(e.Path, root+"/"), ID: e.ID})
	}
	return out, nil
}

// deeper looks for the folder of a cluster a level deeper. The directories of the branch
// are here by now.
func deeper(ctx context.Context, host *plain.Host, r git.Repo, at git.Hash, p Place) (root string, out []inventory.Entry, err error) {
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

// maxBorn bounds the commits of which is remembered when they were first seen.
const maxBorn = 10_000

// birth is when a commit was first seen.
func (f *Own) birth(commit git.Hash) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.born[commit]
	if !known {
		if len(f.born) >= maxBorn {
			clear(f.born)
		}
		at = time.Now()
		f.born[commit] = at
	}
	return at
}

// Received counts what came.
func (f *Own) Received() (exchanges, bytes uint64) { return f.exchanges.Load(), f.bytes.Load() }

// read brings the files of a folder that nobody has read.
func read(ctx context.Context, host *plain.Host, r git.Repo, o *inventory.Objects, f *inventory.Folder) error {
	missing := o.Missing(f)
	if len(missing) == 0 {
		return nil
	}
	files, err := host.Blobs(ctx, r, missing, maxFile)
	if err != nil {
		return err
	}
	for _, id := range missing {
		if _, came := files[id]; !came {
			files[id] = nil // too large, or gone: it holds nothing
		}
	}
	o.Add(files)
	return nil
}
