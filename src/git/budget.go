package git

import (
	"context"
	"time"
)

// Budget limits requests per credential and per repository.
// Implementations allow concurrent use.
type Budget interface {
	// Spend waits until c may be spent, with the credential of r or to its repository. If that is after the deadline of ctx, it
	// returns Throttled with the time to come back, at once. If ctx ends while it waits, it returns
	// the error of ctx.
	Spend(ctx context.Context, r Repo, c Cost) error
	// Observe records what a server reported about the credential of r.
	Observe(r Repo, s RateStatus)
}

// Cost is what an exchange takes from a budget. Hosts spend for what they send. Pushes are the
// exception: package batch spends them in the guard of a message, which every host calls right
// before it moves a branch.
type Cost struct {
	Calls   int // of the provider's interface
	Points  int // weights of the provider's calls: with GitHub reading 1, writing 5
	Content int // calls that make commits, trees, references, pull requests or comments
	Pushes  int // to the repository
	Reads   int // of the repository by Git's protocol
}

// RateStatus is what a server reports about the remaining budget of a credential.
type RateStatus struct {
	Limit, Remaining int       // calls of this period; both 0: not reported
	Reset            time.Time // when the period ends
	Until            time.Time // when calls are allowed again; zero: now
}

// Unlimited is a budget without limits.
type Unlimited struct{}

// Spend does not wait.
func (Unlimited) Spend(context.Context, Repo, Cost) error { return nil }

// Observe does nothing.
func (Unlimited) Observe(Repo, RateStatus) {}
