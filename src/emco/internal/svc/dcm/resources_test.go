package dcm_test

import (
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
)

type step = resourcetest.Step

func TestLogicalClouds(t *testing.T) {
	t.Parallel()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { dcm.Resources{DB: db}.Mount(r) })
	const all, refs = "/v2/projects/p/logical-clouds", "/v2/projects/p/logical-clouds/lc/cluster-references"
	lc := `{"metadata":{"name":"lc"},"spec":{"level":"0","user":{"user-name":"u","type":"certificate"}}}`
	ref := `{"metadata":{"name":"r"},"spec":{"cluster-provider":"edge","cluster-name":"c1","loadbalancer-ip":"0.0.0.0","certificate":"forged"}}`
	s.Run(t,
		step{Do: "POST " + all, Body: lc, Status: 404, Text: "=Project not found"},
		step{Do: "GET " + all, Status: 404, Text: "=Project not found"},
	)
	for _, doc := range []store.Write{{Key: "projects/p"}, {Key: "cluster-providers/edge/clusters/c1"}} {
		if _, err := s.DB.Create(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
	}
	s.Run(t,
		step{Do: "POST " + all, Body: `{"metadata":{"name":"lc"}}`, Status: 400, Text: "spec.namespace: is empty; a logical cloud of level 1 needs a namespace"},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"lc"},"spec":{"level":0}}`, Status: 422},
		step{Do: "POST " + all, Body: lc, Status: 201, Text: `"spec":{"namespace":"default","level":"0","user":{"userName":"u","type":"certificate"},"labels":null}`},
		step{Do: "POST " + all, Body: lc, Status: 409, Text: "=LogicalCloud already exists"},
		step{Do: "PUT " + all + "/lc", Body: lc, Status: 201},
		step{Do: "GET " + all + "/x", Status: 404, Text: "=LogicalCloud not found"},
		step{Do: "GET " + all + "/x/cluster-references", Status: 404, Text: "=LogicalCloud not found"},
		step{Do: "GET " + refs, Status: 200, Text: "=[]"},
		step{Do: "POST " + refs, Body: `{"metadata":{"name":"r"},"spec":{}}`, Status: 400, Text: "spec.cluster: missing"},
		step{Do: "POST " + refs, Body: `{"metadata":{"name":"r"},"spec":{"clusterProvider":"edge","cluster":"c2"}}`, Status: 409, Text: "cluster-providers/edge/clusters/c2"},
		step{Do: "POST " + refs, Body: ref, Status: 201, Text: `"spec":{"clusterProvider":"edge","cluster":"c1","loadBalancerIP":"0.0.0.0","certificate":""}`},
		step{Do: "POST " + refs, Body: ref, Status: 409, Text: "=Cluster Reference already exists"},
		step{Do: "PUT " + refs + "/r", Body: ref, Status: 405, Text: "="},
		step{Do: "DELETE " + all + "/lc", Status: 409, Text: "Cannot delete parent"},
		step{Do: "DELETE " + refs + "/r", Status: 204},
		step{Do: "GET " + all, Status: 200, Text: `"spec":{"namespace":"default","level":"0",`},
		step{Do: "DELETE " + all + "/lc", Status: 204},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"one"},"spec":{"namespace":"shop","labels":{"a":"b"},"user":{"userName":"u"}}}`, Status: 201, Text: `"spec":{"namespace":"shop","level":"1","user":{"userName":"u","type":""},"labels":{"a":"b"}}`},
	)
}
