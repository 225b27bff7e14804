package pairs_test

import (
	"slices"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// Backends get the logical cloud of a deployment and the order of its apps.
func TestAnAddressHasTheLogicalCloud(t *testing.T) {
	t.Parallel()
	l, _ := newStore(t)
	if err := l.Load(t.Context(), pairstore.NewContents(l.Shard(), appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "db"}})); err != nil {
		t.Fatal(err)
	}
	w := pair.Desired{
		Deployment: "7", Head: "7", Subject: "shop", Scope: map[v2.ClusterKey]bool{}, Namespace: "east", Cloud: appcontext.Cloud{Name: "shop+east", Confined: true, Account: "tenant-east"},
		Apps: []appcontext.App{{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}}},
	}
	setDesired(t, l, w)
	w.Namespace, w.Cloud = "", appcontext.Cloud{} // a revision that was removed names none
	setDesired(t, l, w)
	at := l.Address(pair.Target{Cluster: "edge+c1", Deployment: "7"}, route.Route{Settings: new(syncobjects.Settings)})
	want := syncer.Target{Cluster: v2.NewClusterKey("edge", "c1"), Deployment: "7", Namespace: "east", Cloud: syncer.Cloud{Name: "shop+east", Confined: true, Account: "tenant-east"}}
	if at != want {
		t.Errorf("address = %+v, want %+v", at, want)
	}
	if got := l.Needs(appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "web"}); !slices.Equal(got, []syncer.Dependency{{App: "db", Ready: true}}) {
		t.Errorf("needs = %v", got)
	}
}
