package budget_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

// allowance stores as etcd does: as text, and for one process at a time.
type allowance struct {
	mu       sync.Mutex
	stored   map[string][]byte // guarded by mu
	all      string            // of credentials that are not stored
	requests int               // guarded by mu
	writes   int               // guarded by mu
	down     error             // guarded by mu
	delay    time.Duration
}

func (a *allowance) Change(ctx context.Context, credential string, change func(*budget.SharedTokens) bool) error {
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	if a.down != nil {
		return a.down
	}
	var l budget.SharedTokens
	if text := cmp.Or(string(a.stored[credential]), a.all); text != "" {
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return err
		}
	}
	if !change(&l) {
		return nil
	}
	text, err := json.Marshal(l)
	if a.stored == nil {
		a.stored = map[string][]byte{}
	}
	a.stored[credential] = text
	a.writes++
	return err
}

func (a *allowance) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = err
}

// processes returns budgets that share an allowance and note together what they spend.
func processes(t *testing.T, n int, a *allowance, rates budget.Rates) (all []*budget.Budget, together *spender) {
	for range n {
		b := budget.New(budget.Options{Allowance: a, Rates: func(git.Repo) budget.Rates { return rates }})
		t.Cleanup(func() { _ = b.Close() })
		all = append(all, b)
	}
	return all, &spender{}
}

// Processes together never spend more than a limit within any span of its period, and eager ones
// at least nine tenths of it, with a request to the allowance for many costs.
func TestProcessesShareALimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cost   git.Cost
		rates  budget.Rates
		limit  int
		period time.Duration
		idle   time.Duration // between two costs of a process
		writes int           // at the most, in three periods
	}{
		{"calls an hour", git.Cost{Calls: 1}, budget.Rates{CallsHour: 3000}, 3000, time.Hour, 0, 900},
		{"calls a minute", git.Cost{Calls: 1}, budget.Rates{CallsMinute: 1200}, 1200, time.Minute, 0, 900},
		{"content a minute", git.Cost{Calls: 1, Content: 1}, budget.GitHub(), 48, time.Minute, 0, 400},
		{"points", git.Cost{Calls: 1, Points: 5}, budget.Rates{PointsMinute: 540}, 108, time.Minute, 0, 900},
		{"one at a time", git.Cost{Calls: 1}, budget.Rates{CallsMinute: 3}, 3, time.Minute, 0, 400},
		{"with pauses", git.Cost{Calls: 1}, budget.Rates{CallsMinute: 1200}, 1200, time.Minute, 400 * time.Millisecond, 1500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &allowance{delay: 2 * time.Millisecond}
				all, together := processes(t, 5, a, tt.rates)
				ctx, cancel := context.WithTimeout(t.Context(), 3*tt.period)
				defer cancel()
				var wg sync.WaitGroup
				for i, b := range all {
					for range 4 {
						wg.Go(func() {
							for b.Spend(ctx, repo(fmt.Sprint(i)), tt.cost) == nil {
								together.mu.Lock()
								together.times = append(together.times, time.Now())
								together.mu.Unlock()
								time.Sleep(tt.idle) //nolint:forbidigo // of a bubble's clock
							}
						})
					}
				}
				wg.Wait()
				least := tt.limit * 9 / 10
				if tt.idle > 0 || tt.limit < 8 {
					least = tt.limit / 3
				}
				got := together.most(tt.period)
				if got > tt.limit || got < least {
					t.Errorf("%d in the busiest %s, want %d to %d", got, tt.period, least, tt.limit)
				}
				if a.writes > tt.writes {
					t.Errorf("%d writes for %d costs, want at most %d", a.writes, len(together.times), tt.writes)
				}
				t.Logf("%d reads, %d writes for %d costs; %d in the busiest %s", a.requests, a.writes, len(together.times), got, tt.period)
			})
		})
	}
}

// A process that is alone has as much as one that shares nothing, but for what it cannot save up.
func TestAProcessAloneIsNotSlower(t *testing.T) {
	t.Parallel()
	var took [2]time.Duration
	for i, a := range []*allowance{nil, {}} {
		synctest.Test(t, func(t *testing.T) {
			o := budget.Options{}
			if a != nil {
				o.Allowance = a
			}
			b, start := budget.New(o), time.Now()
			defer b.Close()
			for range 2000 {
				if err := b.Spend(t.Context(), repo("a"), git.Cost{Calls: 1, Points: 1}); err != nil {
					t.Fatal(err)
				}
			}
			took[i] = time.Since(start)
		})
		if a != nil {
			t.Logf("%d requests", a.requests)
		}
		if a != nil && a.requests > 250 {
			t.Errorf("%d requests for 2,000 calls", a.requests)
		}
	}
	if took[1] > took[0]*112/100 {
		t.Errorf("2,000 calls took %s, and %s without an allowance", took[1], took[0])
	}
}

