package sfc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/sfc"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

type step = resourcetest.Step

const (
	app    = "projects/p/composite-apps/ca/v1"
	group  = app + "/deployment-intent-groups/g"
	other  = "projects/p/composite-apps/net/v2/deployment-intent-groups/functions"
	inside = "/v2/" + group
)

func serve(t *testing.T) *resourcetest.Server {
	t.Helper()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { sfc.Resources{DB: db}.Mount(r) })
	for _, key := range []store.Key{group, other, app + "/apps/firewall", app + "/apps/web"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const (
	chain    = `{"chainType":"Routing","namespace":"shop"}`
	link     = `{"leftNet":"left-net","rightNet":"right-net","linkLabel":"chain=firewall","app":"firewall","workloadResource":"r1-firewall","resourceType":"Deployment"}`
	selector = `{"chainEnd":"left","podSelector":{"matchLabels":{"chain":"left"}},"namespaceSelector":{}}`
	network  = `{"chainEnd":"right","providerNetwork":"right-provider","gatewayIp":"172.30.20.2","subnet":"172.30.20.0/24"}`
	client   = `{"chainEnd":"left","sfcIntent":"inspect","compositeApp":"net","compositeAppVersion":"v2","deploymentIntentGroup":"functions","app":"web","workloadResource":"r1-web","resourceType":"StatefulSet"}`
)

func TestChains(t *testing.T) {
	t.Parallel()
	s := serve(t)
	chains := inside + "/network-chains"
	links, selectors, networks := chains+"/inspect/links", chains+"/inspect/client-selectors", chains+"/inspect/provider-networks"
	s.Run(t,
		step{Do: "GET " + chains, Status: 200, Text: "=[]"},
		step{Do: "GET /v2/" + app + "/deployment-intent-groups/x/network-chains", Status: 404, Text: "DeploymentIntentGroup not found"},
		step{Do: "POST " + chains, Body: document("inspect", chain), Status: 201, Text: `"chainType":"Routing"`},
		step{Do: "POST " + chains, Body: document("inspect", chain), Status: 409, Text: "=SfcIntent already exists"},
		step{Do: "POST " + chains, Body: document("bad", `{"chainType":"VLAN","namespace":"A b"}`), Status: 400, Text: `- spec.chainType: "VLAN" is not "Routing"
- spec.namespace: "A b" cannot be a namespace`},
		step{Do: "PUT " + chains + "/inspect", Body: document("inspect", `{"chainType":"Routing"}`), Status: 201, Text: `"namespace":""`},
		step{Do: "GET " + chains + "/none", Status: 404, Text: "=SfcIntent not found"},

		step{Do: "POST " + chains + "/none/links", Body: document("firewall", link), Status: 409, Text: "Parent resource not found"},
		step{Do: "POST " + links, Body: document("firewall", link), Status: 201},
		step{Do: "POST " + links, Body: document("bad", `{"leftNet":"a,net=b","rightNet":"*.b","linkLabel":"a b","app":"","workloadResource":"Web","resourceType":"Service"}`), Status: 400, Text: `- spec.leftNet: "a,net=b" is no name of a network; use lower-case letters, digits, '-' and '.'
- spec.rightNet: "*.b" is no name of a network; use lower-case letters, digits, '-' and '.'
- spec.linkLabel: "a b" is no label; write KEY=VALUE
- spec.app: missing
- spec.workloadResource: "Web" is no name of a workload
- spec.resourceType: "Service" is none of Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Pod`},
		step{Do: "POST " + links, Body: document("loop", `{"leftNet":"a","rightNet":"a","linkLabel":"a//b=c","app":"web","workloadResource":"w","resourceType":"Pod"}`), Status: 400, Text: `- spec.rightNet: "a" is spec.leftNet, too; a link joins two networks
- spec.linkLabel: "a//b" is no key of a label`},

		step{Do: "POST " + selectors, Body: document("tills", selector), Status: 201, Text: `"matchLabels":{"chain":"left"}`},
		step{Do: "POST " + selectors, Body: document("bad", `{"chainEnd":"top"}`), Status: 400, Text: `- spec.chainEnd: "top" is neither left nor right
- spec.podSelector: missing, and so is spec.namespaceSelector; say which pods use the chain`},
		step{Do: "POST " + selectors, Body: document("bad", `{"chainEnd":"left","podSelector":{"matchLabels":{"-":"a b"},"matchExpressions":[{"key":"a","operator":"In"},{"key":"b","operator":"Has","values":["c d"]},{"key":"c","operator":"NotIn","values":["-"]}]}}`), Status: 400, Text: `- spec.podSelector.matchLabels: "-" is no key of a label
- spec.podSelector.matchLabels."-": "a b" is no value of a label
- spec.podSelector.matchExpressions[0].values: In and NotIn need 1 to 20 values, and other operators none
- spec.podSelector.matchExpressions[1].operator: "Has" is none of In, NotIn, Exists, DoesNotExist
- spec.podSelector.matchExpressions[1].values: In and NotIn need 1 to 20 values, and other operators none
- spec.podSelector.matchExpressions[2].values[0]: "-"`},

		step{Do: "POST " + networks, Body: document("stores", network), Status: 201},
		step{Do: "POST " + networks, Body: document("bad", `{"chainEnd":"right","providerNetwork":"","gatewayIp":"172.30.20.2","subnet":"172.30.30.0/24"}`), Status: 400, Text: `- spec.providerNetwork: "" is no name of a network; use lower-case letters, digits, '-' and '.'
- spec.gatewayIp: "172.30.20.2" is not in spec.subnet`},
		step{Do: "POST " + networks, Body: document("bad", `{"chainEnd":"right","providerNetwork":"n","gatewayIp":"fe80::1%eth0","subnet":"172.30.20.1/24"}`), Status: 400, Text: `- spec.gatewayIp: "fe80::1%eth0" is no address
- spec.subnet: "172.30.20.1/24" is no range of addresses`},
		step{Do: "DELETE " + chains + "/inspect", Status: 409, Text: "Cannot delete parent"},
	)
	if err := s.DB.Delete(t.Context(), app+"/apps/firewall", nil); err == nil {
		t.Error("the app was deleted while a link names it")
	}
	s.Run(t,
		step{Do: "DELETE " + links + "/firewall", Status: 204},
		step{Do: "DELETE " + selectors + "/tills", Status: 204},
		step{Do: "DELETE " + networks + "/stores", Status: 204},
		step{Do: "DELETE " + chains + "/inspect", Status: 204},
		step{Do: "DELETE " + chains + "/inspect", Status: 404, Text: "=The requested resource not found"},
	)
}

// A client names a chain of another deployment, which cannot be deleted meanwhile.
func TestClientsOfChains(t *testing.T) {
	t.Parallel()
	s := serve(t)
	clients := inside + "/sfc-clients"
	s.Run(t,
		step{Do: "POST /v2/" + other + "/network-chains", Body: document("inspect", chain), Status: 201},
		step{Do: "POST " + clients, Body: document("tills", client), Status: 201, Text: `"sfcIntent":"inspect"`},
		step{Do: "POST " + clients, Body: document("bad", `{"chainEnd":"","sfcIntent":"","deploymentIntentGroup":"a/b","app":"web","workloadResource":"r1-web","resourceType":"Deployment"}`), Status: 400, Text: `- spec.chainEnd: "" is neither left nor right
- spec.sfcIntent: missing
- spec.deploymentIntentGroup: "a/b" is not a name`},
		step{Do: "DELETE /v2/" + other + "/network-chains/inspect", Status: 409, Text: "referencing resources"},
		step{Do: "PUT " + clients + "/tills", Body: document("tills", `{"chainEnd":"left","sfcIntent":"own","app":"web","workloadResource":"r1-web","resourceType":"StatefulSet"}`), Status: 201},
		step{Do: "DELETE /v2/" + other + "/network-chains/inspect", Status: 204},
		step{Do: "DELETE " + clients + "/tills", Status: 204},
		step{Do: "GET " + clients + "/tills", Status: 404, Text: "=SfcClientIntent not found"},
	)
}

// Who deploys may write the provider networks of chains, and not those of clusters, which have the same collection.
func TestNetworksOfChainsHaveATypeOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := web.NewRouter()
	sfc.Resources{}.Mount(r)
	types := map[string]bool{}
	err := r.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		declared, ok := route.GetHandler().(web.Declared)
		if ok && strings.Contains(web.Template(route), "/provider-networks") {
			types[declared.Permission().Type] = true
		}
		return nil
	})
	if err != nil || len(types) != 1 || !types["chain-networks"] {
		t.Errorf("the types are %v, %v", types, err)
	}
	p := authz.New(nil, []authz.Binding{{Name: "all", Role: authz.Deployer, Subjects: []string{"user:a"}}})
	if !p.Decide("user:a", nil, authz.Create, "chain-networks", "projects/p", time.Time{}).Allowed || p.Decide("user:a", nil, authz.Create, "provider-networks", "cluster-providers/p", time.Time{}).Allowed {
		t.Error("a deployer may not write networks of chains, or may write those of clusters")
	}
}
