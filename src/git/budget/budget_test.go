package budget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

func repo(name string) git.Repo {
	return git.Repo{URL: "https://github.com/org/" + name + ".git", User: "u", Token: "secret-token", Provider: "github"}
}

// spender notes when what was spent.
type spender struct {
	*budget.Budget
	mu    sync.Mutex
	times []time.Time
}

func (s *spender) spend(ctx context.Context, r git.Repo, c git.Cost) error {
	err := s.Spend(ctx, r, c)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.times = append(s.times, time.Now())
	}
	return err
}

// most returns how many were spent in the busiest span of a length.
func (s *spender) most(span time.Duration) (most int) {
	slices.SortFunc(s.times, time.Time.Compare)
	for i, from := 0, 0; i < len(s.times); i++ {
		for s.times[i].Sub(s.times[from]) >= span {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// No span of a period holds more than the limit, however the spending falls.
func TestTWdNoMoreThanTheRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cost   git.Cost
		period time.Duration
		limit  int
		least  int // calls that an eager caller gets
	}{
		{"calls that make content", git.Cost{Calls: 1, Content: 1}, time.Minute, 48, 36},
		{"the same, an hour", git.Cost{Calls: 1, Content: 1}, time.Hour, 300, 299},
		{"pushes", git.Cost{Pushes: 1}, time.Minute, 6, 6},
		{"reads by Git's protocol", git.Cost{Reads: 1}, time.Second, 9, 7},
		{"points", git.Cost{Calls: 1, Points: 5}, time.Minute, 108, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &spender{Budget: budget.New(budget.Options{})}
				ctx, cancel := context.WithTimeout(t.Context(), 3*tt.period)
				defer cancel()
				var wg sync.WaitGroup
				for i := range uint64(4) {
					wg.Go(func() {
						random := rand.New(rand.NewPCG(i, 0)) //nolint:gosec // the same pauses in each run
						for s.spend(ctx, repo("a"), tt.cost) == nil {
							if random.IntN(10) == 0 {
								time.Sleep(time.Duration(random.Int64N(int64(tt.period / 10)))) //nolint:forbidigo // of a bubble's clock
							}
						}
					})
				}
				wg.Wait()
				if got := s.most(tt.period); got > tt.limit || got < tt.least {
					t.Errorf("%d in the busiest %s, want %d to %d", got, tt.period, tt.least, tt.limit)
				}
			})
		})
	}
}

func TestWhoIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		repo git.Repo
		want budget.Rates
	}{
		{"GitHub's own interface", git.Repo{URL: "http://127.0.0.1:80/o/r.git", Provider: "github"}, budget.GitHub()},
		{"Git's protocol at GitHub", git.Repo{URL: "https://GitHub.com/o/r.git"}, budget.GitHub()},
		{"GitHub as scp writes it", git.Repo{URL: "git@github.com:o/r.git"}, budget.GitHub()},
		{"GitHub by ssh", git.Repo{URL: "ssh://git@ssh.github.com:443/o/r.git"}, budget.GitHub()},
		{"GitLab", git.Repo{URL: "https://gitlab.com/o/r.git"}, budget.GitLab()},
		{"GitLab's own interface", git.Repo{URL: "https://git.example.org/o/r.git", Provider: "gitlab"}, budget.GitLab()},
		{"an own server", git.Repo{URL: "https://git.example.org/github.com/r.git"}, budget.Rates{}},
		{"a folder", git.Repo{URL: "file:///srv/fleet.git"}, budget.Rates{}},
	} {
		if got := budget.Published(tt.repo); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Nothing is spent before the time that a server named, by no repository of the
// credential; others go on.
func TestH52NothingIsSpentBeforeTheServersTime(t *testing.T) {
	t.Parallel()
	call := git.Cost{Calls: 1}
	for _, tt := range []struct {
		name  string
		learn func(now time.Time) git.RateStatus
		wait  time.Duration
	}{
		{"retry after", func(now time.Time) git.RateStatus { return git.RateStatus{Until: now.Add(90 * time.Second)} }, 90 * time.Second},
		{"no calls left", func(now time.Time) git.RateStatus {
			return git.RateStatus{Limit: 5000, Reset: now.Add(20 * time.Minute)}
		}, 20 * time.Minute},
		{"calls left", func(now time.Time) git.RateStatus {
			return git.RateStatus{Limit: 5000, Remaining: 1, Reset: now.Add(20 * time.Minute)}
		}, 0},
		{"a period that is over", func(now time.Time) git.RateStatus { return git.RateStatus{Limit: 5000, Reset: now.Add(-time.Second)} }, 0},
		{"nothing", func(time.Time) git.RateStatus { return git.RateStatus{} }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, start := budget.New(budget.Options{}), time.Now()
				b.Observe(repo("a"), tt.learn(start))
				other := repo("b")
				other.Token = "another"
				for _, r := range []git.Repo{other, repo("b")} {
					if err := b.Spend(t.Context(), r, call); err != nil {
						t.Fatal(err)
					}
					want := tt.wait
					if r.Token == other.Token {
						want = 0
					}
					if got := time.Since(start); got != want {
						t.Errorf("waited %s with token %q, want %s", got, r.Token.Reveal(), want)
					}
				}
			})
		})
	}
}

