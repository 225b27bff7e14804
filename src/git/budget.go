package git

import (
	"context"
	"time"
)

// Budget bounds what is asked of servers in the name of a credential: all its
// repositories share it. Implementations may be called by several goroutines at once.
type Budget interface {
	// Spend waits until the credential of r may do what costs c. It returns Throttled, with
	// the time to come back, at once if that is later than ctx ends, and the error of ctx
	// if that ends while it waits.
	Spend(ctx context.Context, r Repo, c Cost) error
	// Learn takes in what a server said about the credential of r.
	Observe(r Repo, s RateStatus)
}

// Cost is what an exchange takes from a budget. Hosts spend for what they send. Pushes are
// the exception: package batch spends them when a host asks the guard of a message, which
// is right before a branch is moved, whatever the host.
type Cost struct {
	Calls   int // of the provider's interface
	Points  int // by which the provider weighs calls: reading 1, writing 5 with GitHub
	Content int // calls that make commits, trees, references, pull requests or comments
	Pushes  int // to the repository
	Reads   int // of the repository by Git's protocol
}

// RateStatus is what a server says of what is left to a credential.
type RateStatus struct {
	Limit, Remaining int       // calls of this period; both 0: it did not say
	Reset            time.Time // when the period ends
	Until            time.Time // not to be called again before; zero: it may be called
}

// Unlimited is the budget without bounds.
type Unlimited struct{}

// Spend does not wait.
func (Unlimited) Spend(context.Context, Repo, Cost) error { return nil }

// Observe forgets what it is told.
func (Unlimited) Observe(Repo, RateStatus) {}