// An answer of the server to one process holds for the others as soon as they ask for more.
func TestTheServersTimeHoldsForAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 2, &allowance{}, budget.GitHub())
		start := time.Now()
		all[0].Observe(repo("a"), git.RateStatus{Until: start.Add(90 * time.Second)})
		synctest.Wait()
		if err := all[1].Spend(t.Context(), repo("b"), git.Cost{Calls: 1}); err != nil || time.Since(start) != 90*time.Second {
			t.Errorf("the other process: %v after %s, want it after 90s", err, time.Since(start))
		}
	})
}

// An answer of the server to one process also holds back requests that need no tokens: those of Git's own protocol,
// and those to servers without limits. The other process looks for it every five seconds.
func TestTheServersTimeHoldsWithoutTokens(t *testing.T) {
	t.Parallel()
	for name, rates := range map[string]budget.Rates{"git protocol": budget.GitHub(), "no limits": {}} {
		synctest.Test(t, func(t *testing.T) {
			a := &allowance{}
			all, _ := processes(t, 2, a, rates)
			fetch := git.Cost{Reads: 1}
			start := time.Now()
			for range 600 { // every second
				if err := all[1].Spend(t.Context(), repo("b"), fetch); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second) //nolint:forbidigo // of a bubble's clock
				if time.Since(start) == 3*time.Second {
					all[0].Observe(repo("a"), git.RateStatus{Until: start.Add(90 * time.Second)})
				}
				if since := time.Since(start); since > 11*time.Second && since < 90*time.Second {
					t.Fatalf("%s: a request began after %s, want none before 90s", name, since-time.Second)
				}
			}
			if most := 600/5 + 5; a.requests > most {
				t.Errorf("%s: %d requests in 690 s, want at most %d", name, a.requests, most)
			}
		})
	}
}

// timeBeforeStep returns t as a clock read it that was then set back.
func timeBeforeStep(t *testing.T, at time.Time, back time.Duration) time.Time {
	t.Helper()
	read := at
	(*struct{ wall uint64 })(unsafe.Pointer(&read)).wall += uint64(back/time.Second) << 30 // the monotonic reading stays
	if ahead := read.Round(0).Sub(at.Round(0)); ahead != back || !read.Equal(at) {
		t.Fatalf("the time of day is %s ahead, want %s; the monotonic reading %s, want 0", ahead, back, read.Sub(at))
	}
	return read
}

// A clock that was set back makes no process ask again and again: what the server asked for ends for the process and
// for the others at the same moment.
func TestAClockThatIsSetBackCausesNoRequests(t *testing.T) {
	t.Parallel()
	a := &allowance{delay: 2 * time.Millisecond}
	all, _ := processes(t, 1, a, budget.GitHub())
	until := timeBeforeStep(t, time.Now().Add(50*time.Millisecond), time.Second) // a bubble's clock has no monotonic reading
	all[0].Observe(repo("a"), git.RateStatus{Until: until})
	if err := all[0].Spend(t.Context(), repo("a"), git.Cost{Calls: 1}); err != nil || time.Now().Round(0).Before(until.Round(0)) {
		t.Errorf("%v at %s, want it at %s", err, time.Now(), until)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests > 4 {
		t.Errorf("%d requests, want at most 4", a.requests)
	}
}

// What a process with a wrong clock has stored stops the others no longer than any server asks for.
func TestAWrongClockStopsNoProcess(t *testing.T) {
	t.Parallel()
	ahead := 24 * time.Hour
	for _, tt := range []struct {
		name   string
		stored func(now time.Time) budget.SharedTokens
		spend  int // of 48 a minute
		most   time.Duration
	}{
		{"a server's time", func(now time.Time) budget.SharedTokens { return budget.SharedTokens{Until: now.Add(ahead)} }, 1, 0},
		{"a bucket", func(now time.Time) budget.SharedTokens {
			return budget.SharedTokens{Buckets: map[string]budget.SharedBucket{"contentMinute": {At: now.Add(ahead)}}}
		}, 36, time.Minute},
		{"a bucket that is a little ahead", func(now time.Time) budget.SharedTokens {
			return budget.SharedTokens{Buckets: map[string]budget.SharedBucket{"contentMinute": {At: now.Add(3 * time.Second)}}}
		}, 1, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			text, err := json.Marshal(tt.stored(start))
			if err != nil {
				t.Fatal(err)
			}
			a := &allowance{all: string(text)}
			all, _ := processes(t, 1, a, budget.Rates{ContentMinute: 48})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			for range tt.spend {
				if err := all[0].Spend(ctx, repo("a"), git.Cost{Content: 1}); err != nil {
					t.Fatalf("%s: %v after %s", tt.name, err, time.Since(start))
				}
			}
			if took := time.Since(start); took > tt.most+time.Second {
				t.Errorf("%s: %d costs took %s, want %s", tt.name, tt.spend, took, tt.most)
			}
			// The server's next time counts although a later one is stored.
			all[0].Observe(repo("a"), git.RateStatus{Until: time.Now().Add(time.Minute)})
			seen := time.Now()
			synctest.Wait()
			other, _ := processes(t, 1, a, budget.Rates{ContentMinute: 48})
			if err := other[0].Spend(ctx, repo("a"), git.Cost{Content: 1}); err != nil || time.Since(seen) < time.Minute {
				t.Errorf("%s: %v after %s, want it after a minute", tt.name, err, time.Since(seen))
			}
		})
	}
}

