package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// breaking is a host that fails for some of its repositories.
type breaking struct {
	*memory
	mu    sync.Mutex
	why   map[git.Repo]error
	tries map[git.Repo]int
}

func (b *breaking) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	b.mu.Lock()
	b.tries[r]++
	err := b.why[r]
	b.mu.Unlock()
	if err != nil {
		return "", err
	}
	return b.memory.Head(ctx, r, branch)
}

// Broken repositories are tried less and less often, however often callers ask. Repositories with
// other credentials still work, and a repaired one is used again.
func TestH51H52BrokenRepositoriesRest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		most int // tries in a day of asking once a minute
	}{
		{"refused credentials", errs.New(errs.Unauthorized, "401"), 250},
		{"nothing but 5xx", errs.New(errs.Unavailable, "502"), 260},
		{"a throttle for a minute", errs.Throttle("push", "", time.Minute, errors.New("429")), 400},
		{"a throttle for an hour", errs.Throttle("push", "", time.Hour, errors.New("429")), 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad, good := repo, repo
				bad.Token = "expired"
				h := &breaking{memory: newMemory(time.Millisecond), why: map[git.Repo]error{bad: tt.err}, tries: map[git.Repo]int{}}
				w := batch.New(h, batch.Options{})
				defer w.Close()
				for n := range 24 * 60 {
					j := job(file("good", fmt.Sprint(n)))
					j.Repo = good
					start := time.Now()
					if _, err := w.Submit(t.Context(), j); err != nil || time.Since(start) > time.Second {
						t.Fatalf("the good one, after %d: %v, took %s", n, err, time.Since(start))
					}
					j = job(file("bad", fmt.Sprint(n)))
					j.Repo, j.Branch = bad, "other"
					_, err := w.Submit(t.Context(), j)
					if !errs.Is(err, errs.KindOf(tt.err)) || !errors.Is(err, tt.err) {
						t.Fatalf("the bad one: %v, want %v", err, tt.err)
					}
					if after := errs.RetryAfter(err); after > time.Hour {
						t.Fatalf("to come back after %s", after)
					}
					time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
				}
				if got := h.tries[bad]; got > tt.most {
					t.Errorf("tried %d times a day, want at most %d", got, tt.most)
				}
				h.mu.Lock()
				delete(h.why, bad)
				h.mu.Unlock()
				j := job(file("bad", "mended"))
				j.Repo, j.Branch = bad, "other"
				for {
					_, err := w.Submit(t.Context(), j)
					if err == nil {
						break
					}
					time.Sleep(errs.RetryAfter(err)) //nolint:forbidigo // of the bubble's clock
				}
				if w.CoolingDown() != 0 {
					t.Error("it still rests")
				}
			})
		})
	}
}

// A waiting caller may retry before the cooldown ends, unless the server has set a delay.
func TestARestIsBrokenForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &breaking{memory: newMemory(time.Millisecond), why: map[git.Repo]error{repo: errs.New(errs.Unauthorized, "401")}, tries: map[git.Repo]int{}}
		w := batch.New(h, batch.Options{})
		defer w.Close()
		j := job(file("f", "x"))
		for range 12 {
			_, err := w.Submit(t.Context(), j)
			time.Sleep(errs.RetryAfter(err)) //nolint:forbidigo // of the bubble's clock
		}
		_, _ = w.Submit(t.Context(), j)
		delete(h.why, repo)
		before := h.tries[repo]
		j.Interactive = true
		if _, err := w.Submit(t.Context(), j); !errs.Is(err, errs.Unauthorized) || h.tries[repo] != before {
			t.Errorf("at once: %v after %d tries, want the error before", err, h.tries[repo]-before)
		}
		time.Sleep(11 * time.Second) //nolint:forbidigo // of the bubble's clock
		if _, err := w.Submit(t.Context(), j); err != nil {
			t.Errorf("after a moment: %v", err)
		}
	})
}
