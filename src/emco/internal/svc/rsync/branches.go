package rsync

import (
	"context"
	"errors"
	"log/slog"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/git"
)

// branches knows what was written to Git branches, for all shards of a process.
type branches struct {
	*followed[route.Branch, appcontext.Branch]
	store *appcontext.Store
	log   *slog.Logger
}

func newBranches(store *appcontext.Store, log *slog.Logger) *branches {
	return &branches{newFollowed[route.Branch](func(r appcontext.Branch) int64 { return r.Mod }), store, log}
}

// run follows what is known until ctx ends.
func (b *branches) run(ctx context.Context) {
	for e, err := range b.store.WatchBranches(ctx) {
		at := route.Branch{URL: e.Branch.URL, Name: e.Branch.Name}
		switch {
		case err != nil:
			b.log.Error("what was written to a branch cannot be read", "err", err)
		case e.Synced:
			b.complete()
		case e.Forgotten:
			b.drop(at, e.Branch)
		default:
			b.keep(at, e.Branch)
		}
	}
}

// base returns the commit that a branch must hold, "" if there is none.
func (b *branches) base(ctx context.Context, at route.Branch) (git.Hash, error) {
	r, err := b.get(ctx, at)
	if err != nil {
		return "", errs.E(errs.Unavailable, "read", "branch "+at.Name+" of "+at.URL, err)
	}
	return git.Hash(r.Commit), nil
}

// landed remembers a commit that was put on a branch.
func (b *branches) landed(ctx context.Context, own appcontext.Fence, at route.Branch, commit git.Hash) error {
	return b.change(ctx, own, at, func(r *appcontext.Branch) { r.Commit = string(commit) })
}

// renewed remembers that all that is desired was made due anew, after the history was
// adopted for the n-th time.
func (b *branches) renewed(ctx context.Context, own appcontext.Fence, at route.Branch, n int64) error {
	return b.change(ctx, own, at, func(r *appcontext.Branch) { r.Renewed = max(r.Renewed, n) })
}

func (b *branches) change(ctx context.Context, own appcontext.Fence, at route.Branch, how func(*appcontext.Branch)) error {
	r, _ := b.now(at)
	for {
		r.URL, r.Name = at.URL, at.Name
		how(&r)
		next, err := b.store.PutBranch(ctx, own, r)
		if err == nil {
			b.keep(at, next)
			return nil
		}
		if errors.Is(err, appcontext.ErrFenced) || !errs.Is(err, errs.Conflict) {
			return err
		}
		if r, err = b.store.Branch(ctx, at.URL, at.Name); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
}

// forget forgets a branch on which nothing of ours is left: what becomes of it is not our
// concern any more.
func (b *branches) forget(ctx context.Context, own appcontext.Fence, at route.Branch) error {
	r, known := b.now(at)
	if !known {
		return nil
	}
	err := b.store.ForgetBranch(ctx, own, r)
	if err == nil {
		b.drop(at, r)
	}
	return err
}

// adopted waits until the history of a branch of a shard was adopted, and what is
// desired there is to be written anew. It returns false when ctx ends.
func (b *branches) adopted(ctx context.Context, shard int) (appcontext.Branch, bool) {
	return b.await(ctx, func(r appcontext.Branch) bool { return r.Adopted > r.Renewed && shardOf(r) == shard })
}

// shardOf is the shard that writes a branch.
func shardOf(r appcontext.Branch) int { return route.Branch{URL: r.URL, Name: r.Name}.Shard() }
