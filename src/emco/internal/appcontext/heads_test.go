package appcontext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

func TestChangeHeadKeepsHistoryAndOperation(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	if _, err := s.Head(ctx, "7"); !errs.Is(err, errs.NotFound) {
		t.Fatalf("Head of nothing: %v, want not found", err)
	}
	h := create(t, s, "7")
	if _, err := s.ChangeHead(ctx, Head{}, Head{UID: "7"}, nil, nil); !errs.Is(err, errs.Conflict) {
		t.Errorf("creating it twice: %v, want conflict", err)
	}

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	to := h
	to.State, to.LastRev = Instantiated, 1
	acts := []HistoryEntry{{State: Approved, Time: at}, {State: Instantiated, Instance: "99", Revision: 1, Time: at}}
	h2, err := s.ChangeHead(ctx, h, to, acts, &Operation{ID: "a", Kind: "instantiate", Rev: 1})
	must(t, err)
	if h2.Seq != 3 || h2.Op == nil || h2.Op.UID != "7" {
		t.Errorf("after the step the head is %+v, want 3 actions and the operation", h2)
	}
	got, err := s.Head(ctx, "7")
	must(t, err)
	if got.Mod != h2.Mod || got.State != Instantiated || got.Document != h.Document || got.Op.ID != "a" {
		t.Errorf("Head = %+v, want %+v", got, h2)
	}
	history, err := s.History(ctx, "7")
	must(t, err)
	want := acts[1]
	want.Seq = 3
	if len(history) != 3 || history[0].State != Created || history[2] != want {
		t.Errorf("Actions = %+v, want Created and the last %+v", history, want)
	}

	// Another operation takes the place of the first one.
	h3, err := s.ChangeHead(ctx, h2, h2, nil, &Operation{ID: "b", Kind: "instantiate", Rev: 2})
	must(t, err)
	if keys := keysBelow(t, s, "op/"); !slices.Equal(keys, []string{"op/7/b"}) {
		t.Errorf("operations are %q, want only b", keys)
	}
	done := h3
	done.Op = nil
	h4, err := s.ChangeHead(ctx, h3, done, nil, nil)
	must(t, err)
	if keys := keysBelow(t, s, "op/"); len(keys) != 0 || h4.Op != nil {
		t.Errorf("operations are %q and %v after the end, want none", keys, h4.Op)
	}
	if _, err = s.ChangeHead(ctx, h3, done, nil, nil); !errs.Is(err, errs.Conflict) {
		t.Errorf("a step from an old head: %v, want conflict", err)
	}
}

