package placementintent_test

import (
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/placementintent"
)

type step = resourcetest.Step

func TestPlacementIntents(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { placementintent.Resources{DB: db}.Mount(r) })
	group := store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")
	all := "/v2/" + string(group) + "/generic-placement-intents"
	intents := all + "/gpi/app-intents"
	gpi := `{"metadata":{"name":"gpi"},"spec":{"logicalCloud":"dropped"}}`
	ofA := `{"metadata":{"name":"ia"},"spec":{"app-name":"a","intent":{"allOf":[{"provider-name":"edge","cluster-name":"c1"},{"anyOf":[{"clusterProvider":"edge","cluster-label-name":"east"}]}]}}}`
	s.Run(t,
		step{Do: "POST " + all, Body: gpi, Status: 409, Text: "Parent resource not found"},
		step{Do: "GET " + all, Status: 404, Text: "=DeploymentIntentGroup not found"},
	)
	for _, doc := range []store.Write{{Key: group}, {Key: "cluster-providers/edge/clusters/c1"}} {
		if _, err := s.DB.Create(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
	}
	s.Run(t,
		step{Do: "POST " + all + "?strict=true", Body: gpi, Status: 400, Text: "- spec: there is no such member"},
		step{Do: "POST " + all, Body: gpi, Status: 201, Text: `={"metadata":{"name":"gpi","description":"","userData1":"","userData2":""}}`},
		step{Do: "POST " + all, Body: gpi, Status: 409, Text: "=GenericPlacementIntent already exists"},
		step{Do: "GET " + all + "/x/app-intents", Status: 404, Text: "=GenericPlacementIntent not found"},
		step{Do: "GET " + intents, Status: 200, Text: "=[]"},
		step{Do: "POST " + intents, Body: `{"spec":{"intent":{"allOf":[{"cluster":"c","clusterLabel":"l"},{}]}}}`, Status: 400, Text: "Missing name for the intent"},
		step{
			Do: "POST " + intents, Body: ofA, Status: 201,
			Text: `"spec":{"app":"a","intent":{"allOf":[{"clusterProvider":"edge","cluster":"c1"},{"anyOf":[{"clusterProvider":"edge","clusterLabel":"east"}]}]}}`,
		},
		step{Do: "POST " + intents, Body: ofA, Status: 409, Text: "=AppIntent already exists"},
		step{Do: "POST " + intents, Body: strings.Replace(ofA, "ia", "ib", 1), Status: 409, Text: "=App already has an AppIntent: ia"},
		step{Do: "GET " + intents + "/?app=a", Status: 200, Text: `{"app":"a","intent":{"allOf"`},
		step{Do: "GET " + intents + "?app=b", Status: 404, Text: "=Intent not found"},
		step{Do: "PUT " + intents + "/ib", Body: strings.Replace(strings.Replace(ofA, "ia", "ib", 1), `"a"`, `"b"`, 1), Status: 201},
		step{Do: "PUT " + intents + "/ib", Body: strings.Replace(ofA, "ia", "ib", 1), Status: 409, Text: "=App already has an AppIntent: ia"},
		step{Do: "DELETE " + all + "/gpi", Status: 409, Text: "Cannot delete parent"},
	)
	if err := s.DB.Delete(t.Context(), "cluster-providers/edge/clusters/c1", nil); err == nil {
		t.Error("a cluster that an app intent names was deleted")
	}
}
