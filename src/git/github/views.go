package github

import (
	"context"
	"errors"
	"strconv"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// CommitDerived commits, and then moves views along, one after the other: the interface moves
// one branch a call. Besides the commit that is
//
//	GET matching refs    one for each hundred branches, to find out where the views are
//	GET commit           one for each view whose commit is not known; none for those of ours
//	POST tree            one, for all views that move
//	POST commit, PATCH ref (without force), or POST ref    for each view that moves
//	DELETE ref           for each view that is gone
//
// What was moved stays moved if a later call fails; the next commit goes on with the others.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	d, err := h.enter(r, s.Check())
	if err != nil {
		return git.DerivedResult{}, err
	}
	s.Message = s.Message.Dated()
	at, err := h.Commit(ctx, r, s.Branch, s.Parent, s.Edits, s.Message)
	if err != nil || at == "" && len(s.Remove) == 0 || len(s.Derived)+len(s.Remove) == 0 {
		return git.DerivedResult{Commit: at}, err
	}
	if at == s.Parent { // nothing was sent, and so nobody has looked whether the branch is there
		if now, err := d.at(ctx, s.Branch, reading); err != nil || now != at {
			return git.DerivedResult{}, firstOf(err, (&writer{door: d, branch: s.Branch}).lost())
		}
	}
	w := &hanging{door: d, known: h.repo(r), message: s.Message}
	now, err := w.whereViewsAre(ctx, s.Branches())
	if err != nil {
		return git.DerivedResult{}, err
	}
	shown := git.DerivedResult{}
	if at != "" && len(s.Derived) > 0 {
		if shown, err = w.show(ctx, at, s.Derived, now); err != nil {
			return git.DerivedResult{}, err
		}
	}
	shown.Commit = at
	return shown, w.removeAll(ctx, s.Remove, now, &shown)
}

// hanging moves views.
type hanging struct {
	*door
	known   *known
	message git.Message
}

// show has views show a commit.
func (w *hanging) show(ctx context.Context, commit git.Hash, views []git.DerivedBranch, at map[string]tree.BranchTip) (git.DerivedResult, error) {
	gallery, err := w.gallery(ctx, commit)
	if err != nil {
		return git.DerivedResult{}, err
	}
	due, shown, err := gallery.Due(views, at)
	if err != nil || len(due) == 0 {
		return shown, err
	}
	if err := w.paint(ctx, gallery, due); err != nil {
		return git.DerivedResult{}, err
	}
	if w.message.Guard != nil {
		if err := w.message.Guard(ctx); err != nil {
			return git.DerivedResult{}, err
		}
	}
	for _, p := range due {
		id, err := w.hang(ctx, p, w.message.ForDerived(p.Derived, commit))
		if err != nil {
			return git.DerivedResult{}, err
		}
		shown.Heads[p.Derived.Branch] = id
	}
	return shown, nil
}

// gallery shows the tree of a commit. Only trees above the views' directories are read.
func (w *hanging) gallery(ctx context.Context, commit git.Hash) (*tree.DerivedTrees, error) {
	id, err := tree.ParseID(commit)
	if err != nil {
		return nil, err
	}
	root, err := w.rootOf(ctx, id)
	if err != nil {
		return nil, err
	}
	r := w.reader()
	d, err := tree.Apply(func(id tree.ID) (tree.Tree, error) { return r.tree(ctx, id) }, root, tree.NewEdits(nil))
	if err != nil {
		return nil, err
	}
	return d.Derived(), nil
}

