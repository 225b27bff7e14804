package github

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	fewTrees = 4 // missing directories of a tree that are read one by one; more are read at once
	topTrees = 2 // levels from the root that are read one by one, if something is cached
)

// rootOf returns the tree of a commit.
func (repo *repository) rootOf(ctx context.Context, commit tree.ID) (tree.ID, error) {
	k := repo.known
	if root, ok := k.root(commit); ok {
		return root, nil
	}
	var text string
	err := repo.Call(ctx, "commit", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		found, resp, err := c.Git.GetCommit(ctx, repo.Owner, repo.Name, commit.String())
		text = found.GetTree().GetSHA()
		return resp, err
	})
	if err != nil {
		return tree.ID{}, notConflict(err)
	}
	root, err := tree.ParseID(git.Hash(text))
	if err == nil {
		k.addRoot(commit, root)
	}
	return root, err
}

// notConflict turns the refusal of an empty repository into NotFound, for readers.
func notConflict(err error) error {
	if e, ok := errors.AsType[*errs.Error](err); ok && errors.Is(err, api.ErrEmpty) {
		return errs.E(errs.NotFound, e.Op, e.Subject, api.ErrEmpty)
	}
	return err
}

// treeReader reads trees and keeps them.
type treeReader struct {
	repo  *repository
	trees map[tree.ID]tree.Tree
	whole map[tree.ID]bool // trees that were requested with all trees below them
}

func (repo *repository) treeReader() *treeReader {
	return &treeReader{repo: repo, trees: map[tree.ID]tree.Tree{tree.Empty: nil}, whole: map[tree.ID]bool{}}
}

// find returns a tree without a call.
func (r *treeReader) find(id tree.ID) (tree.Tree, bool) {
	if t, ok := r.trees[id]; ok {
		return t, true
	}
	t, ok := r.repo.known.Tree(id)
	if ok {
		r.trees[id] = t
	}
	return t, ok
}

// tree returns one tree.
func (r *treeReader) tree(ctx context.Context, id tree.ID) (tree.Tree, error) {
	if t, ok := r.find(id); ok {
		return t, nil
	}
	if err := r.fetch(ctx, id, false); err != nil {
		return nil, err
	}
	t, ok := r.trees[id]
	if !ok {
		return nil, errs.E(errs.TooLarge, "tree", r.repo.URL, fmt.Errorf("the server does not list all of tree %s", id))
	}
	return t, nil
}

// load reads the trees along the paths of n.
func (r *treeReader) load(ctx context.Context, id tree.ID, n *tree.Edits, depth int) error {
	if depth > tree.MaxDepth {
		return errs.E(errs.Invalid, "tree", r.repo.URL, errors.New("directories are nested too deep"))
	}
	if _, ok := r.find(id); !ok && (depth >= topTrees || r.repo.known.empty()) {
		if err := r.fetch(ctx, id, true); err != nil {
			return err
		}
	}
	t, err := r.tree(ctx, id)
	if err != nil {
		return err
	}
	if err := r.loadMany(ctx, id, r.below(t, n)); err != nil {
		return err
	}
	for e, below := range n.Subtrees(t) {
		if err := r.load(ctx, e.ID, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// below returns the directories of a tree that must be read from the server.
func (r *treeReader) below(t tree.Tree, n *tree.Edits) map[tree.ID]bool {
	missing := map[tree.ID]bool{}
	for e := range n.Subtrees(t) {
		if _, ok := r.find(e.ID); !ok {
			missing[e.ID] = true
		}
	}
	return missing
}

// loadMany reads all trees below a tree if many of its directories are missing.
func (r *treeReader) loadMany(ctx context.Context, id tree.ID, missing map[tree.ID]bool) error {
	if len(missing) <= fewTrees {
		return nil
	}
	return r.fetch(ctx, id, true)
}

// fetch reads a tree from the server, or all trees below it as far as the answer goes.
func (r *treeReader) fetch(ctx context.Context, id tree.ID, all bool) error {
	if all && r.whole[id] {
		return nil
	}
	r.whole[id] = r.whole[id] || all
	var found *gh.Tree
	err := r.repo.Call(ctx, "tree", api.ReadCost, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		found, resp, err = c.Git.GetTree(ctx, r.repo.Owner, r.repo.Name, id.String(), all)
		return resp, err
	})
	if err != nil {
		return notConflict(err)
	}
	trees, err := treesOfListing(id, found.Entries)
	if err != nil {
		return errs.E(errs.Unavailable, "tree", r.repo.URL, err)
	}
	if _, ok := trees[id]; !ok && !found.GetTruncated() {
		return errs.E(errs.Invalid, "tree", r.repo.URL, fmt.Errorf("tree %s has a form that this API does not show; leave gitType out to use Git's own protocol", id))
	}
	for at, t := range trees {
		r.trees[at] = t
	}
	r.repo.known.addTrees(trees)
	return nil
}

// treesOfListing builds trees from a listing. Trees whose names do not match, since the listing was
// cut, are left out.
func treesOfListing(root tree.ID, listing []*gh.TreeEntry) (map[tree.ID]tree.Tree, error) {
	ids, entries := map[string]tree.ID{"": root}, map[string][]tree.Entry{}
	for _, line := range listing {
		e, err := entryOf(line)
		if err != nil {
			return nil, err
		}
		dir, _ := path.Split(line.GetPath())
		dir = strings.TrimSuffix(dir, "/")
		entries[dir] = append(entries[dir], e)
		if e.IsTree() {
			ids[line.GetPath()] = e.ID
		}
	}
	trees := map[tree.ID]tree.Tree{}
	for dir, id := range ids {
		if t := tree.Sort(entries[dir]); t.ID() == id {
			trees[id] = t
		}
	}
	return trees, nil
}

func entryOf(line *gh.TreeEntry) (tree.Entry, error) {
	mode, err := strconv.ParseUint(line.GetMode(), 8, 32)
	id, err2 := tree.ParseID(git.Hash(line.GetSHA()))
	name := path.Base(line.GetPath())
	if err := firstOf(err, err2); err != nil || line.GetPath() == "" || name == "." || name == ".." {
		return tree.Entry{}, errors.New("a tree is malformed")
	}
	return tree.Entry{Name: name, Mode: uint32(mode), ID: id}, nil
}

// walk visits the leaves of an entry at a path in path order.
func (r *treeReader) walk(ctx context.Context, here tree.Entry, at string, visit func(git.Entry) bool) error {
	if here.IsTree() {
		if _, ok := r.find(here.ID); !ok {
			if err := r.fetch(ctx, here.ID, true); err != nil {
				return err
			}
		}
	}
	return r.visit(ctx, here, at, visit, 0)
}

func (r *treeReader) visit(ctx context.Context, here tree.Entry, at string, visit func(git.Entry) bool, depth int) error {
	if !here.IsTree() {
		if !visit(git.Entry{Path: at, Mode: here.Mode, ID: git.Hash(here.ID.String())}) {
			return errStopped
		}
		return nil
	}
	if depth > tree.MaxDepth {
		return errs.E(errs.Invalid, "tree", r.repo.URL, errors.New("directories are nested too deep"))
	}
	t, err := r.tree(ctx, here.ID)
	if err != nil {
		return err
	}
	for _, e := range t {
		if err := r.visit(ctx, e, tree.Join(at, e.Name), visit, depth+1); err != nil {
			return err
		}
	}
	return nil
}
