package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	maxHaves = 8  // known commits that a fetch offers the server
	maxHeads = 16 // branches that are searched for a blob which cannot be asked for by name
)

// errIncomplete is the error of a pack that lacks objects which it should hold, given what we have.
// A fetch of everything follows.
var errIncomplete = errs.E(errs.Unavailable, "receive", "", errors.New("the server sent an incomplete tree"))

// snapshot returns the trees of a commit, from memory or from the server. At most one fetch per
// repository runs at a time; waiting calls look into the cache again first.
func (h *Host) snapshot(ctx context.Context, r git.Repo, commit plumbing.Hash) (commitTrees, error) {
	k := h.repo(r)
	if s, ok := k.find(commit); ok {
		return s, nil
	}
	select {
	case k.fetcher <- struct{}{}:
		defer func() { <-k.fetcher }()
	case <-ctx.Done():
		return commitTrees{}, h.fail(ctx, r, "fetch", ctx.Err())
	}
	if s, ok := k.find(commit); ok {
		return s, nil
	}
	store, commits := k.state()
	s, trees, err := h.fetchTrees(ctx, r, commit, store, haves(commits))
	if errors.Is(err, errIncomplete) && len(commits) > 0 {
		h.opt.Log.LogAttrs(ctx, slog.LevelDebug, "fetching all trees again", slog.String("repo", r.URL))
		s, trees, err = h.fetchTrees(ctx, r, commit, store, nil)
	}
	if err != nil {
		return commitTrees{}, h.fail(ctx, r, "fetch", err)
	}
	for id, raw := range trees {
		store.add(id, raw)
	}
	k.adopt(s, h.opt.MaxTrees)
	return s, nil
}

// adopt caches a fetched commit, unless the store was swept meanwhile.
func (k *repoCache) adopt(s commitTrees, limit int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.store == k.store {
		k.remember(s, limit)
	}
}

// haves names the most recently used commits, newest first.
func haves(commits []commitTrees) []plumbing.Hash {
	var ids []plumbing.Hash
	for _, s := range slices.Backward(commits) {
		if len(ids) < maxHaves {
			ids = append(ids, s.commit)
		}
	}
	return ids
}

// fetchRequest is a request to upload-pack.
type fetchRequest struct {
	want    []plumbing.Hash
	have    []plumbing.Hash // commits whose trees we hold, without their history
	shallow bool            // just the wanted commits, not their history
	noBlobs bool            // if the server can filter

	maxBlob     int64 // leave out larger files, if the server can filter; 0 for no limit
	commitsOnly bool  // if the server can filter
	depth       int   // so many commits of history, if not 0
}

// filter is the object filter of the request, "" without one.
func (q fetchRequest) filter() string {
	switch {
	case q.commitsOnly:
		return "tree:0"
	case q.noBlobs:
		return "blob:none"
	case q.maxBlob > 0:
		return fmt.Sprintf("blob:limit=%d", q.maxBlob+1) // Git leaves out what has at least that
	}
	return ""
}

// deepen is how many commits of history are requested, 0 for all.
func (q fetchRequest) deepen() int {
	if q.shallow {
		return 1
	}
	return q.depth
}

// body returns the request: wants with capabilities, where our history is cut, the depth, the
// filter, a flush, the haves and "done".
func (q fetchRequest) body(c *serviceConn) (body *bytes.Buffer, deepened bool) {
	body = &bytes.Buffer{}
	line := pktline.NewEncoder(body)
	caps := q.capabilities(c)
	for _, id := range q.want {
		_ = line.Encodef("want %s%s\n", id, caps)
		caps = ""
	}
	deepened = q.deepen() > 0 && c.has(capability.Shallow)
	if deepened {
		for _, id := range q.have {
			if !q.commitsOnly { // a log needs nothing from before these commits
				_ = line.Encodef("shallow %s\n", id)
			}
		}
		_ = line.Encodef("deepen %d\n", q.deepen())
	}
	if f := q.filter(); f != "" && c.has(capability.Filter) {
		_ = line.Encodef("filter %s\n", f)
	}
	_ = line.Flush()
	for _, id := range q.have {
		_ = line.Encodef("have %s\n", id)
	}
	_ = line.EncodeString("done\n")
	return body, deepened
}

func (q fetchRequest) capabilities(c *serviceConn) string {
	caps := " " + agentCapability
	for _, name := range []capability.Capability{
		capability.MultiACKDetailed, capability.Sideband64k, capability.NoProgress,
	} {
		if c.has(name) {
			caps += " " + name.String()
		}
	}
	if len(q.have) > 0 && !q.commitsOnly && c.has(capability.ThinPack) {
		caps += " " + capability.ThinPack.String() // else the server sends trees that we have
	}
	if q.filter() != "" && c.has(capability.Filter) {
		caps += " " + capability.Filter.String()
	}
	return caps
}

