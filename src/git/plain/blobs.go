package plain

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Blobs reads several files at once. If one of them makes the exchange fail, each is read alone.
func (h *Host) Blobs(ctx context.Context, r git.Repo, ids []git.Hash, limit int64) (map[git.Hash][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	b := &blobFetch{h: h, r: r, limit: limit, found: map[git.Hash][]byte{}}
	for some := range slices.Chunk(ids, perExchange) {
		want := make([]plumbing.Hash, len(some))
		for i, id := range some {
			var err error
			if want[i], err = parseHash(id); err != nil {
				return nil, err
			}
		}
		if err := b.fetch(ctx, want); err != nil {
			return nil, h.fail(ctx, r, "blobs", err)
		}
	}
	return b.found, nil
}

// blobFetch fetches files.
type blobFetch struct {
	h     *Host
	r     git.Repo
	limit int64
	found map[git.Hash][]byte
}

func (b *blobFetch) fetch(ctx context.Context, ids []plumbing.Hash) error {
	err := b.exchange(ctx, ids)
	if !errs.Is(err, errs.TooLarge) && !errs.Is(err, errs.NotFound) {
		return err
	}
	for _, id := range ids {
		if len(ids) == 1 {
			return nil // this file causes the error, and is left out
		}
		if err := b.fetch(ctx, []plumbing.Hash{id}); err != nil {
			return err
		}
	}
	return nil
}

// exchange fetches objects by name. A server that hands out only what branches point at is asked
// for all branches, without files above the limit.
func (b *blobFetch) exchange(ctx context.Context, ids []plumbing.Hash) (err error) {
	c, err := b.h.open(ctx, b.r, uploadPack)
	if err != nil {
		return err
	}
	defer func() { c.close(err == nil) }()
	q := fetchRequest{want: ids}
	if !c.has(capability.AllowReachableSHA1InWant) {
		q = fetchRequest{want: branchTips(c), shallow: true, maxBlob: b.limit}
		if len(q.want) == 0 {
			return nil
		}
	}
	p := &packReader{
		keep: func(o gitObject) {
			if o.kind == plumbing.BlobObject && int64(len(o.content)) <= b.limit && slices.Contains(ids, o.id) {
				b.found[git.Hash(o.id.String())] = o.content
			}
		},
		wantBlobs: true, maxObject: b.limit, budget: exchangeBytes,
	}
	_, err = b.h.receive(ctx, c, q, p)
	return b.h.fail(ctx, b.r, "blobs", err)
}
