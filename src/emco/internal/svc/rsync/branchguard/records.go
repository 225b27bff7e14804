package branchguard

import (
	"context"
	"errors"
	"log/slog"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/watchcache"
	"github.com/emco-orchestrator/emco/src/git"
)

// Records are what is stored of each branch: the commit that was written last, and what
// operators decided. It is the only reader and writer of git/<hash> in rsync, except package
// api; gitwriter sees it as Branches. The shards of a process share it.
type Records struct {
	cache *watchcache.Cache[route.Branch, gitstate.Branch]
	store *appcontext.Store
	log   *slog.Logger
}

// NewRecords returns records that are empty until Run has read them.
func NewRecords(store *appcontext.Store, log *slog.Logger) *Records {
	return &Records{watchcache.New[route.Branch](func(r gitstate.Branch) int64 { return r.Mod }), store, log}
}

// Run watches the stored records until ctx ends.
func (r *Records) Run(ctx context.Context) {
	for e, err := range r.store.WatchBranches(ctx) {
		at := branchOf(e.Branch)
		switch {
		case err != nil:
			r.log.Error("the record of a branch cannot be read", "err", err)
		case e.Synced:
			r.cache.MarkSynced()
		case e.Forgotten:
			r.cache.Delete(at, e.Branch)
		default:
			r.cache.Put(at, e.Branch)
		}
	}
}

// Base returns the commit that a branch must contain, "" if there is none.
func (r *Records) Base(ctx context.Context, at route.Branch) (git.Hash, error) {
	b, err := r.cache.Get(ctx, at)
	if err != nil {
		return "", errs.E(errs.Unavailable, "read", "branch "+at.Name+" of "+at.URL, err)
	}
	return git.Hash(b.Commit), nil
}

// SetCommit stores the commit that was written last.
func (r *Records) SetCommit(ctx context.Context, own appcontext.Fence, at route.Branch, commit git.Hash) error {
	return r.update(ctx, own, at, func(b *gitstate.Branch) { b.Commit = string(commit) })
}

// SetRewritten stores that everything on the branch is due again, after its history was
// adopted for the n-th time.
func (r *Records) SetRewritten(ctx context.Context, own appcontext.Fence, at route.Branch, n int64) error {
	return r.update(ctx, own, at, func(b *gitstate.Branch) { b.Rewritten = max(b.Rewritten, n) })
}

// SetResolved stores that the n-th decision about held edits is carried out.
func (r *Records) SetResolved(ctx context.Context, own appcontext.Fence, at route.Branch, n int64) error {
	return r.update(ctx, own, at, func(b *gitstate.Branch) { b.CarriedOut = max(b.CarriedOut, n) })
}

func (r *Records) update(ctx context.Context, own appcontext.Fence, at route.Branch, change func(*gitstate.Branch)) error {
	b, _ := r.cache.Peek(at)
	for {
		b.URL, b.Name = at.URL, at.Name
		change(&b)
		stored, err := r.store.PutBranch(ctx, own, b)
		if err == nil {
			r.cache.Put(at, stored)
			return nil
		}
		if errors.Is(err, appcontext.ErrFenced) || !errs.Is(err, errs.Conflict) {
			return err
		}
		if b, err = r.store.Branch(ctx, at.URL, at.Name); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
}

// Forget removes the record of a branch that none of our targets uses any longer.
func (r *Records) Forget(ctx context.Context, own appcontext.Fence, at route.Branch) error {
	b, known := r.cache.Peek(at)
	if !known {
		return nil
	}
	err := r.store.ForgetBranch(ctx, own, b)
	if err == nil {
		r.cache.Delete(at, b)
	}
	return err
}

// AwaitAdopted waits for a branch of a shard whose history was adopted, and on which
// everything must be written again. It returns false when ctx ends.
func (r *Records) AwaitAdopted(ctx context.Context, shard int) (gitstate.Branch, bool) {
	return r.cache.Await(ctx, func(b gitstate.Branch) bool { return b.Adopted > b.Rewritten && branchOf(b).Shard() == shard })
}

// AwaitResolution waits for a decision about held edits on a branch of a shard. It returns
// false when ctx ends.
func (r *Records) AwaitResolution(ctx context.Context, shard int) (gitstate.Branch, bool) {
	return r.cache.Await(ctx, func(b gitstate.Branch) bool { return b.Decided > b.CarriedOut && branchOf(b).Shard() == shard })
}

func branchOf(b gitstate.Branch) route.Branch { return route.Branch{URL: b.URL, Name: b.Name} }