// Credentials that differ in any part have budgets of their own.
func TestCredentialsHaveTheirOwnBudgets(t *testing.T) {
	t.Parallel()
	one := git.Repo{
		URL: "https://github.com/org/a.git", Provider: "github", User: "u", Token: "t", SSHKey: "k", ClientCert: "c",
		App: git.App{ID: "1", Installation: 2},
	}
	for part, change := range map[string]func(r *git.Repo){
		"user": func(r *git.Repo) { r.User = "v" }, "token": func(r *git.Repo) { r.Token = "u" }, "ssh key": func(r *git.Repo) { r.SSHKey = "l" },
		"client certificate": func(r *git.Repo) { r.ClientCert = "d" }, "app": func(r *git.Repo) { r.App.ID = "3" },
		"installation": func(r *git.Repo) { r.App.Installation = 4 }, "server": func(r *git.Repo) { r.URL = "https://git.example.org/org/a.git" },
	} {
		synctest.Test(t, func(t *testing.T) {
			b, start := budget.New(budget.Options{}), time.Now()
			b.Observe(one, git.RateStatus{Until: start.Add(time.Hour)})
			other := one
			change(&other)
			if err := b.Spend(t.Context(), other, git.Cost{Calls: 1}); err != nil || time.Since(start) > 0 {
				t.Errorf("another %s: %v after %s, want it at once", part, err, time.Since(start))
			}
		})
	}
}

// Answers overtake each other: of two times to come back the later one holds.
func TestTheLaterTimeToComeBackHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := budget.New(budget.Options{}), time.Now()
		for _, wait := range []time.Duration{time.Minute, 10 * time.Minute, time.Second, 5 * time.Minute} {
			b.Observe(repo("a"), git.RateStatus{Until: start.Add(wait)})
		}
		if err := b.Spend(t.Context(), repo("b"), git.Cost{Calls: 1}); err != nil || time.Since(start) != 10*time.Minute {
			t.Errorf("%v after %s, want it after 10m", err, time.Since(start))
		}
	})
}

// What a server counts goes before what we do: its answers come in any order.
func TestCallsLeftAreCountedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := budget.New(budget.Options{}), time.Now()
		reset := start.Add(10 * time.Minute)
		for _, left := range []int{4, 3, 5} {
			b.Observe(repo("a"), git.RateStatus{Limit: 5000, Remaining: left, Reset: reset})
		}
		for range 3 {
			if err := b.Spend(t.Context(), repo("a"), git.Cost{Calls: 1}); err != nil || time.Since(start) > 0 {
				t.Fatalf("%v after %s", err, time.Since(start))
			}
		}
		if err := b.Spend(t.Context(), repo("a"), git.Cost{Calls: 1}); err != nil || time.Since(start) != 10*time.Minute {
			t.Errorf("the fourth: %v after %s, want it when the period ends", err, time.Since(start))
		}
	})
}

func TestWaitsThatAreTooLongAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := budget.New(budget.Options{}), time.Now()
		push := git.Cost{Pushes: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 2 { // one goes now, one in 10 s
			wg.Go(func() {
				if err := b.Spend(ctx, repo("a"), push); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		err := b.Spend(ctx, repo("a"), push)
		if !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != 20*time.Second || time.Since(start) > 0 {
			t.Errorf("third push: %v, to come back after %s; want Throttled for 20s, at once", err, errs.RetryAfter(err))
		}
		if err := b.Spend(ctx, repo("b"), push); err != nil {
			t.Errorf("another repository: %v", err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the error holds the credential: %v", err)
		}
		wg.Wait()
	})
}

// A wait ends as soon as it cannot finish before its deadline.
func TestAWaitThatBecomesTooLongEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := budget.New(budget.Options{Rates: func(git.Repo) budget.Rates { return budget.Rates{CallsMinute: 1} }}), time.Now()
		call := git.Cost{Calls: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := b.Spend(ctx, repo("a"), call); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- b.Spend(ctx, repo("a"), call) }()
		synctest.Wait()
		b.Observe(repo("b"), git.RateStatus{Until: start.Add(5 * time.Minute)})
		if err := <-done; !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != 5*time.Minute || time.Since(start) > 0 {
			t.Errorf("%v after %s, want Throttled for 5m at once", err, time.Since(start))
		}
	})
}

