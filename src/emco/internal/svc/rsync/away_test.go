package rsync

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/shard"
)

// What is desired when the documents go away is delivered meanwhile, with what the process knows. When they answer again,
// a credential that others replaced is used at once.
func TestS28DeliveriesGoOnWhileDocumentsAreAway(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	p := w.process("one", nil)
	p.shared.Retry = pair.Retry{First: 50 * time.Millisecond, Longest: 200 * time.Millisecond}
	w.start(p)
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	hook := w.git.Bare("r0")
	w.must(hook.Reject("closed for stocktaking"))
	w.wish("8", "red", "edge+c0")
	failed := func(at string) func(map[string]appcontext.Pair) bool {
		return func(pairs map[string]appcontext.Pair) bool { return pairs[at].Attempt > 0 }
	}
	w.until("the refusal", failed("edge+c0 8"))

	w.outage.SetAway(true)
	w.until("the use of the last known route", func(map[string]appcontext.Pair) bool { return p.UsesLastKnown() })
	w.holds("r0", "c0", "8", "")
	w.must(hook.Accept())
	w.applied(2, 1)
	w.holds("r0", "c0", "8", "red")
	if !p.UsesLastKnown() {
		t.Error("the documents answered before the delivery")
	}

	w.outage.SetAway(false)
	w.until("the end of the outage", func(map[string]appcontext.Pair) bool { return !p.UsesLastKnown() })
	object := store.Key("cluster-providers/edge/cluster-sync-objects/r0")
	text := func(token string) seal.Secret {
		return seal.Secret(`{"metadata":{"name":"r0"},"spec":{"kv":[{"url":"` + w.git.URL("r0") + `","userName":"emco","gitToken":"` + token + `"}]}}`)
	}
	put := func(token string) {
		t.Helper()
		_, err := w.db.Replace(t.Context(), store.Write{Key: object, Secret: text(token)}, 0)
		w.must(err)
	}
	put("wrong")
	w.wish("9", "blue", "edge+c0")
	w.until("the refusal of the new token", failed("edge+c0 9"))
	put("secret")
	w.applied(3, 1)
}

// A process asks what changes from its first question on. What deliveries read before it may have changed in between.
func TestWhatWasReadBeforeTheFirstQuestionIsForgotten(t *testing.T) {
	t.Parallel()
	documents, db := resourcetest.NewOutage(t)
	known := route.NewLastKnown(slog.New(slog.DiscardHandler))
	routes := &route.Resolver{DB: db, LastKnown: known}
	s := &Service{log: slog.New(slog.DiscardHandler), shards: newRunningShards(), shared: shard.Shared{Routes: routes}}
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	resourcetest.Put(t, db, "cluster-providers/edge/clusters/d0", v2.Cluster{}, "kubeconfig")
	if _, err := routes.DeliveryLookup().Route(t.Context(), "edge+d0"); err != nil {
		t.Fatal(err)
	}
	away := errs.New(errs.Unavailable, "the documents do not answer")
	known.DocumentsAsked(away)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.followDocuments(ctx) }()
	for end := time.Now().Add(time.Minute); known.Away(); time.Sleep(time.Millisecond) { //nolint:forbidigo // of SQLite
		if time.Now().After(end) {
			t.Fatal("the documents are not asked")
		}
	}
	stop()
	<-ended
	documents.SetAway(true)
	known.DocumentsAsked(away)
	if r, err := routes.DeliveryLookup().Route(t.Context(), "edge+d0"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("the route from before the first question: %+v, %v, want Unavailable", r, err)
	}
}
