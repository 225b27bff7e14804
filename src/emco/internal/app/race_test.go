package app_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// race instantiates the group n times at the same time. One request must be accepted, the others refused.
func (g testGroup) race(n int) {
	g.Helper()
	got := make([]apiAnswer, n)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = g.do("POST", g.path+"/instantiate", "") })
	}
	all.Wait()
	won := 0
	for _, a := range got {
		switch a.Status {
		case http.StatusAccepted:
			won++
		case http.StatusConflict:
		default:
			g.Errorf("got %d %s", a.Status, a.Body)
		}
	}
	if won != 1 {
		g.Fatalf("%d of %d were accepted, want 1", won, n)
	}
}

func TestOfConcurrentInstantiatesOneWins(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.race(8)
	st := g.becomes("Instantiated")
	wantEqual(s, "history", history(st), []string{"Created - 0", "Approved - 0", "Instantiated first 1"})
	s.stop()
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		var heads, revisions []string
		for _, key := range s.keys(ctx, etcd) {
			switch part := strings.Split(key, "/"); {
			case part[0] == "head":
				heads = append(heads, key)
			case part[0] == "dep" && part[2] == "rev":
				revisions = append(revisions, key)
			case part[0] == "op":
				t.Errorf("%s is left", key)
			}
		}
		if len(heads) != 2 || len(revisions) != 1 { // the logical cloud has a head, too
			t.Errorf("heads %v, revisions %v, want two and one", heads, revisions)
		}
	})
}

func TestStoppedInTheMiddleItGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	s.git.Answer(1<<30, http.StatusServiceUnavailable, -1)
	g.act("instantiate")
	s.eventually("the revision is there", func() string {
		if len(pairs(g.status())) == 2 {
			return ""
		}
		return "no pairs"
	})
	s.stop()
	s.git.Answer(0, 0, -1)
	s.start()
	id := g.becomes("Instantiated").States.StatusCtxID
	s.wantTree(object("a", id, "web"), object("b", id, "web"))

	s.git.Answer(1<<30, http.StatusServiceUnavailable, -1)
	g.act("terminate")
	s.stop()
	s.start()
	if got := g.status().DeployedStatus; got != "Terminating" {
		t.Errorf("deployedStatus %q after the restart", got)
	}
	s.git.Answer(0, 0, -1)
	g.becomes("Terminated")
	s.wantTree()
}

// A killed program leaves operations that are queued and not executed. The test writes them
// as the API would.
func TestOperationsThatAreLeftOverAreCarriedOut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	kept, gone := s.group("kept", appPlaces{"web": nil}), s.group("gone", appPlaces{"web": nil})
	s.stop()
	s.inside(func(ctx context.Context, db *store.DB, etcd *clientv3.Client) {
		contexts := appcontext.New(etcd, s.config.Etcd.Prefix)
		for _, g := range []testGroup{kept, gone} {
			doc, err := db.Get(ctx, store.Key(g.path))
			s.must("read the group", err)
			head, err := contexts.Head(ctx, appcontext.HeadID(doc.UID))
			s.must("read the head", err)
			op := appcontext.Operation{ID: "4711", UID: appcontext.HeadID(doc.UID), Kind: "instantiate", Instance: doc.UID, Rev: 1}
			to := head
			to.State, to.LastRev = appcontext.Instantiated, 1
			act := appcontext.HistoryEntry{State: to.State, Instance: doc.UID, Revision: 1}
			_, err = contexts.ChangeHead(ctx, head, to, []appcontext.HistoryEntry{act}, &op)
			s.must("queue the operation", err)
		}
		for _, below := range []string{"/intents/all", "/generic-placement-intents/places/app-intents/web", "/generic-placement-intents/places", ""} {
			s.must("delete "+below, db.Delete(ctx, store.Key(gone.path+below), nil))
		}
	})
	s.start()
	id := kept.becomes("Instantiated").States.StatusCtxID
	s.wantTree(object("a", id, "web"))
	s.stop()
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		if i := slices.IndexFunc(s.keys(ctx, etcd), func(key string) bool { return strings.HasPrefix(key, "op/") }); i >= 0 {
			t.Errorf("%s is left", s.keys(ctx, etcd)[i])
		}
	})
}
