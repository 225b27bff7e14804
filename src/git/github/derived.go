package github

import (
	"context"
	"errors"
	"strconv"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/github/internal/treeplan"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// CommitDerived commits, and then updates derived branches one after the other: the API moves one
// branch per call. Besides the commit it makes
//
//	GET matching refs    one for each hundred branches, to read the heads of derived branches
//	GET commit           one for each head that is not cached; none for those of ours
//	POST tree            one, for all derived branches that move
//	POST commit, PATCH ref (without force), or POST ref    for each derived branch that moves
//	DELETE ref           for each derived branch that is removed
//
// Branches that were moved stay moved if a later call fails; the next commit continues with the
// others.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	repo, err := h.open(r, s.Check())
	if err != nil {
		return git.DerivedResult{}, err
	}
	s.Message = s.Message.Dated()
	at, err := h.Commit(ctx, r, s.Branch, s.Parent, s.Edits, s.Message)
	if err != nil || at == "" && len(s.Remove) == 0 || len(s.Derived)+len(s.Remove) == 0 {
		return git.DerivedResult{Commit: at}, err
	}
	if at == s.Parent { // nothing was sent, so the head of the branch was not read
		if now, err := repo.headOf(ctx, s.Branch, api.ReadCost); err != nil || now != at {
			return git.DerivedResult{}, firstOf(err, (&commitWriter{repository: repo, branch: s.Branch}).conflict())
		}
	}
	w := &derivedWriter{repository: repo, message: s.Message}
	now, err := w.derivedTips(ctx, s.Branches())
	if err != nil {
		return git.DerivedResult{}, err
	}
	shown := git.DerivedResult{}
	if at != "" && len(s.Derived) > 0 {
		if shown, err = w.update(ctx, at, s.Derived, now); err != nil {
			return git.DerivedResult{}, err
		}
	}
	shown.Commit = at
	return shown, w.removeAll(ctx, s.Remove, now, &shown)
}

// derivedWriter updates derived branches.
type derivedWriter struct {
	*repository
	message git.Message
}

// update derives branches from a commit.
func (w *derivedWriter) update(ctx context.Context, commit git.Hash, derived []git.DerivedBranch, at map[string]tree.BranchTip) (git.DerivedResult, error) {
	trees, err := w.derivedTrees(ctx, commit)
	if err != nil {
		return git.DerivedResult{}, err
	}
	due, shown, err := trees.Due(derived, at)
	if err != nil || len(due) == 0 {
		return shown, err
	}
	if err := w.createTrees(ctx, trees, due); err != nil {
		return git.DerivedResult{}, err
	}
	if w.message.Guard != nil {
		if err := w.message.Guard(ctx); err != nil {
			return git.DerivedResult{}, err
		}
	}
	for _, p := range due {
		id, err := w.commitOne(ctx, p, w.message.ForDerived(p.Derived, commit))
		if err != nil {
			return git.DerivedResult{}, err
		}
		shown.Heads[p.Derived.Branch] = id
	}
	return shown, nil
}

// derivedTrees returns the trees of branches derived from a commit. Only trees above their
// directories are read.
func (w *derivedWriter) derivedTrees(ctx context.Context, commit git.Hash) (*tree.DerivedTrees, error) {
	id, err := tree.ParseID(commit)
	if err != nil {
		return nil, err
	}
	root, err := w.rootOf(ctx, id)
	if err != nil {
		return nil, err
	}
	r := w.treeReader()
	d, err := tree.Apply(func(id tree.ID) (tree.Tree, error) { return r.tree(ctx, id) }, root, tree.NewEdits(nil))
	if err != nil {
		return nil, err
	}
	return d.Derived(), nil
}

