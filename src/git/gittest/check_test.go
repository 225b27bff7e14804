package gittest_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// brokenHost is a sound host with one fault that a test sets.
type brokenHost struct {
	git.Host
	commit func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error)
	tree   func(h git.Host, seq iter.Seq2[git.Entry, error]) iter.Seq2[git.Entry, error]
}

func (b brokenHost) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	if b.commit == nil {
		return b.Host.Commit(ctx, r, branch, parent, edits, m)
	}
	return b.commit(b.Host, ctx, r, branch, parent, edits, m)
}

func (b brokenHost) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	seq := b.Host.Tree(ctx, r, at, under)
	if b.tree == nil {
		return seq
	}
	return b.tree(b.Host, seq)
}

// The contract check finds the fault of each broken host.
func TestCheckFindsBrokenHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		bend  func(*brokenHost)
		finds string
	}{
		{"nothing", func(*brokenHost) {}, ""},
		{"writes over a moved branch", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				id, err := h.Commit(ctx, r, branch, parent, edits, m)
				if head, herr := h.Head(ctx, r, branch); errs.Is(err, errs.Conflict) && herr == nil {
					return h.Commit(ctx, r, branch, head, edits, m)
				}
				return id, err
			}
		}, "a stale parent is Conflict"},
		{"forgets to delete", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				var kept []git.Edit
				for _, e := range edits {
					if e.File != nil || len(e.Dir) > 0 {
						kept = append(kept, e)
					}
				}
				return h.Commit(ctx, r, branch, parent, kept, m)
			}
		}, "nothing removes a path"},
		{"adds to directories instead of replacing them", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				if err := git.CheckEdits(edits); err != nil {
					return "", err
				}
				var flat []git.Edit
				for _, e := range edits {
					for rel, content := range e.Dir {
						flat = append(flat, git.Edit{Path: e.Path + "/" + rel, File: content})
					}
					if e.Dir == nil {
						flat = append(flat, e)
					}
				}
				return h.Commit(ctx, r, branch, parent, flat, m)
			}
		}, "a directory holds exactly its files"},
		{"loses the message", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				return h.Commit(ctx, r, branch, parent, edits, git.Message{Title: m.Title, Guard: m.Guard})
			}
		}, "the message is stored as it was given"},
		{"hides kinds", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				id, err := h.Commit(ctx, r, branch, parent, edits, m)
				if err != nil {
					return "", errs.E(errs.Internal, "commit", "", err)
				}
				return id, nil
			}
		}, "paths that lead out or overlap are Invalid"},
		{"asks no guard", func(b *brokenHost) {
			b.commit = func(h git.Host, ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
				m.Guard = nil
				return h.Commit(ctx, r, branch, parent, edits, m)
			}
		}, "a guard that refuses"},
		{"lists half", func(b *brokenHost) {
			b.tree = func(_ git.Host, seq iter.Seq2[git.Entry, error]) iter.Seq2[git.Entry, error] {
				return func(yield func(git.Entry, error) bool) {
					for e, err := range seq {
						if strings.HasPrefix(e.Path, "apps/") {
							return
						}
						if !yield(e, err) {
							return
						}
					}
				}
			}
		}, "the first commit makes the branch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bare, err := gittest.Init(t.Context(), t.TempDir(), "main")
			if err != nil {
				t.Fatal(err)
			}
			host := brokenHost{Host: plain.New(plain.Options{AllowFile: true})}
			c.bend(&host)
			err = gittest.Check(t.Context(), host, git.Repo{URL: "file://" + bare.Dir}, bare.Dir)
			if (err == nil) != (c.finds == "") || err != nil && !strings.Contains(err.Error(), c.finds) {
				t.Errorf("Check = %v, want it to find %q", err, c.finds)
			}
		})
	}
}
