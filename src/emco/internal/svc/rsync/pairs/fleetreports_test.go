package pairs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// agents knows the last sequences of agents, and no other shard.
type agents struct{ last uint64 }

func (a *agents) LastSequence(v2.ClusterKey) uint64 { return a.last }

func (a *agents) Snapshot(context.Context, appcontext.HeadID) (mirror.Snapshot, error) {
	return mirror.Snapshot{}, nil
}

func (a *agents) Subscribe(mirror.Topics) *mirror.Subscription { panic("no pair waits") }

// What a fleet reports alike is stored once; a cluster that differs, or moves to another shard, has a
// record. The sequences that are left out must be stored with the agents.
func TestWhatAFleetReportsAlikeIsStoredOnce(t *testing.T) {
	t.Parallel()
	r, now, seen := &recorder{Store: contexttest.New(t)}, noon, &agents{last: 4}
	c := config(t, r, func() time.Time { return now })
	c.Others = seen
	l := pairs.New(c)
	if err := l.Load(t.Context(), pairstore.NewContents(l.Shard())); err != nil {
		t.Fatal(err)
	}
	var clusters []v2.ClusterKey
	for i := range 10 {
		clusters = append(clusters, v2.ClusterKey(fmt.Sprint("edge+c", i)))
	}
	setDesired(t, l, on("a", clusters...))
	report := func(seq uint64, status string, on ...v2.ClusterKey) {
		t.Helper()
		var all []appcontext.Report
		for _, c := range on {
			k := appcontext.PairKey{Cluster: c, Deployment: "7", App: "web"}
			all = append(all, appcontext.Report{Key: k, Seq: seq, At: now, Resources: []appcontext.ResourceStatus{{ID: configMap("it"), Status: status}}})
		}
		if _, err := l.Report(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, records int) {
		t.Helper()
		if got := len(contents(t, r.Store, l.Shard()).Reports); got != records {
			t.Errorf("%s: %d reports have records of their own, want %d", what, got, records)
		}
		var keys []appcontext.PairKey
		for _, c := range clusters {
			keys = append(keys, appcontext.PairKey{Cluster: c, Deployment: "7", App: "web"})
		}
		if all, err := r.ReportsAt(t.Context(), keys); err != nil || len(all) != len(clusters) {
			t.Errorf("%s: %d reports, %v", what, len(all), err)
		}
	}
	report(5, "Current", clusters...)
	want("sequences that no agent's record has", 10)
	seen.last = 6
	report(6, "Current", clusters...)
	want("the same again, with sequences that are stored", 0)
	report(6, "Failed", clusters[3])
	want("one fails", 1)
	now = now.Add(time.Minute)
	report(6, "Current", clusters[3])
	want("it is as the others again", 0)

	if err := l.HandOver(t.Context(), []pair.Target{{Cluster: clusters[0], Deployment: "7"}}, pairs.Handover{To: "rsync-09"}); err != nil {
		t.Fatal(err)
	}
	want("one moves to another shard", 1)
	l = pairs.New(c)
	if err := l.Load(t.Context(), contents(t, r.Store, l.Shard())); err != nil {
		t.Fatal(err)
	}
	r.wrote()
	report(6, "Current", clusters[1:]...)
	if got := r.wrote(); got != "" {
		t.Errorf("after a restart, reports that say the same wrote %s", got)
	}
	want("after a restart", 1)
}
