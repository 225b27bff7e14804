package batch

import (
	"fmt"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Cooldown says how long a repository is left alone whose server is down, refuses the
// credential or throttles: about First after the first time, twice as long after each
// further one. Zero values mean the defaults given here.
type Cooldown struct {
	First       time.Duration // 1 s
	Longest     time.Duration // 15 min; a server that asks for more gets it
	Interactive time.Duration // least time between two tries for who is waiting; 10 s
}

func (r Cooldown) withDefaults() Cooldown {
	r.First = positive(r.First, time.Second)
	r.Longest = max(r.First, positive(r.Longest, 15*time.Minute))
	r.Interactive = positive(r.Interactive, 10*time.Second)
	return r
}

// outages knows which repositories are out of order. A repository with another credential is
// another one: what is wrong with one does not hold up the other.
type outages struct {
	opt Cooldown

	mu     sync.Mutex
	byRepo map[git.Repo]*outage
}

// outage is the trouble with a repository.
type outage struct {
	failures int
	last     time.Time // of the tries
	until    time.Time
	cause    error
}

func newOutages(o Cooldown) *outages { return &outages{opt: o, byRepo: map[git.Repo]*outage{}} }

// check returns why a repository is not tried now. The time that a server has asked for
// holds for those who wait as well.
func (s *outages) check(r git.Repo, asked bool) error {
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

// record takes in what became of a try.
func (s *outages) record(r git.Repo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isOutage(err) {
		delete(s.byRepo, r)
		return
	}
	now, one := time.Now(), s.byRepo[r]
	if one == nil {
		s.forget(now)
		one = &outage{}
		s.byRepo[r] = one
	}
	one.failures++
	one.last, one.cause = now, err
	one.until = now.Add(max(backoff(s.opt.First, one.failures, s.opt.Longest), errs.RetryAfter(err)))
}

// forget drops those that nobody has tried for long after their rest was over.
func (s *outages) forget(now time.Time) {
	for r, one := range s.byRepo {
		if now.Sub(one.until) > s.opt.Longest {
			delete(s.byRepo, r)
		}
	}
}

// failing says whether a repository was out of order when it was tried last.
func (s *outages) failing(r git.Repo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byRepo[r] != nil
}

func (s *outages) count(now time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byRepo {
		if one.until.After(now) {
			n++
		}
	}
	return n
}

// isOutage says whether an error is about the repository and not about what was written.
func isOutage(err error) bool {
	switch {
	case err == nil, waitsForMerge(err):
		return false
	case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Unauthorized), errs.Is(err, errs.Throttled):
		return true
	}
	return false
}