// whereViewsAre asks where views are, and what they show.
func (w *hanging) whereViewsAre(ctx context.Context, views []string) (map[string]tree.BranchTip, error) {
	heads, err := w.heads(ctx, prefixOf(views))
	if err != nil {
		return nil, err
	}
	at := map[string]tree.BranchTip{}
	for _, name := range views {
		head, there := heads[name]
		if !there {
			continue
		}
		if at[name], err = w.hung(ctx, head); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// prefixOf is what the branches of views have in common.
func prefixOf(views []string) string {
	prefix := views[0]
	for _, name := range views {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// heads returns where the branches are whose names begin with a prefix.
func (d *door) heads(ctx context.Context, prefix string) (map[string]git.Hash, error) {
	found := map[string]git.Hash{}
	for page := 1; page != 0; {
		err := d.call(ctx, "show", reading, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			part, resp, err := c.Git.ListMatchingRefs(ctx, d.owner, d.name, &gh.ReferenceListOptions{
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

// hung returns what a view's commit shows.
func (w *hanging) hung(ctx context.Context, commit git.Hash) (tree.BranchTip, error) {
	id, err := tree.ParseID(commit)
	if err != nil {
		return tree.BranchTip{}, err
	}
	if v, ok := w.known.view(id); ok {
		return v, nil
	}
	var found *gh.Commit
	err = w.call(ctx, "show", reading, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		found, resp, err = c.Git.GetCommit(ctx, w.owner, w.name, string(commit))
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
	w.known.addView(id, v)
	return v, nil
}

// paint makes the server have the trees of pictures: as directories "0", "1", … of trees that
// nothing refers to.
func (w *hanging) paint(ctx context.Context, g *tree.DerivedTrees, due []tree.DerivedChange) error {
	var items []item
	for i, p := range due {
		var err error
		if items, err = w.strokes(ctx, items, g, p.Root, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	t := &writer{door: w.door, known: w.known}
	if err := w.spend(ctx, "show", times(writing, len(t.cut(items)))); err != nil {
		return err
	}
	_, err := t.trees(ctx, tree.ID{}, items)
	return t.lostObjects(err)
}

// strokes appends what a new tree of the gallery holds, at a path: what is on the server by
// its name, and files by their content.
func (w *hanging) strokes(ctx context.Context, items []item, g *tree.DerivedTrees, id tree.ID, path string) ([]item, error) {
	o, fresh := g.Get(id)
	if !fresh {
		return append(items, item{path: path, mode: tree.ModeTree, id: id}), nil
	}
	t, err := tree.Decode(o.Content)
	if err != nil {
		return nil, err
	}
	for _, e := range t {
		at := tree.Join(path, e.Name)
		if e.IsTree() {
			if items, err = w.strokes(ctx, items, g, e.ID, at); err != nil {
				return nil, err
			}
			continue
		}
		file, _ := g.Get(e.ID)
		if !inlinable(file.Content) {
			return nil, errs.E(errs.Invalid, "show", w.repo.URL, errors.New("a view of nothing holds a file that is no text"))
		}
		text := string(file.Content)
		items = append(items, item{path: at, mode: e.Mode, content: &text})
	}
	return items, nil
}

// hang makes a commit for a view, and moves the view to it.
func (w *hanging) hang(ctx context.Context, p tree.DerivedChange, m git.Message) (git.Hash, error) {
	v := &writer{door: w.door, known: w.known, branch: p.Derived.Branch, parent: p.From, base: p.From, message: m}
	if err := w.spend(ctx, "show", times(writing, 2)); err != nil {
		return "", err
	}
	id, err := v.seal(ctx, p.Root)
	if err != nil {
		return "", v.lostObjects(err)
	}
	if err := v.moveRefused(v.point(ctx, id)); err != nil {
		return "", ofView(err, p.Derived)
	}
	commit, err := tree.ParseID(id)
	w.known.addView(commit, tree.BranchTip{Commit: id, Root: p.Root, Ours: true})
	return id, err
}

// removeAll takes away views that are there, and nothing else that goes by their names. The
// interface has no condition for that: where they are was asked for right before.
func (w *hanging) removeAll(ctx context.Context, gone []string, at map[string]tree.BranchTip, shown *git.DerivedResult) error {
	for _, name := range tree.Removable(gone, at, shown) {
		err := w.call(ctx, "remove", writing, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			return c.Git.DeleteRef(ctx, w.owner, w.name, "heads/"+name)
		})
		if err != nil && !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Conflict) { // it is gone
			return (&writer{door: w.door, branch: name}).moveRefused(err)
		}
		shown.Removed = append(shown.Removed, name)
	}
	return nil
}

// ofView has a refusal blame the directory of the view.
func ofView(err error, v git.DerivedBranch) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind != errs.Forbidden {
		return err
	}
	return errs.E(errs.Forbidden, e.Op, e.Subject, &git.PathError{Path: v.Dir, Err: e.Err})
}

// maxViewed bounds the commits of views that are known.
const maxViewed = 20_000

// view returns what is known of a commit of a view.
func (k *known) view(commit tree.ID) (tree.BranchTip, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.views[commit]
	return v, ok
}

func (k *known) addView(commit tree.ID, v tree.BranchTip) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.views == nil || len(k.views) >= maxViewed {
		k.views = map[tree.ID]tree.BranchTip{}
	}
	k.views[commit] = v
}
