package batch_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// memory is a git.Host in memory whose commits take a while, for tests of time.
type memory struct {
	takes time.Duration

	mu       sync.Mutex
	heads    map[string]git.Hash
	commits  map[git.Hash]map[string]string
	messages []git.Message // of the commits that were made, in order
	fail     func() error  // asked before each commit; guarded by mu once commits run
	after    func() error  // asked after each commit that was made
}

// recover lets later commits succeed.
func (m *memory) recover() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = nil
}

func newMemory(takes time.Duration) *memory {
	return &memory{takes: takes, heads: map[string]git.Hash{}, commits: map[git.Hash]map[string]string{}}
}

func (m *memory) Head(_ context.Context, _ git.Repo, branch string) (git.Hash, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.heads[branch]; ok {
		return id, nil
	}
	return "", errs.New(errs.NotFound, "no branch")
}

func (m *memory) Tree(context.Context, git.Repo, git.Hash, string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		yield(git.Entry{}, errs.New(errs.Unavailable, "batches read no trees"))
	}
}

func (m *memory) Blob(context.Context, git.Repo, git.Hash) ([]byte, error) {
	return nil, errs.New(errs.Unavailable, "batches read no files")
}

func (m *memory) Commit(ctx context.Context, _ git.Repo, branch string, parent git.Hash, edits []git.Edit, msg git.Message) (git.Hash, error) {
	files := m.files(parent)
	before := maps.Clone(files)
	for _, e := range edits {
		if strings.HasPrefix(e.Path, "linked/") {
			return "", git.BadPath("linked", "a symbolic link is there")
		}
		maps.DeleteFunc(files, func(p, _ string) bool { return git.Inside(p, e.Path) })
		if e.File != nil {
			files[e.Path] = string(e.File)
		}
		for rel, content := range e.Dir {
			files[e.Path+"/"+rel] = string(content)
		}
	}
	if maps.Equal(files, before) {
		return parent, nil
	}
	time.Sleep(m.takes) // what a server needs; the bubble's clock, not a synchronisation
	if msg.Guard != nil {
		if err := msg.Guard(ctx); err != nil {
			return "", err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(); err != nil {
			return "", err
		}
	}
	if strings.Contains(fmt.Sprint(files), "panics") {
		panic("index out of range")
	}
	if strings.Contains(fmt.Sprint(files), "refused") {
		return "", errs.New(errs.Forbidden, "hook declined")
	}
	if m.heads[branch] != parent {
		return "", errs.E(errs.Conflict, "push", "", errors.New("moved"))
	}
	id := git.Hash(fmt.Sprintf("%040d", len(m.commits)+1))
	m.commits[id], m.heads[branch] = files, id
	m.messages = append(m.messages, msg)
	if m.after != nil {
		if err := m.after(); err != nil {
			return "", err
		}
	}
	return id, nil
}

// files returns a copy of what a commit holds.
func (m *memory) files(at git.Hash) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := maps.Clone(m.commits[at])
	if files == nil {
		files = map[string]string{}
	}
	return files
}
