package pairs_test

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// A write of new pairs succeeds, and its answer is lost. The next SetDesired changes the
// pairs that etcd has, whether they are still desired or not.
func TestPairsOfAnUnconfirmedWriteAreKept(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	r.unanswered = 1
	if _, err := l.SetDesired(t.Context(), on("a", "edge+c1", "edge+c2")); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if all := l.All(); len(all) != 0 {
		t.Errorf("%v is remembered", all)
	}
	if got := l.Clusters("7"); len(got) != 2 || !got["edge+c1"] || !got["edge+c2"] {
		t.Errorf("the deployment is known to be on %v", got)
	}
	if due := setDesired(t, l, on("a", "edge+c1")); fmt.Sprint(due) != "[{edge+c1 7} {edge+c2 7}]" {
		t.Errorf("due %v", due)
	}
	wantAgreement(t, l, r)
	if p := l.Of(pair.Target{Cluster: "edge+c2", Deployment: "7"})[0]; p.Desired != "" || p.Phase != appcontext.Deleting {
		t.Errorf("what is no longer desired must be removed; got %+v", p)
	}
	if !l.Plain("7") {
		t.Error("writes are still unconfirmed")
	}
}

// A write of a known pair succeeds, and its answer is lost. When the old state is desired
// again, it is written, although memory holds it already.
func TestUnconfirmedWritesAreWrittenAgain(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	r.unanswered = 1
	if _, err := l.SetDesired(t.Context(), on("b", "edge+c1", "edge+c2")); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	if l.Plain("7") {
		t.Error("the next revision might be compared with the last one alone")
	}
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	wantAgreement(t, l, r)
	r.wrote()
	if setDesired(t, l, on("a", "edge+c1", "edge+c2")); r.wrote() != "" || !l.Plain("7") {
		t.Error("a confirmed write is repeated")
	}
}

// A handover succeeds, and its answer is lost. When it is tried again, it keeps what the new
// shard has written since.
func TestPairsAreHandedOverOnce(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	r.unanswered = 1
	both, to := l.TargetsOf("7"), pairs.Handover{To: route.Group.Shard(5)}
	if err := l.HandOver(t.Context(), both[:1], to); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	theirs := stored(t, r.Pairs(t.Context()))[0]
	theirs.Phase, theirs.Applied = appcontext.Applied, "a"
	if err := r.Store.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{theirs}, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.HandOver(t.Context(), both, to); err != nil {
		t.Fatal(err)
	}
	if all := l.All(); len(all) != 0 {
		t.Errorf("%v is remembered", all)
	}
	for i, p := range stored(t, r.Pairs(t.Context())) {
		if p.Shard != to.To || (p.Phase == appcontext.Applied) != (i == 0) {
			t.Errorf("stored is %+v", p)
		}
	}
}

// A handover fails before etcd has it. When it is tried again the pairs are still this
// shard's to hand over: none is forgotten before the other shard has it.
func TestPairsWhoseHandoverDidNotHappenAreHandedOver(t *testing.T) {
	t.Parallel()
	l, r := newStore(t)
	setDesired(t, l, on("a", "edge+c1", "edge+c2"))
	to := pairs.Handover{To: route.Group.Shard(5)}
	r.out = errs.New(errs.Unavailable, "etcd is away")
	if err := l.HandOver(t.Context(), l.TargetsOf("7"), to); !errs.Is(err, errs.Unavailable) {
		t.Fatalf("got %v", err)
	}
	r.out = nil
	if err := l.HandOver(t.Context(), l.TargetsOf("7"), to); err != nil {
		t.Fatal(err)
	}
	if all := l.All(); len(all) != 0 {
		t.Errorf("%v is remembered", all)
	}
	for _, p := range stored(t, r.Pairs(t.Context())) {
		if p.Shard != to.To {
			t.Errorf("%v is in %s, want %s", p.Key, p.Shard, to.To)
		}
	}
}
