package rsync

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git"
)

// branch names a branch of a repository.
type branch struct{ url, name string }

// branches knows what was written to Git branches, for all shards of a process.
type branches struct {
	store *appcontext.Store
	log   *slog.Logger

	mu     sync.Mutex
	known  map[branch]appcontext.Branch
	synced bool
	moved  chan struct{} // closed, and replaced, when something has changed
}

func newBranches(store *appcontext.Store, log *slog.Logger) *branches {
	return &branches{store: store, log: log, known: map[branch]appcontext.Branch{}, moved: make(chan struct{})}
}

// run follows what is known until ctx ends.
func (b *branches) run(ctx context.Context) {
	for e, err := range b.store.WatchBranches(ctx) {
		if err != nil {
			b.log.Error("what was written to a branch cannot be read", "err", err)
			continue
		}
		b.take(e)
	}
}

func (b *branches) take(e appcontext.BranchEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Synced:
		b.synced = true
	case e.Forgotten:
		b.drop(e.Branch)
	default:
		b.keep(e.Branch)
	}
	close(b.moved)
	b.moved = make(chan struct{})
}

// keep remembers what is newer than what is known.
func (b *branches) keep(r appcontext.Branch) {
	at := branch{r.URL, r.Name}
	if r.Mod > b.known[at].Mod {
		b.known[at] = r
	}
}

// drop forgets what is older than its end.
func (b *branches) drop(r appcontext.Branch) {
	at := branch{r.URL, r.Name}
	if r.Mod > b.known[at].Mod {
		delete(b.known, at)
	}
}

// base returns the commit that a branch must hold, "" if there is none.
func (b *branches) base(ctx context.Context, at branch) (git.Hash, error) {
	for {
		b.mu.Lock()
		synced, moved, r := b.synced, b.moved, b.known[at]
		b.mu.Unlock()
		if synced {
			return git.Hash(r.Commit), nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return "", errs.E(errs.Unavailable, "read", "branch "+at.name+" of "+at.url, ctx.Err())
		}
	}
}

// landed remembers a commit that was put on a branch.
func (b *branches) landed(ctx context.Context, own appcontext.Fence, at branch, commit git.Hash) error {
	return b.change(ctx, own, at, func(r *appcontext.Branch) { r.Commit = string(commit) })
}

// renewed remembers that all that is desired was made due anew, after the history was
// adopted for the n-th time.
func (b *branches) renewed(ctx context.Context, own appcontext.Fence, at branch, n int64) error {
	return b.change(ctx, own, at, func(r *appcontext.Branch) { r.Renewed = max(r.Renewed, n) })
}

func (b *branches) change(ctx context.Context, own appcontext.Fence, at branch, how func(*appcontext.Branch)) error {
	b.mu.Lock()
	r := b.known[at]
	b.mu.Unlock()
	for {
		r.URL, r.Name = at.url, at.name
		how(&r)
		next, err := b.store.PutBranch(ctx, own, r)
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.keep(next)
			return nil
		}
		if errors.Is(err, appcontext.ErrFenced) || !errs.Is(err, errs.Conflict) {
			return err
		}
		if r, err = b.store.Branch(ctx, at.url, at.name); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
}

// forget forgets a branch on which nothing of ours is left: what becomes of it is not our
// concern any more.
func (b *branches) forget(ctx context.Context, own appcontext.Fence, at branch) error {
	b.mu.Lock()
	r, known := b.known[at]
	b.mu.Unlock()
	if !known {
		return nil
	}
	err := b.store.ForgetBranch(ctx, own, r)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.known[at].Mod == r.Mod {
			delete(b.known, at)
		}
	}
	return err
}

// adopted waits until the history of a branch of a shard was adopted, and what is
// desired there is to be written anew. It returns false when ctx ends.
func (b *branches) adopted(ctx context.Context, shard int) (appcontext.Branch, bool) {
	for ctx.Err() == nil {
		r, due, moved := b.due(shard)
		if due {
			return r, true
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
	return appcontext.Branch{}, false
}

func (b *branches) due(shard int) (r appcontext.Branch, due bool, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, r := range b.known {
		if r.Adopted > r.Renewed && team.Of(homeOfBranch(at.url, at.name)) == shard {
			return r, true, b.moved
		}
	}
	return appcontext.Branch{}, false, b.moved
}
