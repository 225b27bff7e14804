package shard

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// A pair is meant for another registration than the known one. While the documents are away it waits: either of the two
// may be the cluster of today.
func TestPairsOfAnotherRegistrationWaitForTheDocuments(t *testing.T) {
	t.Parallel()
	s, _, _ := newShard(t, 0, inFirst)
	documents, db := resourcetest.NewOutage(t)
	s.Routes = &route.Resolver{DB: db, LastKnown: route.NewLastKnown(slog.New(slog.DiscardHandler))}
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	resourcetest.Put(t, db, "cluster-providers/edge/clusters/d0", v2.Cluster{}, "kubeconfig")
	p := appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+d0", Deployment: "7", App: "web"}, Desired: "bundle", Registration: "another"}
	if err := s.pairs.Load(t.Context(), pairstore.NewContents(s.pairs.Shard(), p)); err != nil {
		t.Fatal(err)
	}
	wants := func(when string, kind errs.Kind) {
		t.Helper()
		if _, err := s.routeOf(t.Context(), s.Routes.DeliveryLookup(), pair.Target{Cluster: "edge+d0", Deployment: "7"}); !errs.Is(err, kind) {
			t.Errorf("%s: %v, want it to be %v", when, err, kind)
		}
	}
	wants("while the documents answer", errs.Invalid)
	documents.SetAway(true)
	_, err := db.Changes(t.Context(), 0)
	s.Routes.LastKnown.DocumentsAsked(err)
	wants("while they are away", errs.Unavailable)
	if !s.Routes.LastKnown.Used() {
		t.Error("the known registration was not compared")
	}
}

// recheckedHeads notes which heads are to be reconciled again.
type recheckedHeads struct {
	Heads
	again chan appcontext.HeadID
}

func (h recheckedHeads) Recheck(id appcontext.HeadID) { h.again <- id }

// A head that changes while the documents are away waits for them, and the shard goes on: other heads, a termination among them, are
// reconciled. At the start the shard itself waits.
func TestHeadsWaitForTheDocuments(t *testing.T) {
	t.Parallel()
	s, contexts, _ := newShard(t, 0, inFirst)
	documents, db := resourcetest.NewOutage(t)
	s.reconciler.Routes = &route.Resolver{DB: db, LastKnown: route.NewLastKnown(slog.New(slog.DiscardHandler))}
	s.reconciler.proceed = func(context.Context, []pair.Target) {} // nothing is delivered
	again := make(chan appcontext.HeadID, 10)
	s.reconciler.Heads, s.reconciler.awayPause = recheckedHeads{s.reconciler.Heads, again}, 10*time.Millisecond
	s.reconciler.waiting = queue.NewTimers(s.reconciler.Heads.Recheck)
	setAway := func(away bool) {
		documents.SetAway(away)
		_, err := db.Changes(t.Context(), 0)
		s.reconciler.Routes.LastKnown.DocumentsAsked(err)
	}
	handle := func(when string, head appcontext.Head, held string) {
		t.Helper()
		if err := s.reconciler.handleHead(t.Context(), appcontext.HeadEvent{Head: head}); err != nil || s.phases() != held {
			t.Errorf("%s: got %v and the pairs %q, want %q", when, err, s.phases(), held)
		}
	}
	head := publish(t, contexts, appcontext.Head{}, "edge+c1")
	setAway(true)
	time.AfterFunc(50*time.Millisecond, func() { setAway(false) })
	handle("at the start", head, "edge+c1 Pending")

	s.reconciler.live = true
	setAway(true)
	head = publish(t, contexts, head, "edge+c1", "edge+c2")
	handle("while the documents are away", head, "edge+c1 Pending")
	if id := <-again; id != head.UID {
		t.Errorf("head %s is tried again, want %s", id, head.UID)
	}
	documents.SetAway(false)
	handle("before it is known that they are back, they are not asked", head, "edge+c1 Pending")
	setAway(false)
	handle("when they are back", head, "edge+c1 Pending, edge+c2 Pending")

	setAway(true)
	head = change(t, contexts, head, func(h *appcontext.Head) { h.Gone = true })
	handle("a termination", head, "edge+c1 Deleting, edge+c2 Deleting")
}
