package plain

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// viewsAtOnce is how many commits of views are fetched in one exchange.
const viewsAtOnce = 500

// CommitDerived commits, and moves views along. Where the views are is in the same
// advertisement that tells where the branch is, so that one exchange is enough as long as
// their commits are known.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	if err := errors.Join(s.Check(), h.checkURL(r)); err != nil {
		return git.DerivedResult{}, firstOf(err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, s.Parent, s.Edits, s.Message)
	if err != nil || d.tip().IsZero() && len(s.Remove) == 0 {
		return git.DerivedResult{}, err
	}
	w := showing{DerivedUpdate: s, host: h, repo: r, draft: d, pending: d.changes()}
	conv, err := w.open(ctx)
	if err != nil {
		return git.DerivedResult{}, err
	}
	g, err := w.gallery(ctx, conv)
	if err != nil {
		conv.close(true)
		return git.DerivedResult{}, h.fail(ctx, r, "show", err)
	}
	if err := w.send(ctx, conv, g); err != nil {
		return git.DerivedResult{}, err
	}
	return g.shown, nil
}

// showing is a commit with views on its way.
type showing struct {
	git.DerivedUpdate
	host    *Host
	repo    git.Repo
	draft   draft
	pending bool // the branch has still to be moved
}

// open begins the conversation in which views are moved. Where the server cannot move them
// together with the branch, the branch is moved before.
func (w *showing) open(ctx context.Context) (*conversation, error) {
	conv, err := w.host.open(ctx, w.repo, receivePack)
	if err != nil || !w.pending || conv.has(capability.Atomic) {
		return conv, err
	}
	if err := w.host.send(ctx, w.repo, conv, w.own()); err != nil {
		return nil, err
	}
	w.host.landed(w.repo, w.draft)
	w.pending = false
	return w.host.open(ctx, w.repo, receivePack)
}

// own is the push of the branch alone.
func (w *showing) own() push {
	return pushOf(w.Branch, w.draft.base.commit, w.draft.change, w.Message.Guard)
}

// send moves views, and the branch with them if that is pending, and ends the conversation.
func (w *showing) send(ctx context.Context, conv *conversation, g *gallery) error {
	p := push{moves: g.moves, objs: g.objs, bytes: g.bytes, guard: w.Message.Guard}
	switch {
	case w.pending:
		own := w.own()
		p.moves = append(own.moves, p.moves...)
		p.objs, p.bytes = slices.Concat(own.objs, p.objs), p.bytes+own.bytes
	case conv.refs.References[heads+w.Branch] != w.draft.tip():
		conv.close(true)
		return w.host.lost(w.repo, w.Branch)
	case len(p.moves) == 0:
		conv.close(true)
		return nil
	}
	if err := w.host.send(ctx, w.repo, conv, p); err != nil {
		return err
	}
	if w.pending {
		w.host.landed(w.repo, w.draft)
	}
	w.host.repo(w.repo).see(g.made)
	return nil
}

// gallery is what has to be done for views to show a commit.
type gallery struct {
	cargo
	moves []move
	made  map[plumbing.Hash]viewed
	shown git.DerivedResult
}

// gallery finds out which views have to move, and makes their commits.
func (w *showing) gallery(ctx context.Context, conv *conversation) (*gallery, error) {
	at, err := w.host.whereViewsAre(ctx, w.repo, conv, w.Branches())
	if err != nil {
		return nil, err
	}
	made := w.draft.change.draft.Derived()
	due, shown, err := made.Due(w.Derived, at)
	if err != nil {
		return nil, err
	}
	shown.Commit = w.draft.head()
	g := &gallery{made: map[plumbing.Hash]viewed{}, shown: shown}
	g.carry(made.ObjectSet)
	for _, p := range due {
		if err := g.hang(p, w.Message.ForDerived(p.Derived, shown.Commit)); err != nil {
			return nil, err
		}
	}
	for _, name := range tree.Removable(w.Remove, at, &g.shown) {
		g.moves = append(g.moves, move{branch: name, from: plumbing.NewHash(string(at[name].Commit))})
		g.shown.Removed = append(g.shown.Removed, name)
	}
	return g, nil
}

// hang makes a commit for a view.
func (g *gallery) hang(p tree.DerivedChange, m git.Message) error {
	head := plumbing.NewHash(string(p.From)) // zero if there is none
	commit, err := g.seal(plumbing.Hash(p.Root), head, m)
	if err != nil {
		return err
	}
	g.made[commit] = viewed{root: p.Root, ours: true}
	g.moves = append(g.moves, move{branch: p.Derived.Branch, from: head, to: commit, dir: p.Derived.Dir})
	g.shown.Heads[p.Derived.Branch] = git.Hash(commit.String())
	return nil
}

// whereViewsAre returns what views show now, by the commits that the server advertises.
// Those that are not known are fetched, without what they hold.
func (h *Host) whereViewsAre(ctx context.Context, r git.Repo, conv *conversation, views []string) (map[string]tree.BranchTip, error) {
	k, known := h.repo(r), map[plumbing.Hash]viewed{}
	var missing []plumbing.Hash
	for _, name := range views {
		head, there := conv.refs.References[heads+name]
		if _, again := known[head]; again || !there {
			continue
		}
		seen, ok := k.seen(head)
		if known[head] = seen; !ok {
			missing = append(missing, head)
		}
	}
	for some := range slices.Chunk(missing, viewsAtOnce) {
		found, err := h.fetchViewed(ctx, r, some)
		if err != nil {
			return nil, err
		}
		k.see(found)
		maps.Copy(known, found)
	}
	at := map[string]tree.BranchTip{}
	for _, name := range views {
		if head, there := conv.refs.References[heads+name]; there {
			at[name] = tree.BranchTip{Commit: git.Hash(head.String()), Root: known[head].root, Ours: known[head].ours}
		}
	}
	return at, nil
}

// fetchViewed fetches commits.
func (h *Host) fetchViewed(ctx context.Context, r git.Repo, ids []plumbing.Hash) (map[plumbing.Hash]viewed, error) {
	conv, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	found := map[plumbing.Hash]viewed{}
	p := &packReader{
		base: func(plumbing.Hash) (object, bool) { return object{}, false },
		keep: func(o object) {
			if o.kind == plumbing.CommitObject {
				root, _ := rootOf(o.content)
				source := git.ReadCommit("", o.content).Trailer(git.SourceTrailer)
				found[o.id] = viewed{root: tree.ID(root), ours: source != ""}
			}
		},
		budget: exchangeBytes,
	}
	_, err = h.receive(ctx, conv, request{want: ids, shallow: true, commitsOnly: true}, p)
	conv.close(err == nil)
	if err == nil && len(found) < len(ids) {
		err = errs.E(errs.Unavailable, "fetch", r.URL, errors.New("the server does not send what branches point at"))
	}
	return found, err
}
