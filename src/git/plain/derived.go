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

// derivedAtOnce is how many heads of derived branches are fetched in one exchange.
const derivedAtOnce = 500

// CommitDerived commits and updates derived branches. One advertisement shows the heads of all of
// them, so that one exchange is enough while these heads are cached.
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
	w := derivedPush{DerivedUpdate: s, host: h, repo: r, draft: d, pending: d.changes()}
	conv, err := w.open(ctx)
	if err != nil {
		return git.DerivedResult{}, err
	}
	g, err := w.prepare(ctx, conv)
	if err != nil {
		conv.close(true)
		return git.DerivedResult{}, h.fail(ctx, r, "derive", err)
	}
	if err := w.send(ctx, conv, g); err != nil {
		return git.DerivedResult{}, err
	}
	return g.result, nil
}

// derivedPush is a commit with derived branches on its way.
type derivedPush struct {
	git.DerivedUpdate
	host    *Host
	repo    git.Repo
	draft   commitDraft
	pending bool // the source branch must still be pushed
}

// open begins the conversation that updates derived branches. A server that cannot update all
// branches at once gets the commit before.
func (w *derivedPush) open(ctx context.Context) (*serviceConn, error) {
	conv, err := w.host.open(ctx, w.repo, receivePack)
	if err != nil || !w.pending || conv.has(capability.Atomic) {
		return conv, err
	}
	if err := w.host.send(ctx, w.repo, conv, w.branchPush()); err != nil {
		return nil, err
	}
	w.host.remember(w.repo, w.draft)
	w.pending = false
	return w.host.open(ctx, w.repo, receivePack)
}

// branchPush is the push of the source branch alone.
func (w *derivedPush) branchPush() pushRequest {
	return pushOfBranch(w.Branch, w.draft.base.commit, w.draft.change, w.Message.Guard)
}

// send updates derived branches, and their source if that is pending, and ends the conversation.
func (w *derivedPush) send(ctx context.Context, conv *serviceConn, g *derivedMoves) error {
	p := pushRequest{updates: g.moves, objs: g.objs, bytes: g.bytes, guard: w.Message.Guard}
	switch {
	case w.pending:
		own := w.branchPush()
		p.updates = append(own.updates, p.updates...)
		p.objs, p.bytes = slices.Concat(own.objs, p.objs), p.bytes+own.bytes
	case conv.refs.References[headsPrefix+w.Branch] != w.draft.tip():
		conv.close(true)
		return w.host.conflict(w.repo, w.Branch)
	case len(p.updates) == 0:
		conv.close(true)
		return nil
	}
	if err := w.host.send(ctx, w.repo, conv, p); err != nil {
		return err
	}
	if w.pending {
		w.host.remember(w.repo, w.draft)
	}
	w.host.repo(w.repo).addDerived(g.made)
	return nil
}

// derivedMoves are the updates that derived branches need.
type derivedMoves struct {
	objectList
	moves  []refUpdate
	made   map[plumbing.Hash]derivedCommit
	result git.DerivedResult
}

// prepare finds the derived branches that must move, and makes their commits.
func (w *derivedPush) prepare(ctx context.Context, conv *serviceConn) (*derivedMoves, error) {
	at, err := w.host.derivedTips(ctx, w.repo, conv, w.Branches())
	if err != nil {
		return nil, err
	}
	made := w.draft.change.draft.Derived()
	due, shown, err := made.Due(w.Derived, at)
	if err != nil {
		return nil, err
	}
	shown.Commit = w.draft.head()
	g := &derivedMoves{made: map[plumbing.Hash]derivedCommit{}, result: shown}
	g.addObjects(made.ObjectSet)
	for _, p := range due {
		if err := g.addCommitOf(p, w.Message.ForDerived(p.Derived, shown.Commit)); err != nil {
			return nil, err
		}
	}
	for _, name := range tree.Removable(w.Remove, at, &g.result) {
		g.moves = append(g.moves, refUpdate{branch: name, from: plumbing.NewHash(string(at[name].Commit))})
		g.result.Removed = append(g.result.Removed, name)
	}
	return g, nil
}

// addCommitOf adds a commit of a derived branch.
func (g *derivedMoves) addCommitOf(p tree.DerivedChange, m git.Message) error {
	head := plumbing.NewHash(string(p.From)) // zero if there is none
	commit, err := g.addCommit(plumbing.Hash(p.Root), head, m)
	if err != nil {
		return err
	}
	g.made[commit] = derivedCommit{root: p.Root, ours: true}
	g.moves = append(g.moves, refUpdate{branch: p.Derived.Branch, from: head, to: commit, dir: p.Derived.Dir})
	g.result.Heads[p.Derived.Branch] = git.Hash(commit.String())
	return nil
}

// derivedTips returns the heads of derived branches and their trees. Heads that are not cached are
// fetched, without their files.
func (h *Host) derivedTips(ctx context.Context, r git.Repo, conv *serviceConn, views []string) (map[string]tree.BranchTip, error) {
	k, known := h.repo(r), map[plumbing.Hash]derivedCommit{}
	var missing []plumbing.Hash
	for _, name := range views {
		head, there := conv.refs.References[headsPrefix+name]
		if _, again := known[head]; again || !there {
			continue
		}
		seen, ok := k.derived(head)
		if known[head] = seen; !ok {
			missing = append(missing, head)
		}
	}
	for some := range slices.Chunk(missing, derivedAtOnce) {
		found, err := h.fetchDerived(ctx, r, some)
		if err != nil {
			return nil, err
		}
		k.addDerived(found)
		maps.Copy(known, found)
	}
	at := map[string]tree.BranchTip{}
	for _, name := range views {
		if head, there := conv.refs.References[headsPrefix+name]; there {
			at[name] = tree.BranchTip{Commit: git.Hash(head.String()), Root: known[head].root, Ours: known[head].ours}
		}
	}
	return at, nil
}

// fetchDerived fetches commits.
func (h *Host) fetchDerived(ctx context.Context, r git.Repo, ids []plumbing.Hash) (map[plumbing.Hash]derivedCommit, error) {
	conv, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	found := map[plumbing.Hash]derivedCommit{}
	p := &packReader{
		keep: func(o gitObject) {
			if o.kind == plumbing.CommitObject {
				root, _ := rootOf(o.content)
				source := git.ReadCommit("", o.content).Trailer(git.SourceTrailer)
				found[o.id] = derivedCommit{root: tree.ID(root), ours: source != ""}
			}
		},
		budget: exchangeBytes,
	}
	_, err = h.receive(ctx, conv, fetchRequest{want: ids, shallow: true, commitsOnly: true}, p)
	conv.close(err == nil)
	if err == nil && len(found) < len(ids) {
		err = errs.E(errs.Unavailable, "fetch", r.URL, errors.New("the server does not send what branches point at"))
	}
	return found, err
}
