package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Branches lists the branches whose names start with prefix, and fetches the files of those that
// want accepts.
func Branches(ctx context.Context, client *wire.Client, r git.Repo, prefix string, want func(string, git.Hash) bool, limit git.Limit) (map[string]git.Branch, error) {
	c, err := client.Open(ctx, r, dial.UploadPack)
	if err != nil {
		return nil, err
	}
	defer c.Close(true)
	b := &branchFetch{client: client, repo: r, limit: limit, first: c, found: map[string]git.Branch{}}
	var names []string
	for _, name := range c.Branches(prefix) {
		id, _ := c.Branch(name)
		at := git.Hash(id.String())
		b.found[name] = git.Branch{Commit: at}
		if want(name, at) {
			names = append(names, name)
		}
	}
	failed := func(name string, err error) { b.set(name, nil, err) }
	return b.found, inExchanges(ctx, names, b.exchange, failed)
}

// branchFetch fetches the files of branches.
type branchFetch struct {
	client *wire.Client
	repo   git.Repo
	limit  git.Limit
	first  *wire.Conn // that listed them; serves the first exchange, and further ones over http
	asked  bool
	found  map[string]git.Branch
}

// conn returns the open conversation, since a new advertisement for each exchange would cost more
// than the fetch; or a new one where the server takes only one request.
func (b *branchFetch) conn(ctx context.Context) (*wire.Conn, error) {
	if !b.asked {
		b.asked = true
		return b.first, nil
	}
	if again, err := b.first.Again(ctx); again || err != nil {
		return b.first, err
	}
	return b.client.Open(ctx, b.repo, dial.UploadPack)
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
	defer func() { c.Close(err == nil) }()
	q := wire.FetchRequest{Shallow: true, MaxBlob: b.limit.Object}
	for _, name := range names {
		if id := b.head(name); !slices.Contains(q.Want, id) {
			q.Want = append(q.Want, id)
		}
	}
	held := map[plumbing.Hash]pack.Object{}
	p := &pack.Reader{
		Keep:      func(o pack.Object) { held[o.ID] = o },
		WantBlobs: true, MaxObject: b.limit.Object, MaxBytes: exchangeBytes,
	}
	if _, err := c.Fetch(ctx, q, p); err != nil {
		return transport.Fail(ctx, b.repo, "fetch", err)
	}
	for _, name := range names {
		w := fileWalk{held: held, files: map[string][]byte{}, left: b.limit.Files, filtered: c.Has(capability.Filter)}
		err := w.commit(b.head(name))
		if err != nil {
			err = transport.Fail(ctx, b.repo, "fetch", err)
			w.files = nil
		}
		b.set(name, w.files, err)
	}
	return nil
}

func (b *branchFetch) head(name string) plumbing.Hash {
	return plumbing.NewHash(string(b.found[name].Commit))
}

// fileWalk collects the files of a commit from the objects of a pack.
type fileWalk struct {
	held     map[plumbing.Hash]pack.Object
	files    map[string][]byte
	left     int // files and directories that the limit still allows
	filtered bool
}

var errTooMany = errs.E(errs.TooLarge, "fetch", "", errors.New("the branch holds too many files"))

func (w *fileWalk) commit(id plumbing.Hash) error {
	o, ok := w.held[id]
	if !ok || o.Kind != plumbing.CommitObject {
		return errs.E(errs.Invalid, "fetch", "", errors.New("the branch does not point at a commit"))
	}
	root, ok := rootOf(o.Content)
	if !ok {
		return transport.Malformed("a commit")
	}
	return w.tree(root, "", 0)
}

func (w *fileWalk) tree(id plumbing.Hash, path string, depth int) error {
	o, ok := w.held[id]
	if id == plumbing.Hash(tree.Empty) {
		return nil
	}
	if !ok || o.Kind != plumbing.TreeObject || depth > tree.MaxDepth {
		return transport.Malformed("a tree")
	}
	entries, err := tree.Decode(o.Content)
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
	case !ok || o.Kind != plumbing.BlobObject:
		return transport.Malformed("a tree")
	}
	w.files[path] = o.Content
	return nil
}
