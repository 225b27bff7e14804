package site

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// push is the newest commits after a push.
type push struct {
	at    time.Time
	heads map[string]string // by branch
}

// notePush records a durable push.
func (s *Site) notePush() {
	now := time.Now()
	s.last.Store(now.UnixNano())
	heads := map[string]string{}
	dir := filepath.Join(s.Bare.Dir, "refs", "heads") // git writes each pushed branch to a file of its own
	branches, _ := os.ReadDir(dir)
	for _, b := range branches {
		if head, err := os.ReadFile(filepath.Join(dir, b.Name())); err == nil {
			heads[b.Name()] = strings.TrimSpace(string(head))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushes = append(s.pushes, push{now, heads})
}

// Branches lists the branches after the last push.
func (s *Site) Branches() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pushes); n > 0 {
		for b := range s.pushes[n-1].heads {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return out
}

// Changed returns the files that changed after a moment, and when the last change of each was durable: at the
// end of its push. It looks only at files that match a pattern of git.
func (s *Site) Changed(ctx context.Context, after time.Time, pattern string) (map[string]time.Time, error) {
	s.mu.Lock()
	pushes := slices.Clone(s.pushes)
	s.mu.Unlock()
	out, from := map[string]time.Time{}, map[string]string{}
	for _, p := range pushes {
		for branch, head := range p.heads {
			if before := from[branch]; p.at.After(after) && head != before {
				commits := head
				if before != "" {
					commits = before + ".." + head
				}
				names, err := s.Bare.Git(ctx, "", "log", "--first-parent", "--root", "-m", "--name-only", "--format=", commits, "--", ":(glob)"+pattern)
				if err != nil {
					return nil, err
				}
				for path := range strings.FieldsSeq(names) {
					out[path] = p.at
				}
			}
			from[branch] = head
		}
	}
	return out, nil
}