// receive sends a request and reads the pack of the reply. Limits of p that are zero default to
// those of the host.
func (h *Host) receive(ctx context.Context, c *serviceConn, q fetchRequest, p *packReader) (unresolved int, err error) {
	body, deepened := q.body(c)
	reply, err := c.exchange(ctx, bytes.NewReader(body.Bytes()), int64(body.Len()))
	if err != nil {
		return 0, err
	}
	p.maxObject, p.budget = orDefault(p.maxObject, h.opt.MaxBlob), orDefault(p.budget, h.opt.MaxFetch)
	in := &limitedReader{r: reply, limit: min(h.opt.MaxFetch, p.budget)}
	defer func() { h.received.Add(uint64(in.n)) }()
	h.fetches.Add(1)
	r := buffered(in)
	if deepened {
		err = shallowLines(r)
	}
	if err == nil {
		err = ackLines(r)
	}
	if err != nil {
		return 0, c.explain(err)
	}
	if !c.has(capability.Sideband64k) {
		return p.read(r)
	}
	band := newSideband(r)
	if unresolved, err = p.read(band); err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, band) // to the flush at the end
	return unresolved, err
}

func orDefault(n, otherwise int64) int64 {
	if n > 0 {
		return n
	}
	return otherwise
}

// fetchTrees fetches a commit and those of its trees that are neither in store nor implied by have.
func (h *Host) fetchTrees(ctx context.Context, r git.Repo, commit plumbing.Hash, store *treeStore, have []plumbing.Hash) (s commitTrees, trees map[plumbing.Hash][]byte, err error) {
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return s, nil, err
	}
	defer func() { c.close(err == nil) }()
	s = commitTrees{commit: commit, store: store}
	trees = map[plumbing.Hash][]byte{}
	found := false
	p := &packReader{
		base: store.object,
		keep: func(o gitObject) {
			switch {
			case o.kind == plumbing.TreeObject:
				trees[o.id] = o.content
			case o.kind == plumbing.CommitObject && o.id == commit:
				s.root, found = rootOf(o.content)
			}
		},
	}
	q := fetchRequest{want: []plumbing.Hash{commit}, have: have, shallow: true, noBlobs: true}
	unresolved, err := h.receive(ctx, c, q, p)
	switch {
	case err != nil:
		return s, nil, err
	case unresolved > 0 && c.has(capability.Filter):
		return s, nil, errIncomplete
	case !found && len(have) == 0:
		return s, nil, errs.E(errs.NotFound, "fetch", "", errors.New("not a commit"))
	case !found || !complete(s.root, trees, store):
		return s, nil, errIncomplete
	}
	return s, trees, nil
}

// object returns a tree as a base of deltas.
func (s *treeStore) object(id plumbing.Hash) (gitObject, bool) {
	raw, ok := s.get(id)
	return gitObject{kind: plumbing.TreeObject, id: id, content: raw}, ok
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

// complete reports whether all trees below root are there. The store is complete already, so only
// new trees are read.
func complete(root plumbing.Hash, trees map[plumbing.Hash][]byte, store *treeStore) bool {
	seen := map[plumbing.Hash]bool{}
	stack := []plumbing.Hash{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		raw, isNew := trees[id]
		if !isNew {
			if _, ok := store.get(id); !ok {
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

// fetchBlob fetches one object by name. A server that hands out only what branches point at is
// asked for all branches instead.
func (h *Host) fetchBlob(ctx context.Context, r git.Repo, id plumbing.Hash) ([]byte, error) {
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	reachable, tip := c.has(capability.AllowReachableSHA1InWant), c.has(capability.AllowTipSHA1InWant)
	if reachable || tip {
		content, err := h.pickBlob(ctx, c, fetchRequest{want: []plumbing.Hash{id}}, id)
		c.close(err == nil)
		if err == nil || reachable && tip { // both: any object may be asked for
			return content, h.blobError(ctx, r, err)
		}
		if c, err = h.open(ctx, r, uploadPack); err != nil {
			return nil, err
		}
	}
	heads := branchTips(c)
	if len(heads) == 0 {
		c.close(true)
		return nil, h.blobError(ctx, r, errNoBlob)
	}
	content, err := h.pickBlob(ctx, c, fetchRequest{want: heads, shallow: true}, id)
	c.close(err == nil)
	return content, h.blobError(ctx, r, err)
}

var errNoBlob = errs.E(errs.NotFound, "blob", "", errors.New("no such file content"))

func (h *Host) blobError(ctx context.Context, r git.Repo, err error) error {
	return h.fail(ctx, r, "blob", err)
}

// pickBlob fetches and returns one blob of the pack.
func (h *Host) pickBlob(ctx context.Context, c *serviceConn, q fetchRequest, id plumbing.Hash) ([]byte, error) {
	var content []byte
	found := false
	p := &packReader{
		wantBlobs: true,
		keep: func(o gitObject) {
			if o.id == id && o.kind == plumbing.BlobObject {
				content, found = o.content, true
			}
		},
	}
	if _, err := h.receive(ctx, c, q, p); err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoBlob
	}
	return content, nil
}

// branchTips returns the heads of the branches, in order of their names.
func branchTips(c *serviceConn) []plumbing.Hash {
	var names []string
	for name := range c.refs.References {
		if plumbing.ReferenceName(name).IsBranch() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var ids []plumbing.Hash
	for _, name := range names {
		if id := c.refs.References[name]; len(ids) < maxHeads && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