// derivedTips returns the heads of derived branches and their trees.
func (w *derivedWriter) derivedTips(ctx context.Context, derived []string) (map[string]tree.BranchTip, error) {
	heads, err := w.headsBelow(ctx, prefixOf(derived))
	if err != nil {
		return nil, err
	}
	at := map[string]tree.BranchTip{}
	for _, name := range derived {
		head, there := heads[name]
		if !there {
			continue
		}
		if at[name], err = w.tipOf(ctx, head); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// prefixOf returns the common prefix of names.
func prefixOf(derived []string) string {
	prefix := derived[0]
	for _, name := range derived {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// headsBelow returns the heads of the branches whose names begin with a prefix.
func (repo *repository) headsBelow(ctx context.Context, prefix string) (map[string]git.Hash, error) {
	found := map[string]git.Hash{}
	for page := 1; page != 0; {
		err := repo.Call(ctx, "derive", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			part, resp, err := c.Git.ListMatchingRefs(ctx, repo.Owner, repo.Name, &gh.ReferenceListOptions{
				Ref: "heads/" + prefix, ListOptions: gh.ListOptions{Page: page, PerPage: perPage},
			})
			if err != nil {
				return resp, err
			}
			for _, ref := range part {
				found[strings.TrimPrefix(ref.GetRef(), "refs/heads/")] = git.Hash(ref.GetObject().GetSHA())
			}
			page = resp.NextPage
			return resp, nil
		})
		if err != nil {
			return nil, notConflict(err)
		}
	}
	return found, nil
}

// tipOf returns the tree of a derived branch's head.
func (w *derivedWriter) tipOf(ctx context.Context, commit git.Hash) (tree.BranchTip, error) {
	id, err := tree.ParseID(commit)
	if err != nil {
		return tree.BranchTip{}, err
	}
	if v, ok := w.known.derived(id); ok {
		return v, nil
	}
	var found *gh.Commit
	err = w.Call(ctx, "derive", api.ReadCost, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		found, resp, err = c.Git.GetCommit(ctx, w.Owner, w.Name, string(commit))
		return resp, err
	})
	if err != nil {
		return tree.BranchTip{}, notConflict(err)
	}
	root, err := tree.ParseID(git.Hash(found.GetTree().GetSHA()))
	if err != nil {
		return tree.BranchTip{}, err
	}
	v := tree.BranchTip{Commit: commit, Root: root, Ours: git.Commit{Message: found.GetMessage()}.Trailer(git.SourceTrailer) != ""}
	w.known.addDerived(id, v)
	return v, nil
}

// createTrees creates the trees of derived branches on the server, as directories "0", "1", … of
// trees that nothing refers to.
func (w *derivedWriter) createTrees(ctx context.Context, g *tree.DerivedTrees, due []tree.DerivedChange) error {
	var items []treeplan.Item
	for i, p := range due {
		var err error
		if items, err = w.appendTree(ctx, items, g, p.Root, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	t := &commitWriter{repository: w.repository}
	if err := w.Spend(ctx, "derive", api.Times(api.WriteCost, len(t.splitItems(items)))); err != nil {
		return err
	}
	_, err := t.trees(ctx, tree.ID{}, items)
	return t.forgetIfGone(err)
}

// appendTree appends the items of a new tree, at a path: objects of the server by their names, and
// files by their content.
func (w *derivedWriter) appendTree(ctx context.Context, items []treeplan.Item, g *tree.DerivedTrees, id tree.ID, path string) ([]treeplan.Item, error) {
	o, fresh := g.Get(id)
	if !fresh {
		return append(items, treeplan.Item{Path: path, Mode: tree.ModeTree, ID: id}), nil
	}
	t, err := tree.Decode(o.Content)
	if err != nil {
		return nil, err
	}
	for _, e := range t {
		at := tree.Join(path, e.Name)
		if e.IsTree() {
			if items, err = w.appendTree(ctx, items, g, e.ID, at); err != nil {
				return nil, err
			}
			continue
		}
		file, _ := g.Get(e.ID)
		if !treeplan.Inlinable(file.Content) {
			return nil, errs.E(errs.Invalid, "derive", w.URL, errors.New("a file of an empty derived branch is not text"))
		}
		text := string(file.Content)
		items = append(items, treeplan.Item{Path: at, Mode: e.Mode, Content: &text})
	}
	return items, nil
}

// commitOne makes a commit for a derived branch, and moves the branch to it.
func (w *derivedWriter) commitOne(ctx context.Context, p tree.DerivedChange, m git.Message) (git.Hash, error) {
	v := &commitWriter{repository: w.repository, branch: p.Derived.Branch, parent: p.From, base: p.From, message: m}
	if err := w.Spend(ctx, "derive", api.Times(api.WriteCost, 2)); err != nil {
		return "", err
	}
	id, err := v.createCommit(ctx, p.Root)
	if err != nil {
		return "", v.forgetIfGone(err)
	}
	if err := v.moveRefused(v.updateRef(ctx, id)); err != nil {
		return "", blameDir(err, p.Derived)
	}
	commit, err := tree.ParseID(id)
	w.known.addDerived(commit, tree.BranchTip{Commit: id, Root: p.Root, Ours: true})
	return id, err
}

// removeAll deletes derived branches. The API has no compare-and-swap for that; their heads were
// read right before.
func (w *derivedWriter) removeAll(ctx context.Context, gone []string, at map[string]tree.BranchTip, shown *git.DerivedResult) error {
	for _, name := range tree.Removable(gone, at, shown) {
		err := w.Call(ctx, "remove", api.WriteCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			return c.Git.DeleteRef(ctx, w.Owner, w.Name, "heads/"+name)
		})
		if err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) { // it is deleted already
			return (&commitWriter{repository: w.repository, branch: name}).moveRefused(err)
		}
		shown.Removed = append(shown.Removed, name)
	}
	return nil
}

// blameDir makes a refusal blame the directory of the derived branch.
func blameDir(err error, v git.DerivedBranch) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind != errs.Forbidden {
		return err
	}
	return errs.E(errs.Forbidden, e.Op, e.Subject, &git.PathError{Path: v.Dir, Err: e.Err})
}
