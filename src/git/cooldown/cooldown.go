// Package cooldown leaves failing repositories alone for a while. Backoff is the random, growing wait before a
// repeated try: that of the cooldowns, and of package batch between two tries of a commit.
package cooldown

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options are how long a repository is left alone that is down, refuses the credential or
// throttles: about First after the first failure, doubled after each further one. Zero values mean
// the defaults given here.
type Options struct {
	First       time.Duration // 1 s
	Longest     time.Duration // 15 min; a server may ask for more
	Interactive time.Duration // least time between two tries for interactive jobs; 10 s
}

func (o Options) withDefaults() Options {
	o.First = cmp.Or(max(0, o.First), time.Second)
	o.Longest = max(o.First, cmp.Or(max(0, o.Longest), 15*time.Minute))
	o.Interactive = cmp.Or(max(0, o.Interactive), 10*time.Second)
	return o
}

// Repos holds the failing repositories. Credentials are part of the key: a wrong one does not
// delay the others. Make it with New.
type Repos struct {
	opt Options

	mu     sync.Mutex
	byRepo map[git.Repo]*outage // guarded by mu
}

// outage is the failure of one repository; guarded by Repos.mu.
type outage struct {
	failures int
	last     time.Time // of the tries
	until    time.Time
	cause    error
}

// New returns a Repos without failing repositories.
func New(o Options) *Repos {
	return &Repos{opt: o.withDefaults(), byRepo: map[git.Repo]*outage{}}
}

// Check returns the error of a repository that must be left alone now; nil for others. Where somebody
// asked and waits, a try may come earlier, but not within the time that a throttling server asked for.
func (s *Repos) Check(r git.Repo, asked bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, one := time.Now(), s.byRepo[r]
	if one == nil || !one.until.After(now) {
		return nil
	}
	if asked && !errs.Is(one.cause, errs.Throttled) && now.Sub(one.last) >= s.opt.Interactive {
		return nil
	}
	return &errs.Error{
		Kind: errs.KindOf(one.cause), After: one.until.Sub(now),
		Err: fmt.Errorf("%w (tried %d times, again in %s)", one.cause, one.failures, one.until.Sub(now).Round(time.Second)),
	}
}

// Record notes the outcome of a try: nil for one that succeeded. Errors that concern only what was
// asked for, such as NotFound, count as success.
func (s *Repos) Record(r git.Repo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isOutage(err) {
		delete(s.byRepo, r)
		return
	}
	now, one := time.Now(), s.byRepo[r]
	if one == nil {
		s.forgetLocked(now)
		one = &outage{}
		s.byRepo[r] = one
	}
	one.failures++
	one.last, one.cause = now, err
	one.until = now.Add(max(Backoff(s.opt.First, one.failures, s.opt.Longest), errs.RetryAfter(err)))
}

// forgetLocked drops repositories that nothing was submitted for since long after their cooldown.
func (s *Repos) forgetLocked(now time.Time) {
	for r, one := range s.byRepo {
		if now.Sub(one.until) > s.opt.Longest {
			delete(s.byRepo, r)
		}
	}
}

// Failing reports whether the last try of a repository failed.
func (s *Repos) Failing(r git.Repo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byRepo[r] != nil
}

// Count returns how many repositories are left alone now.
func (s *Repos) Count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, one := range s.byRepo {
		if one.until.After(now) {
			n++
		}
	}
	return n
}

// Until returns until when a repository is left alone; zero if it is not.
func (s *Repos) Until(r git.Repo) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.byRepo[r]; one != nil && one.until.After(time.Now()) {
		return one.until
	}
	return time.Time{}
}

// isOutage reports whether an error is about the repository rather than what was asked for.
func isOutage(err error) bool {
	return errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Unauthorized) || errs.Is(err, errs.Throttled)
}

// Backoff returns a random wait before try n: between a quarter and all of base doubled n-1 times,
// at most most.
func Backoff(base time.Duration, n int, most time.Duration) time.Duration {
	limit := min(base<<min(n-1, 16), most)
	return limit/4 + rand.N(limit*3/4+1)
}
