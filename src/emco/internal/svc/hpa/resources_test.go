package hpa_test

import (
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/hpa"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func TestHardwareNeeds(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { hpa.Resources{DB: db}.Mount(r) })
	for _, key := range []store.Key{group, "projects/p/composite-apps/ca/v1/apps/web"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	intents := "/v2/" + string(group) + "/hpa-intents"
	consumers := intents + "/i/hpa-resource-consumers"
	needs := consumers + "/c/resource-requirements"
	memory := `{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":64}}`
	s.Run(t,
		step{Do: "POST " + intents, Body: document("i", `{"app":""}`), Status: 400, Text: "- spec.app: missing"},
		step{Do: "POST " + intents, Body: document("i", `{"app":"web"}`), Status: 201},
		step{Do: "PUT " + intents + "/i", Body: document("i", `{"app":"web"}`), Status: 200},
		step{Do: "POST " + consumers, Body: document("c", `{"name":"","replicas":-1}`), Status: 400, Text: "- spec.name: missing\n- spec.replicas: -1 is not between 0 and 10000"},
		step{Do: "POST " + consumers, Body: document("c", `{"name":"r1-web","kind":"Deployment","container":"nginx"}`), Status: 201},
		step{Do: "POST " + needs, Body: document("x", `{"resource":{}}`), Status: 400, Text: "- spec.allocatable: missing"},
		step{Do: "POST " + needs, Body: document("x", `{"allocatable":true,"resource":{"name":"a b","requests":0,"limits":-1,"units":"Q","key":"a"}}`), Status: 400, Text: `- spec.resource.name: "a b" is no name of a resource, such as cpu
- spec.resource.requests: 0 is below 1
- spec.resource.limits: -1 is below requests
- spec.resource.units: "Q" is none of m, K`},
		step{Do: "POST " + needs, Body: document("x", `{"allocatable":false,"resource":{"key":"","name":"cpu"}}`), Status: 400, Text: `- spec.resource.key: "" is no label of nodes
- spec.resource: name, requests and limits belong to amounts`},
		step{Do: "POST " + needs, Body: document("a", memory), Status: 201},
		step{Do: "POST " + needs, Body: document("b", memory), Status: 201},
		step{Do: "POST " + consumers + "/none/resource-requirements", Body: document("b", memory), Status: 409},

		step{Do: "GET " + intents + "?intent=i", Status: 200, Text: `[{"metadata":{"name":"i"`},
		step{Do: "GET " + intents + "/?intent=i", Status: 200, Text: `[{"metadata":{"name":"i"`},
		step{Do: "GET " + intents + "?intent=none", Status: 200, Text: "=[]"},
		step{Do: "GET " + intents + "?intent=a/b", Status: 400, Text: "query intent"},
		step{Do: "GET " + intents + "?consumer=c", Status: 400},
		step{Do: "GET " + consumers + "?consumer=c", Status: 200, Text: `[{"metadata":{"name":"c"`},
		step{Do: "GET " + intents + "/none/hpa-resource-consumers?consumer=c", Status: 404, Text: "HpaIntent not found"},
		step{Do: "GET " + needs + "?resource=b", Status: 200, Text: `[{"metadata":{"name":"b"`},

		step{Do: "DELETE " + consumers, Status: 409, Text: "Cannot delete parent"},
		step{Do: "DELETE " + needs + "?dryRun=true", Status: 204},
		step{Do: "GET " + needs + "/b", Status: 200},
		step{Do: "DELETE " + needs, Status: 204},
		step{Do: "GET " + needs, Status: 200, Text: "=[]"},
		step{Do: "DELETE " + needs, Status: 204},
		step{Do: "DELETE " + consumers + "/none/resource-requirements", Status: 404, Text: "HpaResourceConsumer not found"},
		step{Do: "DELETE " + consumers + "?force=true", Status: 400},
	)
	if err := s.DB.Delete(t.Context(), "projects/p/composite-apps/ca/v1/apps/web", nil); err == nil {
		t.Error("an app was deleted while an intent names it")
	}
	s.Run(t, step{Do: "DELETE " + consumers, Status: 204}, step{Do: "DELETE " + intents, Status: 204}, step{Do: "GET " + intents, Status: 200, Text: "=[]"})
}
