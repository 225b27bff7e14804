package rsync

import (
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"

	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

// What a head says of its logical cloud and of the order of its apps reaches the backend.
func TestBackendsAreToldOfTheLogicalCloudAndOfDependencies(t *testing.T) {
	t.Parallel()
	b, err := backends.Backends().Open("fluxcd", syncer.Options{"dependsOn": "native"})
	if err != nil {
		t.Fatal(err)
	}
	s := shelf{}
	s.put("bundle", "settings")
	c := content.NewReader(s)
	l := storeOf(t, appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "db"}})
	w := pair.Desired{
		Deployment: "7", Head: "7", Subject: "shop", Scope: map[string]bool{}, Namespace: "east", Cloud: appcontext.Cloud{Name: "shop+east", Confined: true, Account: "tenant-east"},
		Apps: []appcontext.App{{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}}},
	}
	setDesired(t, l, w)
	w.Namespace, w.Cloud = "", appcontext.Cloud{} // a revision that is gone does not know
	setDesired(t, l, w)
	at := l.Address(pair.Target{Cluster: "edge+c1", UID: "7"}, route.Route{})
	want := syncer.Target{Cluster: v2.ClusterKey{Provider: "edge", Cluster: "c1"}, Deployment: "7", Namespace: "east", Cloud: syncer.Cloud{Name: "shop+east", Confined: true, Account: "tenant-east"}}
	if at != want {
		t.Errorf("address = %+v, want %+v", at, want)
	}
	pairs := []appcontext.Pair{
		{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "db"}, Desired: "bundle"},
		{Key: appcontext.PairKey{Cluster: "edge+c1", UID: "7", App: "web"}, Desired: "bundle"},
	}
	sink := &gitSink{contents: c, ways: content.NewStepPlans(c), ledger: l}
	plan, err := sink.plan(t.Context(), pair.Target{Cluster: "edge+c1", UID: "7"}, route.Route{Backend: b}, pairs)
	if err != nil {
		t.Fatal(err)
	}
	text := string(plan.edits[2].File)
	for _, part := range []string{"serviceAccountName: tenant-east\n", "dependsOn:\n    - name: emco-7-db\n", "wait: true\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", plan.edits[2].Path, part, text)
		}
	}
}