func TestChangeHeadHasOneWinner(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "race")
	for round := range 5 {
		var wins, losses atomic.Int64
		var wg sync.WaitGroup
		winner := make(chan Head, 100)
		for i := range 100 {
			wg.Go(func() {
				op := &Operation{ID: fmt.Sprintf("%d-%d", round, i)}
				next, err := s.ChangeHead(ctx, h, h, []HistoryEntry{{State: Instantiated, Revision: int64(i)}}, op)
				switch {
				case err == nil:
					wins.Add(1)
					winner <- next
				case errs.Is(err, errs.Conflict):
					losses.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 || losses.Load() != 99 {
			t.Fatalf("round %d: %d won and %d lost, want 1 and 99", round, wins.Load(), losses.Load())
		}
		h = <-winner
		if keys := keysBelow(t, s, "op/"); len(keys) != 1 || keys[0] != "op/race/"+h.Op.ID {
			t.Fatalf("operations are %q, want only the winner's, %s", keys, h.Op.ID)
		}
	}
	if acts, err := s.History(ctx, "race"); err != nil || len(acts) != 6 || h.Seq != 6 {
		t.Errorf("%d actions, seq %d and error %v; want 6, 6 and none", len(acts), h.Seq, err)
	}
}

func TestChangeHeadRefusesWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tests := []struct {
		name string
		head Head
		acts []HistoryEntry
		op   *Operation
		want errs.Kind
	}{
		{"no uid", Head{}, nil, nil, errs.Invalid},
		{"a uid with a slash", Head{UID: "a/head"}, nil, nil, errs.Invalid},
		{"an operation with a slash", Head{UID: "a"}, nil, &Operation{ID: "../b"}, errs.Invalid},
		{"a head above 256 KiB", Head{UID: "a", Failure: strings.Repeat("x", etcdkv.MaxValue)}, nil, nil, errs.TooLarge},
		{"an action above 256 KiB", Head{UID: "a"}, []HistoryEntry{{Instance: strings.Repeat("x", etcdkv.MaxValue)}}, nil, errs.TooLarge},
		{"more actions than a transaction holds", Head{UID: "a"}, make([]HistoryEntry, maxRecordsPerChange+1), nil, errs.TooLarge},
	}
	for _, test := range tests {
		_, err := s.ChangeHead(t.Context(), Head{}, test.head, test.acts, test.op)
		if !errs.Is(err, test.want) {
			t.Errorf("%s: got %v, want kind %q", test.name, err, test.want)
		}
	}
	if _, err := s.ChangeHead(t.Context(), Head{}, Head{UID: "full"}, make([]HistoryEntry, maxRecordsPerChange), &Operation{ID: "o"}); err != nil {
		t.Errorf("the longest step: %v", err)
	}
}

func TestHeadsAndOperationsArePaged(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	s := newStore(t, WithOnOp(func(kind string, _ int) {
		if kind == "list" {
			lists.Add(1)
		}
	}))
	const n = 2500
	b := s.kv.NewBatch("heads")
	for i := range n {
		uid := HeadID(fmt.Sprintf("%05d", i))
		text, err := etcdkv.Encode(string(uid), Head{UID: uid, State: Approved})
		must(t, err)
		must(t, b.Add(t.Context(), opPut(headKey(s.kv, uid), text)))
		text, err = etcdkv.Encode(string(uid), Operation{ID: "x", UID: uid})
		must(t, err)
		must(t, b.Add(t.Context(), opPut(operationKey(s.kv, uid, "x"), text)))
	}
	must(t, b.Flush(t.Context()))

	heads := collect(t, s.Heads(t.Context()))
	if len(heads) != n || heads[0].UID != "00000" || heads[n-1].UID != "02499" || heads[n-1].Mod == 0 {
		t.Errorf("%d heads, want %d in order", len(heads), n)
	}
	if got := lists.Load(); got < 3 || got > 6 {
		t.Errorf("%d pages for %d heads, want 3 to 6", got, n)
	}
	if ops := collect(t, s.Operations(t.Context())); len(ops) != n || ops[1].UID != "00001" || ops[1].ID != "x" {
		t.Errorf("%d operations, want %d in order", len(ops), n)
	}
	for range s.Heads(t.Context()) {
		break // a consumer may stop at any time
	}
}

func TestDeleteLeavesNothingAndDoesNotMindTwice(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	h := create(t, s, "1")
	other := create(t, s, "10") // a uid that starts with the other's
	h, err := s.ChangeHead(ctx, h, h, nil, &Operation{ID: "o"})
	must(t, err)
	_, err = s.Publish(ctx, h, Revision{Number: 1}, slices.Values(places(3, "d")))
	must(t, err)
	for range 2 {
		must(t, s.Delete(ctx, "1"))
	}
	want := []string{"dep/10/act/" + etcdkv.Number(1), "head/10"}
	if keys := keysBelow(t, s, ""); !slices.Equal(keys, want) {
		t.Errorf("left are %q, want %q", keys, want)
	}
	if got, err := s.Head(ctx, "10"); err != nil || got.Mod != other.Mod {
		t.Errorf("the other deployment is %+v, %v; want it untouched", got, err)
	}
}

func TestRecordsThatCannotBeReadAreInternalErrors(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	_, err := etcd.Put(ctx, headKey(s.kv, "1"), `{"state":"Sleeping"}`)
	must(t, err)
	_, err = s.Head(ctx, "1")
	wantKind(t, err, errs.Internal)
	if !strings.Contains(err.Error(), headKey(s.kv, "1")) {
		t.Errorf("the error %q does not name the key", err)
	}
	for _, err = range s.Heads(ctx) {
	}
	wantKind(t, err, errs.Internal)
	var e *errs.Error
	if !errors.As(err, &e) || e.Op != "read" {
		t.Errorf("the error is %#v, want operation read", err)
	}
}
