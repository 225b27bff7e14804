package ovnaction_test

import (
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ovnaction"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func TestNetworkIntents(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { ovnaction.Resources{DB: db}.Mount(r) })
	for _, key := range []store.Key{group, "projects/p/composite-apps/ca/v1/apps/web"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	intents := "/v2/" + string(group) + "/network-controller-intent"
	workloads := intents + "/n/workload-intents"
	interfaces := workloads + "/w/interfaces"
	web := `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`
	s.Run(t,
		step{Do: "GET " + intents, Status: 200, Text: "=[]"},
		step{Do: "POST " + intents, Body: `{"metadata":{"name":"n"}}`, Status: 201},
		step{Do: "POST " + intents, Body: `{"metadata":{"name":"n"}}`, Status: 409, Text: "NetControllerIntent already exists"},
		step{Do: "PUT " + intents + "/n", Body: `{"metadata":{"name":"n"}}`, Status: 200},
		step{Do: "GET " + intents + "/x", Status: 404, Text: "NetControllerIntent not found"},
		step{Do: "POST " + intents + "/x/workload-intents", Body: document("w", web), Status: 409},
		step{Do: "POST " + workloads, Body: document("w", `{"app":"","workloadResource":"","type":""}`), Status: 400, Text: `- spec.app: missing
- spec.workloadResource: "" is no name of a workload
- spec.type: missing`},
		step{Do: "POST " + workloads, Body: document("w", web), Status: 201},
		step{Do: "PUT " + workloads + "/w", Body: document("w", web), Status: 200},
		step{Do: "POST " + interfaces, Body: document("i", `{"interface":"a-name-of-16-long","name":"A","defaultGateway":"yes","ipAddress":"fe80::1%eth0","macAddress":"02:00"}`), Status: 400, Text: `- spec.interface: "a-name-of-16-long" is no name of an interface of at most 15 characters, such as eth1
- spec.name: "A" is no name of a network
- spec.defaultGateway: "yes" is neither "true" nor "false"
- spec.ipAddress: "fe80::1%eth0" is no address, such as 10.20.0.7
- spec.macAddress: "02:00" is no address of six bytes, such as 02:00:00:00:00:01`},
		step{Do: "POST " + interfaces, Body: document("i", `{"interface":"net0","name":"tills","defaultGateway":true}`), Status: 422},
		step{Do: "POST " + interfaces, Body: document("i", `{"interface":"net0","name":"tills","ipAddress":"10.20.0.7/24"}`), Status: 201, Text: `"spec":{"interface":"net0","name":"tills","ipAddress":"10.20.0.7/24"}`},
		step{Do: "POST " + interfaces, Body: document("j", `{"interface":"net0","name":"branch"}`), Status: 409, Text: "the workload has an interface net0 already"},
		step{Do: "PUT " + interfaces + "/j", Body: document("j", `{"interface":"net1","name":"branch"}`), Status: 201},
		step{Do: "DELETE " + workloads + "/w", Status: 409},
		step{Do: "DELETE " + intents + "/n", Status: 409},
	)
	if err := s.DB.Delete(t.Context(), "projects/p/composite-apps/ca/v1/apps/web", nil); err == nil {
		t.Error("an app was deleted while an intent names it")
	}
	for _, path := range []string{interfaces + "/i", interfaces + "/j", workloads + "/w", intents + "/n"} {
		s.Run(t, step{Do: "DELETE " + path, Status: 204})
	}
}
