package rsync

import (
	"context"
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
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
	if p := l.of(target{"edge+c2", "7"})[0]; p.Desired != "" || p.Phase != appcontext.Deleting {
		t.Errorf("what is not wanted any more is to go; got %+v", p)
	}
	if len(l.doubts) != 0 {
		t.Errorf("in doubt: %v", l.doubts)
	}
}
