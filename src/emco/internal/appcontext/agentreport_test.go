package appcontext

import (
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestWhatIsKnownOfOneCluster(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b, other := PairKey{Cluster: "edge+a", Deployment: "7", App: "web"}, PairKey{Cluster: "edge+a", Deployment: "8", App: "db"}, PairKey{Cluster: "edge+ab", Deployment: "7", App: "web"}
	must(t, s.PutPairs(ctx, Fence{}, []Pair{{Key: b, Rev: 2}, {Key: other, Rev: 3}, {Key: a, Rev: 1}}, nil))
	must(t, s.PutReports(ctx, Fence{}, []Report{{Key: a, Seq: 5, At: at}, {Key: b, Seq: 9, At: at.Add(time.Hour)}, {Key: other, Seq: 99}}, nil))
	pairs, err := s.PairsOn(ctx, "edge+a")
	must(t, err)
	if len(pairs) != 2 || pairs[0].Key != a || pairs[1].Key != b || pairs[1].Rev != 2 {
		t.Errorf("PairsOn = %+v, want those of %v and %v", pairs, a, b)
	}
	if seq, when, err := s.LastReport(ctx, "edge+a"); err != nil || seq != 9 || !when.Equal(at.Add(time.Hour)) {
		t.Errorf("LastReport = %d, %s, %v, want 9", seq, when, err)
	}
	if seq, when, err := s.LastReport(ctx, "edge+none"); err != nil || seq != 0 || !when.IsZero() {
		t.Errorf("LastReport of a silent cluster = %d, %s, %v, want nothing", seq, when, err)
	}
	_, err = s.PairsOn(ctx, "edge/a")
	wantKind(t, err, errs.Invalid)
}
