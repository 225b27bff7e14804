package pairs_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// The desired state is read, and then the shard takes over a cluster that has moved to it.
// What was read before does not remove what is on that cluster, whether anything else is
// desired of the shard or not.
func TestATakeoverRefusesWhatWasDesiredBefore(t *testing.T) {
	t.Parallel()
	for _, clusters := range [][]v2.ClusterKey{{"edge+c1"}, nil} {
		l, r := newStore(t)
		w := on("a", clusters...)
		w.Handovers = l.Handovers()
		setDesired(t, l, w)
		moved := appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c2", Deployment: "7", App: "web"}, Shard: l.Shard(), Desired: "a", Applied: "a", Phase: appcontext.Applied, Rev: 2}
		if err := r.Store.PutPairs(t.Context(), l.Fence(), []appcontext.Pair{moved}, nil); err != nil {
			t.Fatal(err)
		}
		l.TakeOver([]appcontext.Pair{moved})
		if due, err := l.SetDesired(t.Context(), w); !errs.Is(err, errs.Unavailable) {
			t.Errorf("with %v, due is %v, %v; want it to be refused", clusters, due, err)
		}
		if p := l.Of(pair.Target{Cluster: "edge+c2", Deployment: "7"})[0]; p.Desired != "a" || p.Phase != appcontext.Applied {
			t.Errorf("with %v, the pair that was taken over is %+v", clusters, p)
		}
		wantAgreement(t, l, r)
		l.TakeOver([]appcontext.Pair{moved}) // already known
		w = on("a", append(clusters, "edge+c2")...)
		if w.Handovers = l.Handovers(); len(setDesired(t, l, w)) != len(clusters) {
			t.Errorf("with %v, more is due than what is not Applied", clusters)
		}
		if gone := setDesired(t, l, pair.Desired{Deployment: "7", Removed: true}); len(gone) != len(clusters)+1 {
			t.Errorf("with %v, %v must be removed when nothing is desired", clusters, gone)
		}
	}
}
