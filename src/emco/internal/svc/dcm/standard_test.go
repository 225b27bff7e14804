package dcm_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
)

// standardCloud creates the cloud "std" of level 1 with namespace "team" and a reference to
// the direct cluster c1.
func (c cloudFixture) standardCloud(name, namespace string) (path string) {
	c.t.Helper()
	path = "/v2/projects/p/logical-clouds/" + name
	c.Run(c.t,
		step{Do: "POST /v2/projects/p/logical-clouds", Status: 201, Body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"` + namespace + `","labels":{"team":"a"},"user":{"userName":"ann","type":"certificate"}}}`},
		step{Do: "POST " + path + "/cluster-references", Body: `{"metadata":{"name":"r"},"spec":{"clusterProvider":"edge","cluster":"c1"}}`, Status: 201},
	)
	return path
}

func (c cloudFixture) permit(path, name, namespace string) {
	c.t.Helper()
	c.Run(c.t, step{Do: "POST " + path + "/user-permissions", Status: 201, Body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"` + namespace + `","apiGroups":["","apps"],"resources":["*"],"verbs":["*"]}}`})
}

// publish carries out the operation that waits for a cloud, and returns the objects of each
// cluster.
func (c cloudFixture) publish(key store.Key) (appcontext.Head, map[v2.ClusterKey][]string) {
	c.t.Helper()
	doc, err := c.DB.Get(c.t.Context(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	head, err := c.contexts.Head(c.t.Context(), appcontext.HeadID(doc.UID))
	if err != nil || head.Op == nil {
		c.t.Fatalf("no operation waits: %+v %v", head, err)
	}
	head, err = dcm.NewClouds(c.DB, c.contexts).Publish(c.t.Context(), c.contexts, head, doc)
	if err != nil {
		c.t.Fatal(err)
	}
	placements, err := c.contexts.Placements(c.t.Context(), head.UID, head.Rev)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[v2.ClusterKey][]string{}
	for _, p := range placements {
		bundle, err := c.contexts.GetBundle(c.t.Context(), p.Apps["logical-cloud"])
		if err != nil {
			c.t.Fatal(err)
		}
		for _, o := range bundle.Objects {
			out[p.Cluster] = append(out[p.Cluster], o.ID.String())
		}
	}
	return head, out
}

func TestACloudOfLevel1PreparesItsClusters(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	for name, kind := range map[string]string{"flux": "fluxcd", "argo": "argocd", "conf": "anthos"} {
		body := `{"metadata":{"name":"` + name + `"},"spec":{"gitOps":{"gitOpsType":"` + kind + `","gitOpsReferenceObject":"o","gitOpsResourceObject":"o"}}}`
		if _, err := c.DB.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name), Body: json.RawMessage(body)}); err != nil {
			t.Fatal(err)
		}
	}
	std := c.standardCloud("std", "team")
	c.Run(t, step{Do: "POST " + std + "/instantiate", Status: 409, Text: "no user permission for its own namespace team"})
	c.permit(std, "all", "")
	c.Run(t, step{Do: "POST " + std + "/instantiate", Status: 409, Text: "no user permission for its own namespace team"})
	c.permit(std, "own", "team")
	for _, name := range []string{"flux", "argo", "conf"} {
		c.Run(t, step{Do: "POST " + std + "/cluster-references", Body: `{"metadata":{"name":"` + name + `"},"spec":{"clusterProvider":"edge","cluster":"` + name + `"}}`, Status: 201})
	}
	c.Run(t,
		step{Do: "POST " + std + "/cluster-quotas", Body: `{"metadata":{"name":"small"},"spec":{"limits.cpu":"2","pods":10}}`, Status: 201},
		step{Do: "POST " + std + "/cluster-quotas", Body: `{"metadata":{"name":"bad"},"spec":{"limits.cpu":"much"}}`, Status: 400, Text: "spec.limits.cpu"},
		step{Do: "POST " + lc + "/cluster-quotas", Body: `{"metadata":{"name":"small"},"spec":{"pods":"1"}}`, Status: 400, Text: "Cluster Quotas not allowed for Logical Cloud Level 0"},
		step{Do: "POST " + std + "/kv-pairs", Body: `{"metadata":{"name":"facts"},"spec":{"kv":[{"a":"b"}]}}`, Status: 201},
		step{Do: "POST " + std + "/instantiate", Status: 202},
		step{Do: "GET " + std + "/status", Status: 200, Text: `"deployedStatus":"Instantiating"`},
		step{Do: "PUT " + std, Body: `{"metadata":{"name":"std"},"spec":{"namespace":"other","user":{"userName":"ann"}}}`, Status: 409, Text: "terminate it before it is changed"},
	)
	head, held := c.publish("projects/p/logical-clouds/std")
	if head.Rev != 1 || head.Op != nil {
		t.Errorf("the head is %+v, want revision 1 without an operation", head)
	}
	common := []string{
		"v1 Namespace team", "v1 ResourceQuota team/small",
		"rbac.authorization.k8s.io/v1 ClusterRole std-clusterRole0", "rbac.authorization.k8s.io/v1 ClusterRoleBinding std-clusterRoleBinding0",
		"rbac.authorization.k8s.io/v1 Role team/std-role1", "rbac.authorization.k8s.io/v1 RoleBinding team/std-roleBinding1",
	}
	for cluster, account := range map[v2.ClusterKey]string{"edge+c1": "", "edge+conf": "", "edge+flux": "v1 ServiceAccount flux-system/team-sa", "edge+argo": "v1 ServiceAccount team/team-sa"} {
		want := slices.Clone(common)
		if account != "" {
			want = append(want, account)
		}
		got := slices.Sorted(slices.Values(held[cluster]))
		slices.Sort(want)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s gets\n%s\nwant\n%s", cluster, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Two clouds never share a namespace of a cluster: each would give its user rights over the
// other's objects.
func TestCloudsOfLevel1DoNotShareANamespace(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	one, two, other := c.standardCloud("one", "team"), c.standardCloud("two", "team"), c.standardCloud("three", "another")
	for path, namespace := range map[string]string{one: "team", two: "team", other: "another"} {
		c.permit(path, "own", namespace)
	}
	c.Run(t,
		step{Do: "POST " + one + "/instantiate", Status: 202},
		step{Do: "POST " + two + "/instantiate", Status: 409, Text: "namespace team belongs to projects/p/logical-clouds/one on cluster edge+c1"},
		step{Do: "POST " + other + "/instantiate", Status: 202},
	)
}

// An update makes the next revision from the current documents.
func TestACloudOfLevel1IsUpdated(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	std := c.standardCloud("std", "team")
	c.permit(std, "own", "team")
	c.Run(t, step{Do: "POST " + std + "/update", Status: 202}) // not instantiated: no effect, as in upstream EMCO
	c.Run(t, step{Do: "POST " + std + "/instantiate", Status: 202})
	c.publish("projects/p/logical-clouds/std")
	c.Run(t,
		step{Do: "POST " + std + "/cluster-quotas", Body: `{"metadata":{"name":"small"},"spec":{"pods":"10"}}`, Status: 201},
		step{Do: "POST " + std + "/update", Status: 202},
	)
	head, held := c.publish("projects/p/logical-clouds/std")
	if head.Rev != 2 || !slices.Contains(held["edge+c1"], "v1 ResourceQuota team/small") {
		t.Errorf("revision %d has %q, want revision 2 with the quota", head.Rev, held["edge+c1"])
	}
	c.Run(t,
		step{Do: "GET " + std + "/status", Status: 200, Text: `"state":"Updated"`},
		step{Do: "POST " + std + "/terminate", Status: 202},
		step{Do: "GET " + std + "/status", Status: 200, Text: `"state":"Terminated"`},
		step{Do: "DELETE " + std + "/user-permissions/own", Status: 204},
	)
}

func TestACloudOfLevel1NeedsANamespaceAndAUser(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	for _, tt := range []struct{ spec, text string }{
		{`{"user":{"userName":"ann"}}`, "spec.namespace: is empty"},
		{`{"namespace":"team"}`, "spec.user.userName: is empty"},
		{`{"namespace":"kube-system","user":{"userName":"ann"}}`, "belongs to the system of the cluster"},
		{`{"namespace":"config-management-system","user":{"userName":"ann"}}`, "belongs to the system of the cluster"},
		{`{"namespace":"emco","user":{"userName":"ann"}}`, "belongs to the system of the cluster"},
		{`{"namespace":"default","user":{"userName":"ann"}}`, "belongs to the cluster"},
		{`{"namespace":"team","user":{"userName":"system:masters"}}`, "a name of Kubernetes itself"},
		{`{"namespace":"team","user":{"userName":"ann","type":"password"}}`, "spec.user.type"},
		{`{"namespace":"team","user":{"userName":"ann"},"networkPolicy":"all"}`, "spec.networkPolicy"},
	} {
		c.Run(t, step{Do: "POST /v2/projects/p/logical-clouds", Body: `{"metadata":{"name":"x"},"spec":` + tt.spec + `}`, Status: 400, Text: tt.text})
	}
}

// A namespace may become one of the system in a later version: clouds that have it stay as they are, and no other cloud gets it.
func TestACloudKeepsANamespaceThatBecameOneOfTheSystem(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	stored := store.Write{
		Key: "projects/p/logical-clouds/old", Parent: "projects/p",
		Body: json.RawMessage(`{"metadata":{"name":"old"},"spec":{"namespace":"emco","level":"1","user":{"userName":"ann"}}}`),
	}
	if _, err := c.DB.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	const path = "/v2/projects/p/logical-clouds"
	body := func(name, namespace string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"` + namespace + `","labels":{"a":"b"},"user":{"userName":"ann"}}}`
	}
	c.Run(t,
		step{Do: "PUT " + path + "/old", Body: body("old", "emco"), Status: 201, Text: `"labels":{"a":"b"}`},
		step{Do: "PUT " + path + "/old", Body: body("old", "emco-system"), Status: 400, Text: "spec.namespace"},
		step{Do: "PUT " + path + "/old", Body: body("old", "team"), Status: 201},
		step{Do: "PUT " + path + "/old", Body: body("old", "emco"), Status: 400, Text: "spec.namespace"},
		step{Do: "POST " + path, Body: `{"metadata":{"name":"admin"},"spec":{"level":"0","namespace":"emco"}}`, Status: 201},
		step{Do: "PUT " + path + "/admin", Body: body("admin", "emco"), Status: 400, Text: "spec.namespace"},
	)
}
