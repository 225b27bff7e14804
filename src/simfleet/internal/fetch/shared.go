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

// Shared fetches each branch once for all clusters, and looks where it is at most once in
// so long.
type Shared struct {
	repo    git.Repo
	objects *inventory.Objects
	every   time.Duration
	host    *plain.Host

	mu       sync.Mutex
	branches map[string]*mirror
}

// mirror is what is known of a branch.
type mirror struct {
	mu      sync.Mutex
	looked  time.Time
	err     error
	found   Found                        // without a folder
	folders map[string]*inventory.Folder // by root
	roots   map[string]string            // by cluster
}

// NewShared returns a fetcher of a repository that asks for a branch at most once in every.
func NewShared(r git.Repo, o *inventory.Objects, every time.Duration) *Shared {
	return &Shared{repo: r, objects: o, every: every, host: plain.New(plain.Options{MaxRepos: 1}), branches: map[string]*mirror{}}
}

// Look returns what the branch held when it was last looked at, if that was not long ago.
func (f *Shared) Look(ctx context.Context, p Place, last Found) (Found, error) {
	m := f.mirror(p.Branch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) >= f.every {
		m.err = f.refresh(ctx, p.Branch, m)
		m.looked = time.Now()
	}
	if m.err != nil || m.found.Commit == last.Commit {
		return last, m.err
	}
	out := m.found
	if out.Root = m.roots[p.Cluster]; out.Root == "" {
		out.Root = p.root()
	}
	if out.Folder = m.folders[out.Root]; out.Folder == nil {
		out.Folder = inventory.NewFolder(nil)
	}
	if err := read(ctx, f.host, f.repo, f.objects, out.Folder); err != nil {
		return last, err
	}
	return out, nil
}

func (f *Shared) mirror(branch string) *mirror {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.branches[branch] == nil {
		f.branches[branch] = &mirror{}
	}
	return f.branches[branch]
}

// refresh reads a branch if it has moved.
func (f *Shared) refresh(ctx context.Context, branch string, m *mirror) error {
	head, err := f.host.Head(ctx, f.repo, branch)
	if err != nil || head == m.found.Commit {
		return err
	}
	born := time.Now()
	s := sorter{old: m.folders, known: map[inventory.Digest]*inventory.Folder{}, names: map[string]string{}, out: map[string]*inventory.Folder{}, roots: map[string]string{}}
	for e, err := range f.host.Tree(ctx, f.repo, head, "clusters") {
		if err != nil {
			return err
		}
		s.add(e)
	}
	s.close()
	m.found, m.folders, m.roots = Found{Commit: head, Born: born}, s.out, s.roots
	return nil
}

// Received counts what came.
func (f *Shared) Received() (exchanges, bytes uint64) {
	s := f.host.Stats()
	return s.Fetches, s.Received
}

// sorter cuts a listing, which is in order, into folders of clusters. Folders that are
// equal, among each other or to those of before, are kept once.
type sorter struct {
	old, out map[string]*inventory.Folder
	known    map[inventory.Digest]*inventory.Folder
	names    map[string]string
	roots    map[string]string
	root     string
	entries  []inventory.Entry
}

func (s *sorter) add(e git.Entry) {
	top, rest, _ := strings.Cut(e.Path, "/")
	cluster, path, inside := strings.Cut(rest, "/")
	root := top + "/" + cluster
	if !strings.Contains(cluster, "+") { // a directory that clusters are spread over
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
	s.entries = append(s.entries, inventory.Entry{Path: s.once(path), ID: git.Hash(s.once(string(e.ID)))})
}

// once returns an equal string that is kept once.
func (s *sorter) once(text string) string {
	if have, ok := s.names[text]; ok {
		return have
	}
	text = strings.Clone(text)
	s.names[text] = text
	return text
}

// close ends the folder that is under way.
func (s *sorter) close() {
	if len(s.entries) == 0 {
		return
	}
	f := inventory.NewFolder(s.entries)
	switch before := s.old[s.root]; {
	case before != nil && before.Digest == f.Digest:
		f = before
	case s.known[f.Digest] != nil:
		f = s.known[f.Digest]
	default:
		f.Entries = slices.Clone(f.Entries)
	}
	s.entries = s.entries[:0]
	s.known[f.Digest], s.out[s.root] = f, f
}
