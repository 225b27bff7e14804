package plain

import (
	"context"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/fetch"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// derivedAtOnce is how many heads of derived branches are fetched in one exchange.
const derivedAtOnce = 500

// CommitDerived commits and updates derived branches. One advertisement shows the heads of all of
// them, so that one exchange is enough while these heads are cached.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	if err := firstOf(s.Check(), h.checkURL(r)); err != nil {
		return git.DerivedResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, s.Parent, s.Edits, s.Message)
	if err != nil || d.head().IsZero() && len(s.Remove) == 0 {
		return git.DerivedResult{}, err
	}
	w := derivedPush{DerivedUpdate: s, host: h, repo: r, draft: d, pending: d.changes()}
	conv, err := w.open(ctx)
	if err != nil {
		return git.DerivedResult{}, err
	}
	g, err := w.prepare(ctx, conv)
	if err != nil {
		conv.Close(true)
		return git.DerivedResult{}, transport.Fail(ctx, r, "derive", err)
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
	draft   *commitDraft
	pending bool // the source branch must still be pushed
}

// open begins the conversation that updates derived branches. A server that cannot update all
// branches at once gets the commit before.
func (w *derivedPush) open(ctx context.Context) (*wire.Conn, error) {
	conv, err := w.host.client.Open(ctx, w.repo, dial.ReceivePack)
	if err != nil || !w.pending || conv.Has(capability.Atomic) {
		return conv, err
	}
	if err := w.host.forgetIfLost(w.repo, conv.Push(ctx, w.branchPush())); err != nil {
		return nil, err
	}
	w.host.remember(w.repo, w.draft)
	w.pending = false
	return w.host.client.Open(ctx, w.repo, dial.ReceivePack)
}

// branchPush is the push of the source branch alone.
func (w *derivedPush) branchPush() wire.PushRequest {
	return w.draft.push(w.Branch, w.draft.base.Commit, w.Message)
}

// send updates derived branches, and their source if that is pending, and ends the conversation.
func (w *derivedPush) send(ctx context.Context, conv *wire.Conn, g *derivedMoves) error {
	p := wire.PushRequest{Updates: g.moves, Objects: g.objects, Bytes: g.bytes, Guard: w.Message.Guard}
	switch {
	case w.pending:
		own := w.branchPush()
		p.Updates = append(own.Updates, p.Updates...)
		p.Objects, p.Bytes = slices.Concat(own.Objects, p.Objects), p.Bytes+own.Bytes
	case !w.atHead(conv):
		conv.Close(true)
		return conv.Conflict(w.Branch)
	case len(p.Updates) == 0:
		conv.Close(true)
		return nil
	}
	if err := w.host.forgetIfLost(w.repo, conv.Push(ctx, p)); err != nil {
		return err
	}
	if w.pending {
		w.host.remember(w.repo, w.draft)
	}
	w.host.caches.Get(w.repo).AddTips(g.made)
	return nil
}

// atHead reports whether the source branch is where the derived branches will show it.
func (w *derivedPush) atHead(conv *wire.Conn) bool {
	at, _ := conv.Branch(w.Branch)
	return at == w.draft.head()
}

// derivedMoves are the updates that derived branches need.
type derivedMoves struct {
	objectList
	moves  []wire.RefUpdate
	made   map[plumbing.Hash]treecache.Tip
	result git.DerivedResult
}

// prepare finds the derived branches that must move, and makes their commits.
func (w *derivedPush) prepare(ctx context.Context, conv *wire.Conn) (*derivedMoves, error) {
	at, err := w.tips(ctx, conv)
	if err != nil {
		return nil, err
	}
	made := w.draft.trees.Derived()
	due, shown, err := made.Due(w.Derived, at)
	if err != nil {
		return nil, err
	}
	shown.Commit = hashOf(w.draft.head())
	g := &derivedMoves{made: map[plumbing.Hash]treecache.Tip{}, result: shown}
	g.addObjects(made.ObjectSet)
	for _, p := range due {
		if err := g.addCommitOf(p, w.Message.ForDerived(p.Derived, shown.Commit)); err != nil {
			return nil, err
		}
	}
	for _, name := range tree.Removable(w.Remove, at, &g.result) {
		g.moves = append(g.moves, wire.RefUpdate{Branch: name, From: plumbing.NewHash(string(at[name].Commit))})
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
	g.made[commit] = treecache.Tip{Root: p.Root, Ours: true}
	g.moves = append(g.moves, wire.RefUpdate{Branch: p.Derived.Branch, From: head, To: commit, Dir: p.Derived.Dir})
	g.result.Heads[p.Derived.Branch] = hashOf(commit)
	return nil
}

// tips returns the heads of derived branches and their trees. Heads that are not cached are fetched,
// without their files.
func (w *derivedPush) tips(ctx context.Context, conv *wire.Conn) (map[string]tree.BranchTip, error) {
	cache, known := w.host.caches.Get(w.repo), map[plumbing.Hash]treecache.Tip{}
	var missing []plumbing.Hash
	for _, name := range w.Branches() {
		head, there := conv.Branch(name)
		if _, again := known[head]; again || !there {
			continue
		}
		tip, ok := cache.Tip(head)
		if known[head] = tip; !ok {
			missing = append(missing, head)
		}
	}
	for some := range slices.Chunk(missing, derivedAtOnce) {
		found, err := fetch.Tips(ctx, w.host.client, w.repo, some)
		if err != nil {
			return nil, err
		}
		cache.AddTips(found)
		maps.Copy(known, found)
	}
	at := map[string]tree.BranchTip{}
	for _, name := range w.Branches() {
		if head, there := conv.Branch(name); there {
			at[name] = tree.BranchTip{Commit: hashOf(head), Root: known[head].Root, Ours: known[head].Ours}
		}
	}
	return at, nil
}
