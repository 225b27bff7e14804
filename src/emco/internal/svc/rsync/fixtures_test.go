package rsync

import (
	"context"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	retry = pair.Retry{First: time.Second, Longest: 5 * time.Minute}
	key   = appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "web"}
)

func digests(d ...appcontext.Digest) []appcontext.Digest { return d }

// job is a hook's object, in the content "1".
var job = appcontext.Ref{ID: manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "migrate"}, Digest: "d", Stamp: "1"}

// noContexts is an AppContext that accepts every write of pairs and holds nothing.
type noContexts struct{ pairs.AppContext }

func (noContexts) PutPairs(context.Context, appcontext.Fence, []appcontext.Pair, []appcontext.PairKey) error {
	return nil
}

// storeOf is a Store that holds pairs in memory alone.
func storeOf(t *testing.T, all ...appcontext.Pair) *pairs.Store {
	t.Helper()
	s := pairs.New(pairs.Config{AppContext: noContexts{}})
	hold(t, s, all...)
	return s
}

// hold has a Store remember pairs.
func hold(t *testing.T, s *pairs.Store, all ...appcontext.Pair) {
	t.Helper()
	if err := s.Load(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// setDesired has a Store hold what is desired.
func setDesired(t *testing.T, s *pairs.Store, w pair.Desired) {
	t.Helper()
	if _, err := s.SetDesired(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// on is the app "web" of deployment 7 on clusters.
func on(bundle appcontext.Digest, clusters ...string) pair.Desired {
	w := pair.Desired{Deployment: "7", Subject: "the group", Rev: 2, Places: map[string]map[string]appcontext.Digest{}}
	for _, c := range clusters {
		w.Places[c] = map[string]appcontext.Digest{"web": bundle}
	}
	return w
}
