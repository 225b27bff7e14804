package fetch

import (
	"context"
	"errors"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// maxHeads bounds the branches that are searched for a blob which cannot be asked for by name.
const maxHeads = 16

var errNoBlob = errs.E(errs.NotFound, "blob", "", errors.New("no such file content"))

// Blob fetches one file by name. A server that hands out only what branches point at is asked for
// all branches instead.
func Blob(ctx context.Context, client *wire.Client, r git.Repo, id plumbing.Hash) ([]byte, error) {
	c, err := client.Open(ctx, r, dial.UploadPack)
	if err != nil {
		return nil, err
	}
	reachable, tip := c.Has(capability.AllowReachableSHA1InWant), c.Has(capability.AllowTipSHA1InWant)
	if reachable || tip {
		content, err := pickBlob(ctx, c, wire.FetchRequest{Want: []plumbing.Hash{id}}, id)
		c.Close(err == nil)
		if err == nil || reachable && tip { // both: any object may be asked for
			return content, err
		}
		if c, err = client.Open(ctx, r, dial.UploadPack); err != nil {
			return nil, err
		}
	}
	heads := branchHeads(c)
	if len(heads) == 0 {
		c.Close(true)
		return nil, errNoBlob
	}
	content, err := pickBlob(ctx, c, wire.FetchRequest{Want: heads, Shallow: true}, id)
	c.Close(err == nil)
	return content, err
}

// pickBlob fetches and returns one blob of the pack.
func pickBlob(ctx context.Context, c *wire.Conn, q wire.FetchRequest, id plumbing.Hash) ([]byte, error) {
	var content []byte
	found := false
	p := &pack.Reader{
		WantBlobs: true,
		Keep: func(o pack.Object) {
			if o.ID == id && o.Kind == plumbing.BlobObject {
				content, found = o.Content, true
			}
		},
	}
	if _, err := c.Fetch(ctx, q, p); err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoBlob
	}
	return content, nil
}

// branchHeads returns the heads of branches, in order of their names.
func branchHeads(c *wire.Conn) []plumbing.Hash {
	var ids []plumbing.Hash
	for _, name := range c.Branches("") {
		if id, _ := c.Branch(name); len(ids) < maxHeads && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Blobs fetches several files at once, without those above limit bytes. If one of them makes the
// exchange fail, each is fetched alone.
func Blobs(ctx context.Context, client *wire.Client, r git.Repo, ids []plumbing.Hash, limit int64) (map[git.Hash][]byte, error) {
	b := &blobFetch{client: client, repo: r, limit: limit, found: map[git.Hash][]byte{}}
	failed := func(plumbing.Hash, error) {} // the file that causes the error is left out
	return b.found, inExchanges(ctx, ids, b.exchange, failed)
}

// blobFetch fetches files.
type blobFetch struct {
	client *wire.Client
	repo   git.Repo
	limit  int64
	found  map[git.Hash][]byte
}

// exchange fetches objects by name. A server that hands out only what branches point at is asked
// for all branches, without files above the limit.
func (b *blobFetch) exchange(ctx context.Context, ids []plumbing.Hash) (err error) {
	c, err := b.client.Open(ctx, b.repo, dial.UploadPack)
	if err != nil {
		return err
	}
	defer func() { c.Close(err == nil) }()
	q := wire.FetchRequest{Want: ids}
	if !c.Has(capability.AllowReachableSHA1InWant) {
		q = wire.FetchRequest{Want: branchHeads(c), Shallow: true, MaxBlob: b.limit}
		if len(q.Want) == 0 {
			return nil
		}
	}
	p := &pack.Reader{
		Keep: func(o pack.Object) {
			if o.Kind == plumbing.BlobObject && int64(len(o.Content)) <= b.limit && slices.Contains(ids, o.ID) {
				b.found[git.Hash(o.ID.String())] = o.Content
			}
		},
		WantBlobs: true, MaxObject: b.limit, MaxBytes: exchangeBytes,
	}
	_, err = c.Fetch(ctx, q, p)
	return transport.Fail(ctx, b.repo, "blobs", err)
}
