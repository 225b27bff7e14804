package batch

import (
	"fmt"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cooldown is how long a repository is left alone that is down, refuses the credential or
// throttles: about First after the first failure, doubled after each further one. Zero values mean
// the defaults given here.
type Cooldown struct {
	First       time.Duration // 1 s
	Longest     time.Duration // 15 min; a server may ask for more
	Interactive time.Duration // least time between two tries for interactive jobs; 10 s
}

func (r Cooldown) withDefaults() Cooldown {
	r.First = positive(r.First, time.Second)
	r.Longest = max(r.First, positive(r.Longest, 15*time.Minute))
	r.Interactive = positive(r.Interactive, 10*time.Second)
	return r
}

// repoOutages holds the failing repositories. Credentials are part of the key: a wrong one does not
// delay the others.
type repoOutages struct {
	opt Cooldown

	mu     sync.Mutex
	byRepo map[git.Repo]*repoOutage
}

// repoOutage is the failure of one repository; guarded by outages.mu.
type repoOutage struct {
	failures int
	last     time.Time // of the tries
	until    time.Time
	cause    error
}

func newOutages(o Cooldown) *repoOutages {
	return &repoOutages{opt: o, byRepo: map[git.Repo]*repoOutage{}}
}

// check returns the error of a repository that must be left alone now. The time that a throttling
// server asked for also holds for interactive jobs.
func (s *repoOutages) check(r git.Repo, asked bool) error {
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

// record notes the outcome of a try.
func (s *repoOutages) record(r git.Repo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isOutage(err) {
		delete(s.byRepo, r)
		return
	}
	now, one := time.Now(), s.byRepo[r]
	if one == nil {
		s.forget(now)
		one = &repoOutage{}
		s.byRepo[r] = one
	}
	one.failures++
	one.last, one.cause = now, err
	one.until = now.Add(max(backoff(s.opt.First, one.failures, s.opt.Longest), errs.RetryAfter(err)))
}

// forget drops repositories that nothing was submitted for since long after their cooldown.
func (s *repoOutages) forget(now time.Time) {
	for r, one := range s.byRepo {
		if now.Sub(one.until) > s.opt.Longest {
			delete(s.byRepo, r)
		}
	}
}

// failing reports whether the last try of a repository failed.
func (s *repoOutages) failing(r git.Repo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byRepo[r] != nil
}

func (s *repoOutages) count(now time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byRepo {
		if one.until.After(now) {
			n++
		}
	}
	return n
}

// isOutage reports whether an error is about the repository rather than the edits.
func isOutage(err error) bool {
	switch {
	case err == nil, waitsForMerge(err):
		return false
	case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Unauthorized), errs.Is(err, errs.Throttled):
		return true
	}
	return false
}