// A repository with many requests does not delay one with few, and reads do not wait for
// writes.
func TestRepositoriesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, start := budget.New(budget.Options{}), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		write := git.Cost{Calls: 1, Points: 5, Content: 1}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { _ = b.Spend(ctx, repo("greedy"), write) })
		}
		synctest.Wait()
		if err := b.Spend(ctx, repo("modest"), git.Cost{Calls: 1, Points: 1}); err != nil || time.Since(start) > 0 {
			t.Errorf("reading: %v after %s, want it at once", err, time.Since(start))
		}
		if err := b.Spend(ctx, repo("modest"), write); err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("writing: %v after %s, want one of the next turns", err, time.Since(start))
		}
		cancel()
		wg.Wait()
	})
}

// A canceled waiter returns its tokens.
func TestACanceledWaiterReturnsItsTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rates := func(git.Repo) budget.Rates { return budget.Rates{CallsMinute: 1, PushesMinute: 1} }
		b := budget.New(budget.Options{Rates: rates})
		if err := b.Spend(t.Context(), repo("a"), git.Cost{Calls: 1}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Spend(ctx, repo("b"), git.Cost{Calls: 1, Pushes: 1}) }() // has its push, waits for the call
		synctest.Wait()
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("after its caller left: %v", err)
		}
		start := time.Now()
		if err := b.Spend(t.Context(), repo("b"), git.Cost{Pushes: 1}); err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %s, want the push that was given back at once", err, time.Since(start))
		}
	})
}

// Idle credentials and repositories are forgotten.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{})
		for n := range 5000 {
			r := repo(fmt.Sprint(n))
			r.Token = git.Secret(fmt.Sprint("token", n))
			b.Observe(r, git.RateStatus{Until: time.Now().Add(time.Minute)})
			if err := b.Spend(t.Context(), r, git.Cost{Calls: 1, Content: 1, Pushes: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.Size(); got > 400 {
			t.Errorf("%d gates are remembered of 5,000 repositories, a minute apart; want those of the last hour, about", got)
		}
	})
}

func BenchmarkSpend(b *testing.B) {
	own := budget.New(budget.Options{})
	r := git.Repo{URL: "https://git.example.org/fleet.git", Token: "t"}
	for b.Loop() {
		if err := own.Spend(b.Context(), r, git.Cost{Calls: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// What is left of a limit is what can be spent without a wait, and it is full again when the budget says.
func TestWhatIsLeftIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Options{})
		pushes, calls := b.Remaining(repo("a"))
		if pushes != (budget.Standing{Remaining: 1, Of: 1}) || calls.Remaining != calls.Of || !calls.Full.IsZero() || b.Size() != 0 {
			t.Errorf("before anything was spent: %+v, %+v, and %d are remembered", pushes, calls, b.Size())
		}
		if pushes, calls := b.Remaining(git.Repo{URL: "https://git.example.org/a.git"}); pushes != (budget.Standing{}) || calls != (budget.Standing{}) {
			t.Errorf("a server without limits: %+v, %+v", pushes, calls)
		}
		if err := b.Spend(t.Context(), repo("a"), git.Cost{Pushes: 1, Content: 10}); err != nil {
			t.Fatal(err)
		}
		pushes, after := b.Remaining(repo("a"))
		if pushes.Remaining != 0 || !pushes.Full.Equal(time.Now().Add(10*time.Second)) {
			t.Errorf("after a push: %+v at %s", pushes, time.Now())
		}
		if after.Of != 12 || after.Remaining != 2 {
			t.Errorf("the limit on content is nearest to its end, 2 of 12: %+v", after)
		}
		if other, shared := b.Remaining(repo("b")); other.Remaining != 1 || shared != after {
			t.Errorf("another repository of the credential: %+v, %+v", other, shared)
		}
		time.Sleep(time.Until(pushes.Full))
		if pushes, _ = b.Remaining(repo("a")); pushes != (budget.Standing{Remaining: 1, Of: 1}) {
			t.Errorf("after it is full again: %+v", pushes)
		}
		b.Observe(repo("a"), git.RateStatus{Limit: 5000, Remaining: 1, Reset: time.Now().Add(time.Hour)})
		if _, calls = b.Remaining(repo("a")); calls.Remaining != 1 || !calls.Full.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("as the server counts: %+v", calls)
		}
		b.Observe(repo("a"), git.RateStatus{Until: time.Now().Add(time.Minute)})
		if _, calls = b.Remaining(repo("a")); calls.Remaining != 0 || !calls.Full.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("while the server wants a pause: %+v", calls)
		}
	})
}
