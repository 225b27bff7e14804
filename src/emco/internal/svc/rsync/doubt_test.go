package rsync

import (
	"context"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// unanswered is a store that writes pairs and then says that it did not.
type unanswered struct {
	*recorder
	times int
}

func (u *unanswered) PutPairs(ctx context.Context, own appcontext.Fence, put []appcontext.Pair, remove []appcontext.PairKey) error {
	if err := u.recorder.PutPairs(ctx, own, put, remove); err != nil || u.times == 0 {
		return err
	}
	u.times--
	return errs.New(errs.Unavailable, "the answer is lost")
}

// A write of new pairs is made, and not answered. What is wished for then is for the pairs
// that are in the store, whether they are still wanted or not.
func TestPairsOfAnUnansweredWriteAreNotForgotten(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.store = &unanswered{r, 1}
	if _, err := l.intend(t.Context(), on("a", "edge+c1", "edge+c2")); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if all := l.all(); len(all) != 0 {
		t.Errorf("%v is remembered", all)
	}
	if got := l.clusters("7"); len(got) != 2 || !got["edge+c1"] || !got["edge+c2"] {
		t.Errorf("the deployment is known to be on %v", got)
	}
	if due := l.mustIntend(t, on("a", "edge+c1")); fmt.Sprint(due) != "[{edge+c1 7} {edge+c2 7}]" {
		t.Errorf("due %v", due)
	}
	wantAgreement(t, l, r)
	if p := l.of(pair.Target{Cluster: "edge+c2", UID: "7"})[0]; p.Desired != "" || p.Phase != appcontext.Deleting {
		t.Errorf("what is not wanted any more is to go; got %+v", p)
	}
	if l.doubts.any("7") {
		t.Errorf("in doubt: %v", l.doubts)
	}
}

// A pair that is known is written anew, and nobody answers: when it is to be again what it
// was, that is written too, although it is what is remembered.
func TestWhatMayHaveBeenWrittenIsWrittenBack(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1", "edge+c2"))
	l.store = &unanswered{r, 1}
	if _, err := l.intend(t.Context(), on("b", "edge+c1", "edge+c2")); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if l.plain("7") {
		t.Error("the next wish might be told by what is different from the last")
	}
	l.mustIntend(t, on("a", "edge+c1", "edge+c2"))
	wantAgreement(t, l, r)
	r.wrote()
	if l.mustIntend(t, on("a", "edge+c1", "edge+c2")); r.wrote() != "" || !l.plain("7") {
		t.Error("what was answered is written again")
	}
}

// Pairs are handed over, and nobody answers: when that is tried again, what their new shard
// has written since stays.
func TestPairsAreHandedOverOnce(t *testing.T) {
	t.Parallel()
	l, r := newLedger(t)
	l.mustIntend(t, on("a", "edge+c1", "edge+c2"))
	l.store = &unanswered{r, 1}
	both, to := l.at("7"), handing{to: route.Group.Shard(5)}
	if err := l.handOver(t.Context(), both[:1], to); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	theirs := stored(t, r.Pairs(t.Context()))[0]
	theirs.Phase, theirs.Applied = appcontext.Applied, "a"
	if err := r.Store.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{theirs}, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.handOver(t.Context(), both, to); err != nil {
		t.Fatal(err)
	}
	if all := l.all(); len(all) != 0 {
		t.Errorf("%v is remembered", all)
	}
	for i, p := range stored(t, r.Pairs(t.Context())) {
		if p.Shard != to.to || (p.Phase == appcontext.Applied) != (i == 0) {
			t.Errorf("stored is %+v", p)
		}
	}
}
