package dcm_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

func TestStatusOfClouds(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.Run(t, step{Do: "GET " + lc + "/status", Status: 200, Text: `{"project":"p","name":"lc","states":{"statusctxid":"","actions":[{"state":"Created"`})
	c.refer()
	c.Run(t,
		step{Do: "POST " + lc + "/instantiate", Status: 202},
	)
	const clusters = `"clusters":[{"clusterProvider":"edge","cluster":"c1","connectivity":"Unknown"}]`
	for query, want := range map[string]string{
		"":                                     `"deployedStatus":"Instantiated","readyStatus":"Ready",` + clusters,
		"?type=cluster":                        `"deployedStatus":"Instantiated","readyStatus":"Ready",` + clusters,
		"?status=deployed":                     `"deployedStatus":"Instantiated",` + clusters,
		"?status=ready&output=detail":          `"readyStatus":"Ready",` + clusters,
		"?output=summary":                      `"readyStatus":"Ready"}`,
		"?cluster=edge%2Bc2":                   `"readyStatus":"Ready"}`,
		"?cluster=edge%2Bc2&cluster=edge%2Bc1": clusters,
		"?resource=x":                          `"readyStatus":"Ready"}`,
		"?clusters":                            `{"project":"p","name":"lc","clustersByApp":[{"app":"logical-cloud","clusters":[{"clusterProvider":"edge","cluster":"c1"}]}]}`,
		"?resources":                           `{"project":"p","name":"lc","resourcesByApp":[]}`,
	} {
		c.Run(t, step{Do: "GET " + lc + "/status" + query, Status: 200, Text: want})
	}
	doc, err := c.DB.Get(t.Context(), "projects/p/logical-clouds/lc")
	if err != nil {
		t.Fatal(err)
	}
	c.Run(t,
		step{Do: "GET " + lc + "/status?instance=" + doc.UID, Status: 200, Text: `"deployedStatus":"Instantiated"`},
		step{Do: "GET " + lc + "/status?instance=5", Status: 400, Text: "Invalid query instance"},
		step{Do: "GET " + lc + "/status?instance=", Status: 400, Text: "=Invalid query instance"},
		step{Do: "GET " + lc + "/status?status=up", Status: 400, Text: "=Invalid query status"},
		step{Do: "GET " + lc + "/status?output=much", Status: 400, Text: "=Invalid query output"},
		step{Do: "GET " + lc + "/status?cluster=edge+c1", Status: 400, Text: "=Invalid cluster query"},
		step{Do: "GET " + lc + "/status?watch=yes", Status: 400, Text: "=Invalid query watch"},
		step{Do: "POST " + lc + "/stop", Status: 200},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"InstantiateFailed"`},
		step{Do: "POST " + lc + "/terminate", Status: 202},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"Terminated"}`},
	)
}

// The rest of a deployment counts under the id that clusters know it by.
func TestACloudIsInUseWhilePairsAreLeft(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	c.Run(t, step{Do: "POST " + lc + "/instantiate", Status: 202})
	const group = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g"
	doc, err := c.DB.Create(t.Context(), store.Write{Key: group, Refs: []store.Ref{{Key: "projects/p/logical-clouds/lc", Must: true}}})
	if err != nil {
		t.Fatal(err)
	}
	k := appcontext.PairKey{Cluster: "edge+c1", Deployment: "inherited", App: "a"}
	if err := c.contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{{Key: k}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.contexts.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: appcontext.HeadID(doc.UID), State: appcontext.Terminated, Rev: 1, Gone: true, Inherited: "inherited"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.Run(t, step{Do: "POST " + lc + "/terminate", Status: 409, Text: "in use by " + group})
	if err := c.contexts.PutPairs(t.Context(), appcontext.Fence{}, nil, []appcontext.PairKey{k}); err != nil {
		t.Fatal(err)
	}
	c.Run(t, step{Do: "POST " + lc + "/terminate", Status: 202})
}
