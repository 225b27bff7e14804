package readpoint_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
)

func TestPoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := readpoint.With(t.Context())
		p := readpoint.Of(ctx)
		want := func(what string, at int64) (turn int) {
			t.Helper()
			got, turn := p.At()
			if got != at {
				t.Errorf("%s: the read point is %d, want %d", what, got, at)
			}
			return turn
		}
		turn := want("at first", 0)
		p.Take(5, turn)
		want("after an answer", 5)
		p.Take(3, turn)
		want("after an older answer", 5)
		time.Sleep(200 * time.Millisecond)
		p.Raise(7)
		turn = want("after something newer was seen", 7)
		time.Sleep(50 * time.Millisecond)
		want("when it is old", 0)
		p.Take(6, turn)
		turn = want("after an answer that is older than what was seen", 7)
		readpoint.Drop(ctx)
		want("after a drop", 0)
		p.Take(9, turn)
		want("after an answer to a question from before the drop", 0)
		p.Take(8, want("after a drop", 0))
		want("after an answer", 9)
	})
}

func TestContexts(t *testing.T) {
	t.Parallel()
	ctx := readpoint.With(t.Context())
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if p := readpoint.Of(ctx); p == nil || readpoint.Of(inner) != p || readpoint.Of(readpoint.With(ctx)) == p {
		t.Error("a request does not have one read point, or another request has the same")
	}
	if readpoint.Of(t.Context()) != nil || readpoint.Of(readpoint.Without(inner)) != nil {
		t.Error("a context without a read point has one")
	}
	readpoint.Drop(t.Context()) // does nothing
}
