package watchcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/watchcache"
)

// state is one state of a thing, at a revision of etcd.
type state struct {
	revision int64
	text     string
}

func newCache() *watchcache.Cache[string, state] {
	return watchcache.New[string](func(s state) int64 { return s.revision })
}

func TestTheNewerStateStays(t *testing.T) {
	t.Parallel()
	c := newCache()
	c.Put("a", state{5, "own write"})
	c.Put("a", state{3, "late event"})
	if s, _ := c.Peek("a"); s.text != "own write" {
		t.Errorf("got %+v, want the newer state", s)
	}
	c.Delete("a", state{4, "late deletion"})
	if _, ok := c.Peek("a"); !ok {
		t.Error("a deletion that is older than the state removed it")
	}
	c.Delete("a", state{5, "own write"})
	if s, ok := c.Peek("a"); ok {
		t.Errorf("got %+v after the deletion", s)
	}
}

func TestReadersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache()
		got, found := make(chan state), make(chan state)
		go func() {
			s, _ := c.Get(t.Context(), "a")
			got <- s
		}()
		go func() {
			s, _ := c.Await(t.Context(), func(s state) bool { return s.text == "due" })
			found <- s
		}()
		c.Put("a", state{1, "first"})
		synctest.Wait()
		select {
		case s := <-got:
			t.Errorf("Get returned %+v before the cache was synced", s)
		case s := <-found:
			t.Errorf("Await returned %+v, which does not match", s)
		default:
		}
		c.MarkSynced()
		if s := <-got; s.text != "first" {
			t.Errorf("Get returned %+v", s)
		}
		c.Put("b", state{2, "due"})
		if s := <-found; s.revision != 2 {
			t.Errorf("Await returned %+v", s)
		}
	})
}

func TestReadersEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newCache()
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v, want the context's error", err)
	}
	if _, ok := c.Await(ctx, func(state) bool { return true }); ok {
		t.Error("Await found something")
	}
}
