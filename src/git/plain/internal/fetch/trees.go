// Package fetch has the methods of git.Host and of the other interfaces of package git that read, by Git's protocol, each
// with as few requests as the server's capabilities allow.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// errIncomplete is the error of a pack that lacks objects which it should hold, given what we have.
var errIncomplete = errs.E(errs.Unavailable, "receive", "", errors.New("the server sent an incomplete tree"))

// Trees fetches a commit and those of its trees that are neither known nor part of the commits in
// have. If the server takes too much for known, it fetches all trees.
func Trees(ctx context.Context, client *wire.Client, r git.Repo, commit plumbing.Hash, known *treecache.Store, have []plumbing.Hash) (treecache.Fetched, error) {
	found, err := treesSince(ctx, client, r, commit, known, have)
	if errors.Is(err, errIncomplete) && len(have) > 0 {
		client.Log.LogAttrs(ctx, slog.LevelDebug, "fetching all trees again", slog.String("repo", r.URL))
		found, err = treesSince(ctx, client, r, commit, known, nil)
	}
	return found, err
}

func treesSince(ctx context.Context, client *wire.Client, r git.Repo, commit plumbing.Hash, known *treecache.Store, have []plumbing.Hash) (out treecache.Fetched, err error) {
	c, err := client.OpenWithoutRefs(ctx, r, dial.UploadPack)
	if err != nil {
		return out, err
	}
	defer func() { c.Close(err == nil) }()
	out.Trees = map[plumbing.Hash][]byte{}
	found := false
	p := &pack.Reader{
		Base: func(id plumbing.Hash) (pack.Object, bool) {
			raw, ok := known.Get(id)
			return pack.Object{Kind: plumbing.TreeObject, ID: id, Content: raw}, ok
		},
		Keep: func(o pack.Object) {
			switch {
			case o.Kind == plumbing.TreeObject:
				out.Trees[o.ID] = o.Content
			case o.Kind == plumbing.CommitObject && o.ID == commit:
				out.Root, found = rootOf(o.Content)
			}
		},
	}
	q := wire.FetchRequest{Want: []plumbing.Hash{commit}, Have: have, Shallow: true, NoBlobs: true}
	unresolved, err := c.Fetch(ctx, q, p)
	switch {
	case err != nil:
		return out, err
	case unresolved > 0 && c.Has(capability.Filter):
		return out, errIncomplete
	case !found && len(have) == 0:
		return out, errs.E(errs.NotFound, "fetch", "", errors.New("not a commit"))
	case !found || !complete(out, known):
		return out, errIncomplete
	}
	return out, nil
}

// rootOf reads the first line of a commit.
func rootOf(commit []byte) (plumbing.Hash, bool) {
	line, _, _ := bytes.Cut(commit, []byte{'\n'})
	id, ok := bytes.CutPrefix(line, []byte("tree "))
	if !ok || !plumbing.IsHash(string(id)) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(string(id)), true
}

// complete reports whether all trees below the root are there. What is known is complete already, so
// only new trees are read.
func complete(found treecache.Fetched, known *treecache.Store) bool {
	seen := map[plumbing.Hash]bool{}
	stack := []plumbing.Hash{found.Root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		raw, isNew := found.Trees[id]
		if !isNew {
			if _, ok := known.Get(id); !ok {
				return false
			}
			continue
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		entries, err := tree.Decode(raw)
		if err != nil {
			return false
		}
		for _, e := range entries {
			if e.IsTree() {
				stack = append(stack, plumbing.Hash(e.ID))
			}
		}
	}
	return true
}
