package appcontext

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

func own(t testing.TB, s *Store, holder string, ttl time.Duration) *shards.Ownership {
	t.Helper()
	o, err := s.Own(t.Context(), "all", holder, ttl)
	must(t, err)
	t.Cleanup(func() { must(t, o.Release(context.Background())) })
	return o
}

func TestEveryWriteOfAFencedStoreIsFenced(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "1")
	b, err := s.PutBundle(ctx, Bundle{})
	must(t, err)
	o := own(t, s, "old", time.Minute)
	view := s.Fenced(o.Fence())
	h, err = view.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(1, b)))
	must(t, err)
	must(t, view.PutBlobs(ctx, content("old")))
	sweepAll(t, view, 1)
	must(t, o.Release(ctx))
	must(t, s.PutBlobs(ctx, content("garbage")))
	before := keysBelow(t, s, "")

	_, stepped := view.ChangeHead(ctx, h, h, nil, nil)
	_, published := view.Publish(ctx, h, Revision{Number: 2}, slices.Values(places(3, b)))
	_, swept := view.Sweep(ctx, 1)
	for name, err := range map[string]error{
		"Step": stepped, "Publish": published, "Delete": view.Delete(ctx, "1"), "Remove": view.Remove(ctx, h), "Sweep": swept,
		"RecordCommit": view.RecordCommit(ctx, "1", 1, RevisionCommit{}), "AddEvents": view.AddEvents(ctx, Event{UID: "1"}),
		"PutBlobs": view.PutBlobs(ctx, content("new")), "PutPairs": view.PutPairs(ctx, Fence{}, []Pair{{Key: pairKeyOf(1)}}, nil),
	} {
		if !errors.Is(err, ErrFenced) || !errs.Is(err, errs.Conflict) {
			t.Errorf("%s: got %v, want it fenced", name, err)
		}
	}
	if after := keysBelow(t, s, ""); !slices.Equal(before, after) {
		t.Errorf("keys are %q, want %q", after, before)
	}
	if s.Fenced(Fence{}) != s {
		t.Error("the zero fence makes another store")
	}
}
