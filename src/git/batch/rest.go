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

// rests knows which repositories are out of order. A repository with another credential is
// another one: what is wrong with one does not hold up the other.
type rests struct {
	opt Cooldown

	mu  sync.Mutex
	all map[git.Repo]*rest
}

// rest is the trouble with a repository.
type rest struct {
	fails int
	last  time.Time // of the tries
	until time.Time
	why   error
}

func newRests(o Cooldown) *rests { return &rests{opt: o, all: map[git.Repo]*rest{}} }

// check returns why a repository is not tried now. The time that a server has asked for
// holds for those who wait as well.
func (s *rests) check(r git.Repo, asked bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, one := time.Now(), s.all[r]
	if one == nil || !one.until.After(now) {
		return nil
	}
	if asked && !errs.Is(one.why, errs.Throttled) && now.Sub(one.last) >= s.opt.Interactive {
		return nil
	}
	return &errs.Error{
		Kind: errs.KindOf(one.why), After: one.until.Sub(now),
		Err: fmt.Errorf("%w (tried %d times, again in %s)", one.why, one.fails, one.until.Sub(now).Round(time.Second)),
	}
}

// learn takes in what became of a try.
func (s *rests) learn(r git.Repo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !broken(err) {
		delete(s.all, r)
		return
	}
	now, one := time.Now(), s.all[r]
	if one == nil {
		s.forget(now)
		one = &rest{}
		s.all[r] = one
	}
	one.fails++
	one.last, one.why = now, err
	one.until = now.Add(max(backoff(s.opt.First, one.fails, s.opt.Longest), errs.RetryAfter(err)))
}

// forget drops those that nobody has tried for long after their rest was over.
func (s *rests) forget(now time.Time) {
	for r, one := range s.all {
		if now.Sub(one.until) > s.opt.Longest {
			delete(s.all, r)
		}
	}
}

// again says whether a repository was out of order when it was tried last.
func (s *rests) again(r git.Repo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[r] != nil
}

func (s *rests) count(now time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.until.After(now) {
			n++
		}
	}
	return n
}

// broken says whether an error is about the repository and not about what was written.
func broken(err error) bool {
	switch {
	case err == nil, waitsForMerge(err):
		return false
	case errs.Is(err, errs.Unavailable), errs.Is(err, errs.Unauthorized), errs.Is(err, errs.Throttled):
		return true
	}
	return false
}
