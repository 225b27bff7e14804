package plain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Bounds of one exchange: branches, and bytes.
const (
	perExchange   = 32
	exchangeBytes = 64 << 20
)

// heads is the name space of branches.
const headsPrefix = "refs/heads/"

// Branches lists branches and fetches some of them.
func (h *Host) Branches(ctx context.Context, r git.Repo, prefix string, want func(string, git.Hash) bool, limit git.Limit) (map[string]git.Branch, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	found, names := listed(c, prefix)
	names = slices.DeleteFunc(names, func(name string) bool { return !want(name, found[name].Commit) })
	b := &branchFetch{h: h, r: r, limit: limit, first: c, found: found}
	defer b.close()
	for some := range slices.Chunk(names, perExchange) {
		if err := b.fetch(ctx, some); err != nil {
			return nil, h.fail(ctx, r, "fetch", err)
		}
	}
	return found, nil
}

// listed returns the branches of an advertisement, and their names in order.
func listed(c *serviceConn, prefix string) (map[string]git.Branch, []string) {
	found := map[string]git.Branch{}
	var names []string
	for ref, id := range c.refs.References {
		name, ok := strings.CutPrefix(ref, headsPrefix)
		if ok && strings.HasPrefix(name, prefix) {
			found[name] = git.Branch{Commit: git.Hash(id.String())}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return found, names
}

// branchFetch fetches the files of branches.
type branchFetch struct {
	h     *Host
	r     git.Repo
	limit git.Limit
	first *serviceConn // that listed them; serves the first exchange, and further ones over http
	asked bool
	found map[string]git.Branch
}

func (b *branchFetch) close() {
	if b.first != nil {
		b.first.close(true)
	}
}

// conn returns the open conversation, or a new one.
func (b *branchFetch) conn(ctx context.Context) (*serviceConn, error) {
	c := b.first
	switch {
	case c == nil:
		return b.h.open(ctx, b.r, uploadPack)
	case !c.reusable():
		b.first = nil
	case b.asked: // a new advertisement for each exchange would cost more than the fetch
		if err := b.h.opt.Budget.Spend(ctx, b.r, git.Cost{Reads: 1}); err != nil {
			return nil, err
		}
	}
	b.asked = true
	return c, nil
}

// fetch fetches branches together. If one of them makes that fail, each is fetched alone, so that
// only that one fails.
func (b *branchFetch) fetch(ctx context.Context, names []string) error {
	err := b.exchange(ctx, names)
	if !errs.Is(err, errs.TooLarge) && !errs.Is(err, errs.NotFound) {
		return err
	}
	if len(names) == 1 {
		b.set(names[0], nil, err)
		return nil
	}
	for _, name := range names {
		if err := b.fetch(ctx, []string{name}); err != nil {
			return err
		}
	}
	return nil
}

func (b *branchFetch) set(name string, files map[string][]byte, err error) {
	at := b.found[name]
	at.Files, at.Err = files, err
	b.found[name] = at
}

// exchange fetches the commits of branches, without their history, and collects their files.
func (b *branchFetch) exchange(ctx context.Context, names []string) (err error) {
	c, err := b.conn(ctx)
	if err != nil {
		return err
	}
	defer func() { c.close(err == nil) }()
	q := fetchRequest{shallow: true, maxBlob: b.limit.Object}
	for _, name := range names {
		if id := plumbing.NewHash(string(b.found[name].Commit)); !slices.Contains(q.want, id) {
			q.want = append(q.want, id)
		}
	}
	held := map[plumbing.Hash]gitObject{}
	p := &packReader{
		keep:      func(o gitObject) { held[o.id] = o },
		wantBlobs: true, maxObject: b.limit.Object, budget: exchangeBytes,
	}
	if _, err := b.h.receive(ctx, c, q, p); err != nil {
		return b.h.fail(ctx, b.r, "fetch", err)
	}
	for _, name := range names {
		w := fileWalk{held: held, files: map[string][]byte{}, left: b.limit.Files, filtered: c.has(capability.Filter)}
		err := w.commit(plumbing.NewHash(string(b.found[name].Commit)))
		if err != nil {
			err = b.h.fail(ctx, b.r, "fetch", err)
			w.files = nil
		}
		b.set(name, w.files, err)
	}
	return nil
}

// fileWalk collects the files of a commit from the objects of a pack.
type fileWalk struct {
	held     map[plumbing.Hash]gitObject
	files    map[string][]byte
	left     int // files and directories that the limit still allows
	filtered bool
}

var errTooMany = errs.E(errs.TooLarge, "fetch", "", errors.New("the branch holds too many files"))

func (w *fileWalk) commit(id plumbing.Hash) error {
	o, ok := w.held[id]
	if !ok || o.kind != plumbing.CommitObject {
		return errs.E(errs.Invalid, "fetch", "", errors.New("the branch does not point at a commit"))
	}
	root, ok := rootOf(o.content)
	if !ok {
		return malformed("a commit")
	}
	return w.tree(root, "", 0)
}

func (w *fileWalk) tree(id plumbing.Hash, path string, depth int) error {
	o, ok := w.held[id]
	if id == emptyTree {
		return nil
	}
	if !ok || o.kind != plumbing.TreeObject || depth > tree.MaxDepth {
		return malformed("a tree")
	}
	entries, err := tree.Decode(o.content)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.left--; w.left < 0 {
			return errTooMany
		}
		if err := w.entry(e, tree.Join(path, e.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *fileWalk) entry(e tree.Entry, path string, depth int) error {
	switch {
	case e.IsTree():
		return w.tree(plumbing.Hash(e.ID), path, depth+1)
	case !e.IsFile():
		return nil
	}
	o, ok := w.held[plumbing.Hash(e.ID)]
	switch {
	case !ok && w.filtered: // the server left it out because of its size
		return errs.E(errs.TooLarge, "fetch", "", fmt.Errorf("file %q is above the limit", path))
	case !ok || o.kind != plumbing.BlobObject:
		return malformed("a tree")
	}
	w.files[path] = o.content
	return nil
}
