package shard

import (
	"log/slog"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
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
