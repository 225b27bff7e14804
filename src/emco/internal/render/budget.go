package render

import (
	"context"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
)

// Budget keeps the slow apps of one revision from delaying its other apps. Slow apps are
// rendered when no other app of the revision needs a rendering any longer: one after the
// other, those that ran out of time before last, and none after one of them ran out of time.
type Budget struct {
	turns *fairshare.Shares // one permit, which the apps that are not slow hold together

	mu        sync.Mutex
	pending   map[string]bool // apps that are neither rendered nor slow; guarded by mu
	freshDone func()          // releases the permit of these; guarded by mu
	spent     string          // the app that ran out of time; guarded by mu
	wasted    int             // short renderings that did not suffice; guarded by mu
}

// NewBudget returns the budget of a revision with these apps. Each of them must be reported
// with Done, even if it needs no rendering.
func NewBudget(apps ...string) *Budget {
	b := &Budget{turns: fairshare.New(fairshare.Options{Permits: 1}), pending: make(map[string]bool, len(apps))}
	for _, app := range apps {
		b.pending[app] = true
	}
	if len(apps) > 0 {
		b.freshDone, _ = b.turns.Acquire(context.Background(), "", fairshare.Fresh) // the permit is free
	}
	return b
}

// Done reports that an app needs no rendering any longer.
func (b *Budget) Done(app string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaveLocked(app)
}

// leaveLocked takes an app out of those that are not slow.
func (b *Budget) leaveLocked(app string) {
	if !b.pending[app] {
		return
	}
	delete(b.pending, app)
	if len(b.pending) == 0 {
		b.freshDone()
	}
}

// Waste counts a short rendering that did not suffice.
func (b *Budget) Waste() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wasted++
}

// Wasted returns how many short renderings did not suffice so far.
func (b *Budget) Wasted() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wasted
}

// Begin waits until a slow app may be rendered. If another app has run out of time, it
// returns that app's name, and the slow app must not be rendered. Otherwise the caller must
// call end once.
func (b *Budget) Begin(ctx context.Context, app string, rank fairshare.Rank) (end func(ranOut bool), spentBy string, err error) {
	if b == nil {
		return func(bool) {}, "", nil
	}
	release, err := b.turn(ctx, app, rank)
	if err != nil {
		return nil, "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent != "" {
		release()
		return nil, b.spent, nil
	}
	return func(ranOut bool) {
		if ranOut {
			b.mu.Lock()
			b.spent = app
			b.mu.Unlock()
		}
		release()
	}, "", nil
}

// turn waits for the turn of a slow app. The app queues before it leaves those that are not
// slow, so that the turns go by rank.
func (b *Budget) turn(ctx context.Context, app string, rank fairshare.Rank) (release func(), err error) {
	wait := b.turns.Enqueue("", rank)
	b.Done(app)
	return wait(ctx)
}
