package rsync

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// seen is one state of a thing, at a revision of etcd.
type seen struct {
	mod  int64
	text string
}

func followStates() *followed[string, seen] {
	return newFollowed[string](func(s seen) int64 { return s.mod })
}

func TestOfTwoStatesTheNewerCounts(t *testing.T) {
	t.Parallel()
	f := followStates()
	f.keep("a", seen{5, "own"})
	f.keep("a", seen{3, "heard late"})
	if s, _ := f.now("a"); s.text != "own" {
		t.Errorf("known: %+v, want the newer state", s)
	}
	f.drop("a", seen{4, "an end before the last state"})
	if _, ok := f.now("a"); !ok {
		t.Error("it is forgotten for an end that is older than what is known")
	}
	f.drop("a", seen{5, "own"})
	if s, ok := f.now("a"); ok {
		t.Errorf("known after its end: %+v", s)
	}
}

func TestWhatIsFollowedIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := followStates()
		got, found := make(chan seen), make(chan seen)
		go func() {
			s, _ := f.get(t.Context(), "a")
			got <- s
		}()
		go func() {
			s, _ := f.await(t.Context(), func(s seen) bool { return s.text == "due" })
			found <- s
		}()
		f.keep("a", seen{1, "known"})
		synctest.Wait()
		select {
		case s := <-got:
			t.Errorf("get gave %+v before all was known", s)
		case s := <-found:
			t.Errorf("await gave %+v, which does not match", s)
		default:
		}
		f.complete()
		if s := <-got; s.text != "known" {
			t.Errorf("get gave %+v", s)
		}
		f.keep("b", seen{2, "due"})
		if s := <-found; s.mod != 2 {
			t.Errorf("await gave %+v", s)
		}
	})
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := followStates()
	if _, err := f.get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v, want the context's error", err)
	}
	if _, ok := f.await(ctx, func(seen) bool { return true }); ok {
		t.Error("await found something")
	}
}