// While the allowance does not answer, a process spends its part, and then refuses; afterwards it goes on.
func TestAnAllowanceThatDoesNotAnswerRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lose func(*allowance)
		wait time.Duration
	}{
		{"an error", func(a *allowance) { a.fail(errors.New("no leader")) }, 0},
		{"silence", func(a *allowance) { a.delay = time.Hour }, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &allowance{}
			all, _ := processes(t, 1, a, budget.Rates{CallsHour: 3000})
			b, call := all[0], git.Cost{Calls: 1}
			for range 4 { // the last request took two
				if err := b.Spend(t.Context(), repo("a"), call); err != nil {
					t.Fatal(err)
				}
			}
			tt.lose(a)
			spent := 0
			start := time.Now()
			err := b.Spend(t.Context(), repo("a"), call)
			for ; err == nil; err = b.Spend(t.Context(), repo("a"), call) {
				spent++
			}
			if !errs.Is(err, errs.Unavailable) || spent != 3 || time.Since(start) != tt.wait {
				t.Errorf("%s: %v after %d calls and %s, want Unavailable after 3 and %s", tt.name, err, spent, time.Since(start), tt.wait)
			}
			if !strings.Contains(err.Error(), "several processes") || strings.Contains(err.Error(), "secret-token") {
				t.Errorf("%s: %v", tt.name, err)
			}
			before := a.requests
			for range 100 {
				if err := b.Spend(t.Context(), repo("a"), call); !errs.Is(err, errs.Unavailable) {
					t.Errorf("%s: %v", tt.name, err)
				}
			}
			if a.requests != before {
				t.Errorf("%s: %d requests within the pause after a failure", tt.name, a.requests-before)
			}
			a.fail(nil)
			a.delay = 0
			time.Sleep(time.Second) //nolint:forbidigo // of a bubble's clock
			if err := b.Spend(t.Context(), repo("a"), call); err != nil {
				t.Errorf("%s: afterwards: %v", tt.name, err)
			}
		})
	}
}

// A caller whose time ends while other processes take what is left gets the time to come back.
func TestWhatOthersHaveTakenIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 2, &allowance{}, budget.Rates{CallsMinute: 48})
		call := git.Cost{Calls: 1}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(all[1].Spend(t.Context(), repo("b"), call)) // and believes that there is more
		for range 9 {
			must(all[0].Spend(t.Context(), repo("a"), call))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := all[1].Spend(ctx, repo("b"), call); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) < time.Second {
			t.Errorf("%v, to come back after %s; want Throttled for a second or more", err, errs.RetryAfter(err))
		}
	})
}

// A cost above what can be saved up goes when that much is there, and the others wait until it is made up for.
func TestALargeCostIsMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 2, &allowance{}, budget.Rates{ContentMinute: 48})
		start := time.Now()
		if err := all[0].Spend(t.Context(), repo("a"), git.Cost{Content: 46}); err != nil || time.Since(start) > 0 {
			t.Fatalf("%v after %s, want it at once", err, time.Since(start))
		}
		if err := all[1].Spend(t.Context(), repo("b"), git.Cost{Content: 1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 55*time.Second || took > 65*time.Second {
			t.Errorf("the next one waited %s, want about a minute", took)
		}
	})
}

// Idle credentials are forgotten, also those of large costs.
func TestSharedCredentialsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 1, &allowance{}, budget.GitHub())
		for n := range 3000 {
			r := repo(fmt.Sprint(n))
			r.Token = git.Secret(fmt.Sprint("token", n))
			if err := all[0].Spend(t.Context(), r, git.Cost{Calls: 60, Content: 60}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) //nolint:forbidigo // of a bubble's clock
		}
		if got := all[0].Size(); got > 300 {
			t.Errorf("%d gates are remembered", got)
		}
	})
}
