package plain

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// viewsAtOnce is how many commits of views are fetched in one exchange.
const viewsAtOnce = 500

// CommitViews commits, and moves views along. Where the views are is in the same
// advertisement that tells where the branch is, so that one exchange is enough as long as
// their commits are known.
func (h *Host) CommitViews(ctx context.Context, r git.Repo, s git.Showing) (git.Shown, error) {
	if err := errors.Join(git.CheckBranch(s.Branch), git.CheckEdits(s.Edits), git.CheckViews(s.Branch, s.Views), h.checkURL(r)); err != nil {
		return git.Shown{}, firstOf(err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, s.Parent, s.Edits, s.Message)
	if err != nil || d.tip().IsZero() && len(s.Gone) == 0 {
		return git.Shown{}, err
	}
	w := showing{Showing: s, host: h, repo: r, draft: d, pending: d.changes()}
	conv, err := w.open(ctx)
	if err != nil {
		return git.Shown{}, err
	}
	g, err := w.gallery(ctx, conv)
	if err != nil {
		conv.close(true)
		return git.Shown{}, h.fail(ctx, r, "show", err)
	}
	if err := w.send(ctx, conv, g); err != nil {
		return git.Shown{}, err
	}
	return g.shown, nil
}

// showing is a commit with views on its way.
type showing struct {
	git.Showing
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
	p := push{moves: g.moves, objs: g.fresh.objs, bytes: g.fresh.bytes, guard: w.Message.Guard}
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
	source  plumbing.Hash // the commit that they show
	message git.Message
	scene   scene
	fresh   *change // objects that the server may lack
	moves   []move
	made    map[plumbing.Hash]viewed
	shown   git.Shown
}

// gallery finds out which views have to move, and makes their commits.
func (w *showing) gallery(ctx context.Context, conv *conversation) (*gallery, error) {
	at, err := w.host.whereViewsAre(ctx, w.repo, conv, w.names())
	if err != nil {
		return nil, err
	}
	d := w.draft
	g := &gallery{
		source: d.tip(), scene: newScene(d),
		fresh: &change{store: d.base.store, have: d.change.have},
		made:  map[plumbing.Hash]viewed{},
		shown: git.Shown{Commit: d.head(), Views: map[string]git.Hash{}},
	}
	g.message = w.Message
	g.message.Trailers = []git.Trailer{{Key: git.SourceTrailer, Value: g.source.String()}}
	for _, v := range w.Views {
		head := conv.refs.References[heads+v.Branch]
		if err := g.show(v, head, at[head]); err != nil {
			return nil, err
		}
	}
	for _, name := range w.Gone {
		head, there := conv.refs.References[heads+name]
		g.remove(name, head, there, at[head])
	}
	slices.Sort(g.shown.Made)
	slices.Sort(g.shown.Strange)
	return g, nil
}

// names are the branches of all views.
func (w *showing) names() []string {
	out := slices.Clone(w.Gone)
	for _, v := range w.Views {
		out = append(out, v.Branch)
	}
	return out
}

// remove takes away a view that is there, and nothing else that goes by its name.
func (g *gallery) remove(name string, head plumbing.Hash, there bool, now viewed) {
	switch {
	case !there:
	case !now.ours:
		g.shown.Strange = append(g.shown.Strange, name)
	default:
		g.moves = append(g.moves, move{branch: name, from: head})
		g.shown.Removed = append(g.shown.Removed, name)
	}
}

// show makes a commit for a view, unless it shows already what it has to.
func (g *gallery) show(v git.View, head plumbing.Hash, now viewed) error {
	root, err := g.picture(v)
	if err != nil {
		return err
	}
	if !head.IsZero() && now.root == root {
		g.shown.Views[v.Branch] = git.Hash(head.String())
		return nil
	}
	switch {
	case head.IsZero():
		g.shown.Made = append(g.shown.Made, v.Branch)
	case !now.ours:
		g.shown.Strange = append(g.shown.Strange, v.Branch)
	}
	g.fresh.root, g.message.Title = root, "Show "+v.Dir
	commit, err := g.fresh.seal(head, g.message)
	if err != nil {
		return err
	}
	g.made[commit] = viewed{root: root, ours: true}
	g.moves = append(g.moves, move{branch: v.Branch, from: head, to: commit, dir: v.Dir})
	g.shown.Views[v.Branch] = git.Hash(commit.String())
	return nil
}

// picture returns the tree that holds a view's directory and nothing else. All but the
// trees above the directory are on the server already.
func (g *gallery) picture(v git.View) (plumbing.Hash, error) {
	here, err := g.scene.find(v.Dir)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if !here.isTree() {
		return g.empty(v)
	}
	names := strings.Split(v.Dir, "/")
	for _, name := range slices.Backward(names) {
		here = treeEntry(g.fresh.write([]entry{{name: name, mode: modeTree, id: here.id}}))
	}
	return here.id, nil
}

// empty returns the tree of a view of a directory that is not there.
func (g *gallery) empty(v git.View) (plumbing.Hash, error) {
	c, err := newChange(snapshot{store: newStore()}, []git.Edit{{Path: v.Dir, Dir: v.Empty}})
	if err != nil {
		return plumbing.ZeroHash, err
	}
	for _, o := range c.objs {
		g.fresh.add(o)
	}
	return c.root, nil
}

// scene is the trees of a draft, of which many views show parts.
type scene struct {
	root  plumbing.Hash
	fresh map[plumbing.Hash][]byte
	store *treeStore
	read  map[plumbing.Hash]map[string]entry
}

func newScene(d draft) scene {
	s := scene{root: d.change.root, fresh: map[plumbing.Hash][]byte{}, store: d.base.store, read: map[plumbing.Hash]map[string]entry{}}
	for _, t := range d.trees {
		s.fresh[t.id] = t.content
	}
	return s
}

// find returns what is at a path, the zero entry if there is nothing.
func (s *scene) find(path string) (entry, error) {
	here := entry{mode: modeTree, id: s.root}
	for name := range strings.SplitSeq(path, "/") {
		if !here.isTree() {
			return entry{}, nil
		}
		entries, err := s.entries(here.id)
		if err != nil {
			return entry{}, err
		}
		here = entries[name]
	}
	return here, nil
}

func (s *scene) entries(id plumbing.Hash) (map[string]entry, error) {
	if known, ok := s.read[id]; ok {
		return known, nil
	}
	raw, ok := s.fresh[id]
	if !ok {
		if raw, ok = s.store.get(id); !ok {
			return nil, errs.E(errs.Unavailable, "read", "", errors.New("a tree is missing"))
		}
	}
	entries, err := decodeTree(raw)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]entry, len(entries))
	for _, e := range entries {
		byName[e.name] = e
	}
	s.read[id] = byName
	return byName, nil
}

// whereViewsAre returns what views show now, by the commits that the server advertises.
// Those that are not known are fetched, without what they hold.
func (h *Host) whereViewsAre(ctx context.Context, r git.Repo, conv *conversation, views []string) (map[plumbing.Hash]viewed, error) {
	k, at := h.repo(r), map[plumbing.Hash]viewed{}
	var missing []plumbing.Hash
	for _, name := range views {
		head, there := conv.refs.References[heads+name]
		if _, again := at[head]; again || !there {
			continue
		}
		known, ok := k.seen(head)
		if at[head] = known; !ok {
			missing = append(missing, head)
		}
	}
	for some := range slices.Chunk(missing, viewsAtOnce) {
		found, err := h.fetchViewed(ctx, r, some)
		if err != nil {
			return nil, err
		}
		k.see(found)
		maps.Copy(at, found)
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
				source := git.Commit{Message: messageOf(o.content)}.Trailer(git.SourceTrailer)
				found[o.id] = viewed{root: root, ours: source != ""}
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
