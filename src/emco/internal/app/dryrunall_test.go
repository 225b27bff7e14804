package app_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

var pathVariable = regexp.MustCompile(`\{[^}]+\}`)

// filled puts names into a path template; what has none is called "fresh".
func filled(template string, names map[string]string) string {
	return pathVariable.ReplaceAllStringFunc(strings.TrimPrefix(template, "/v2/"), func(v string) string {
		if name := names[strings.Trim(v, "{}")]; name != "" {
			return name
		}
		return "fresh"
	})
}

// everything makes one of most documents, with a deployment that is instantiated, and returns
// their names by the variables of paths.
func (s *testStage) everything() map[string]string {
	s.Helper()
	s.fleet("a", "b")
	s.onboard("web", "cache")
	s.expect(201, "POST", "controllers", `{"metadata":{"name":"action"},"spec":{"host":"h","port":1,"type":"action","priority":1}}`)
	s.expect(201, "POST", "clm-controllers", `{"metadata":{"name":"events"},"spec":{"host":"h","port":1,"priority":1}}`)
	s.expect(201, "POST", "dtc-controllers", `{"metadata":{"name":"traffic"},"spec":{"host":"h","port":1,"type":"action","priority":1}}`)
	s.expect(201, "POST", till+"/apps/cache/dependency", `{"metadata":{"name":"first"},"spec":{"app":"web","opStatus":"Deployed"}}`)
	s.expect(201, "POST", provider+"/clusters/a/kv-pairs", `{"metadata":{"name":"facts"},"spec":{"kv":[{"k":"v"}]}}`)
	s.expect(201, "POST", "roles", `{"metadata":{"name":"restarter"},"spec":{"rules":[{"verbs":["act:stop"],"types":["deployment-intent-groups"]}]}}`)
	for _, at := range []string{"role-bindings", "projects/shop/role-bindings", provider + "/role-bindings"} {
		s.expect(201, "POST", at, binding("team", "restarter", "user:corp:bob"))
	}
	s.expect(201, "POST", "tokens", tokenDocument("ci"))
	g := s.group("autumn", appPlaces{"web": {"a"}, "cache": {"a"}})
	s.expect(201, "POST", g.path+"/generic-k8s-intents", named("extra"))
	s.expect(201, "POST", g.path+"/traffic-group-intents", named("traffic"))
	servers, needs := g.path+"/traffic-group-intents/traffic/inbound-intents", g.path+"/hpa-intents/needs/hpa-resource-consumers"
	s.expect(201, "POST", servers, `{"metadata":{"name":"server"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":80,"protocol":"TCP"}}`)
	s.expect(201, "POST", servers+"/server/clients", `{"metadata":{"name":"client"},"spec":{"app":"cache","appLabel":"app=cache","serviceName":"cache","namespaces":[],"cidrs":[]}}`)
	s.expect(201, "POST", servers+"/server/clients/client/access-points", `{"metadata":{"name":"point"},"spec":{"action":"ALLOW","url":[],"access":[]}}`)
	s.expect(201, "POST", g.path+"/hpa-intents", `{"metadata":{"name":"needs"},"spec":{"app":"web"}}`)
	s.expect(201, "POST", needs, `{"metadata":{"name":"consumer"},"spec":{"name":"web"}}`)
	s.expect(201, "POST", needs+"/consumer/resource-requirements", `{"metadata":{"name":"need"},"spec":{"allocatable":true,"resource":{"name":"cpu","requests":1}}}`)
	s.expect(201, "POST", g.path+"/network-chains", `{"metadata":{"name":"chain"},"spec":{"chainType":"Routing"}}`)
	s.expect(201, "POST", g.path+"/network-chains/chain/links", `{"metadata":{"name":"link"},"spec":{"leftNet":"a","rightNet":"b","linkLabel":"a=b","app":"web","workloadResource":"web","resourceType":"Deployment"}}`)
	s.expect(201, "POST", g.path+"/network-chains/chain/client-selectors", `{"metadata":{"name":"selector"},"spec":{"chainEnd":"left","podSelector":{"matchLabels":{"a":"b"}}}}`)
	s.expect(201, "POST", g.path+"/network-chains/chain/provider-networks", `{"metadata":{"name":"network"},"spec":{"chainEnd":"left","providerNetwork":"n","gatewayIp":"10.1.0.1","subnet":"10.1.0.0/16"}}`)
	s.expect(201, "POST", g.path+"/sfc-clients", `{"metadata":{"name":"guest"},"spec":{"chainEnd":"left","sfcIntent":"chain","app":"cache","workloadResource":"cache","resourceType":"Deployment"}}`)
	s.expect(201, "POST", "policy/agents/watcher", `{}`)
	s.expect(201, "POST", g.path+"/policy-intents/alarm", `{"spec":{"event":{"id":"alarm","agent":"watcher"},"policy":{"expression":"event.data.load > 1"},"actor":"update"}}`)
	s.expect(201, "POST", provider+"/clusters/a/networks", networkDocument("tills"))
	s.expect(201, "POST", provider+"/clusters/a/provider-networks", providerNetworkDocument("branch"))
	s.expect(201, "POST", g.path+"/network-controller-intent", named("nets"))
	s.expect(201, "POST", g.path+"/network-controller-intent/nets/workload-intents", `{"metadata":{"name":"load"},"spec":{"app":"web","workloadResource":"web","type":"Deployment"}}`)
	s.expect(201, "POST", g.path+"/network-controller-intent/nets/workload-intents/load/interfaces", `{"metadata":{"name":"eth"},"spec":{"interface":"net0","name":"tills"}}`)
	s.expect(201, "POST", cloud+"/kv-pairs", `{"metadata":{"name":"facts"},"spec":{"kv":[{"k":"v"}]}}`)
	issuing := newCertCluster(s.T)
	issuing.signs.Store(true)
	if a := s.register("direct", named("direct"), string(issuing.Kubeconfig())); a.Status != http.StatusCreated {
		s.Fatalf("register a direct cluster: %+v", a)
	}
	s.expect(201, "POST", cloud+"/cluster-references", `{"metadata":{"name":"direct"},"spec":{"clusterProvider":"edge","cluster":"direct"}}`)
	s.authorities("authority")
	g.act("instantiate")
	g.becomes("Instantiated")
	g.expect(201, "POST", g.path+"/temporal-action-controller", silentHook("gate"))
	g.expect(201, "POST", g.path+"/temporal-action-controller/gate/workers", `{"metadata":{"name":"crew"},"spec":{"deploymentIntentGroup":"autumn","compositeApp":"till","compositeAppVersion":"v1"}}`)
	g.expect(201, "POST", g.path+"/temporal-workflow-intents", `{"metadata":{"name":"index"},"spec":{`+silentWorkflow+`}}`)
	return map[string]string{
		"caCert": "authority", "caCertCluster": "direct", "caCertLogicalCloud": "stores",
		"hookIntent": "gate", "workerIntent": "crew", "workflowIntent": "index",
		"project": "shop", "compositeApp": "till", "compositeAppVersion": "v1", "app": "cache", "compositeProfile": "small", "appProfile": "web", "dependency": "first", "genericK8sIntent": "extra", "trafficGroupIntent": "traffic", "inboundServerIntent": "server", "inboundClientsIntent": "client", "inboundClientsAccessIntent": "point", "hpaIntent": "needs", "hpaConsumer": "consumer", "hpaResource": "need", "logicalCloudKv": "facts", "dtcController": "traffic",
		"sfcIntent": "chain", "sfcLink": "link", "sfcClientSelector": "selector", "sfcProviderNetwork": "network", "sfcClientIntent": "guest", "agent": "watcher", "policyIntent": "alarm",
		"deploymentIntentGroup": "autumn", "genericPlacementIntent": "places", "genericAppPlacementIntent": "web", "groupIntent": "all",
		"logicalCloud": "stores", "clusterReference": "b", "clusterProvider": "edge", "cluster": "a", "clusterLabel": "all", "clusterKv": "facts",
		"network": "tills", "providerNetwork": "branch", "netControllerIntent": "nets", "workloadIntent": "load", "interfaceIntent": "eth",
		"role": "restarter", "roleBinding": "team", "token": "ci",
		"lane":              v2.LaneID(s.git.URL("fleet"), branch),
		"clusterSyncObject": "repo", "controller": "action", "controller-name": "events",
	}
}

// authorities makes certificate authorities of a name, in the provider and in the project, with the clusters that they
// are for.
func (s *testStage) authorities(name string) {
	s.Helper()
	const direct = `{"metadata":{"name":"direct"},"spec":{"scope":"name","clusterProvider":"edge","cluster":"direct"}}`
	for _, root := range []string{provider, "projects/shop"} {
		s.authority(root, name)
	}
	s.expect(201, "POST", provider+"/ca-certs/"+name+"/clusters", direct)
	s.expect(201, "POST", "projects/shop/ca-certs/"+name+"/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"logicalCloud":"stores"}}`)
	s.expect(201, "POST", "projects/shop/ca-certs/"+name+"/logical-clouds/stores/clusters", direct)
}

// authority makes a certificate authority without clusters.
func (s *testStage) authority(root, name string) {
	s.Helper()
	s.expect(201, "POST", root+"/ca-certs", `{"metadata":{"name":"`+name+`"},"spec":{"isCA":true,"issuerRef":{"name":"root"},"issuingCluster":{"clusterProvider":"edge","cluster":"direct"},"csrInfo":{"algorithm":{"publicKeyAlgorithm":"Ed25519"},"subject":{"names":{"commonNamePrefix":"edge"}}}}}`)
}

// silentWorkflow is a workflow on a server that does not answer.
const silentWorkflow = `"workflowClient":{"clientEndpointName":"127.0.0.1","clientEndpointPort":9},"temporal":{"workflowClientName":"w"}`

// silentHook returns a hook before updates whose server does not answer.
func silentHook(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"hookType":"pre-update",` + silentWorkflow + `}}`
}

func networkDocument(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"a","subnet":"10.20.0.0/24"}]}}`
}

func providerNetworkDocument(name string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"a","subnet":"10.20.0.0/24"}],"providerNetType":"DIRECT","vlan":{"providerInterfaceName":"eth1","vlanNodeSelector":"any"}}}`
}

// writes returns the method and the template of every declared route that writes.
func writes(t *testing.T) (out [][2]string) {
	t.Helper()
	eachRoute(t, func(method, template string) {
		if method != http.MethodGet {
			out = append(out, [2]string{method, template})
		}
	})
	if len(out) < 50 {
		t.Fatalf("%d routes that write", len(out))
	}
	return out
}

// F13: no route ignores ?dryRun=true. Whatever a request asks for, and whatever the answer is,
// neither documents nor the AppContext change.
func TestF13NoDryRunChangesAnything(t *testing.T) {
	t.Parallel()
	etcd := distantEtcd(t, 0)
	s := newStageOn(t, etcd)
	cluster, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	s.must("reach etcd", err)
	t.Cleanup(func() { _ = cluster.Close() })
	names := s.everything()
	bodies := []string{
		"", "{}", named("fresh"), `{"clusterLabel":"fresh"}`, `{"metadata":{"name":"fresh"},"spec":{"compositeAppVersion":"v9"}}`,
		`{"metadata":{"description":"another"},"spec":{"kv":[{"url":"` + s.git.URL("fleet") + `"},{"branch":"` + branch + `"}]}}`,
		`{"metadata":{"name":"fresh"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`,
		`{"metadata":{"name":"fresh"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"b"}]}}}`,
		`{"metadata":{},"spec":{"revision":"1"}}`, `{"gitOpsType":"fluxcd"}`, `{"abort":true}`,
		`{"url":"` + s.git.URL("fleet") + `","branch":"` + branch + `"}`, `{"id":"alarm","data":{"load":2}}`,
	}
	was, succeeded := s.contents(cluster), map[string]bool{}
	for _, route := range writes(t) {
		method, path := route[0], filled(route[1], names)
		for i, body := range bodies {
			if method == http.MethodDelete && i > 0 {
				continue
			}
			a := s.do(method, path+"?dryRun=true", body)
			if a.Status == http.StatusInternalServerError {
				t.Errorf("%s %s %s: %s", method, path, body, a.Body)
			}
			if a.Status < 300 {
				succeeded[method+" "+route[1]] = true
			}
		}
		if method != http.MethodDelete {
			if a := s.send(multipartTrial(s, method, path+"?dryRun=true")); a.Status < 300 {
				succeeded[method+" "+route[1]] = true
			}
		}
		if now := s.contents(cluster); !slices.Equal(was, now) {
			t.Fatalf("a dry run of %s %s wrote: there was\n%s\nthere is\n%s", method, route[1], strings.Join(was, "\n"), strings.Join(now, "\n"))
		}
	}
	for _, want := range []string{
		"POST /v2/projects", "DELETE " + clusterRoute + "/labels/{clusterLabel}", "POST " + clusterRoute + "/move", "POST " + clusterRoute + "/monitor/token",
		"DELETE " + clusterRoute + "/monitor/token", "POST /v2/git/adopt", "POST " + groupRoute + "/update", "POST " + groupRoute + "/rollback", "POST /v2/policy/agents/{agent}/events",
		"POST " + groupRoute + "/terminate", "POST /v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/apps",
	} {
		if !succeeded[want] {
			t.Errorf("no dry run of %s succeeded, so the test shows nothing about it", want)
		}
	}
	t.Logf("dry runs of %d of %d routes that write succeeded", len(succeeded), len(writes(t)))
	if st := s.do("GET", clusterPath("a")+"/move", ""); st.Status != http.StatusNotFound {
		t.Errorf("the cluster was moved: %+v", st)
	}
}

func clusterPath(name string) string { return provider + "/clusters/" + name }

// multipartTrial uploads a chart called fresh.
func multipartTrial(s *testStage, method, path string) client.Request {
	body, err := client.Multipart([]byte(named("fresh")), client.File{Part: "file", Name: "fresh.tgz", Data: s.chart("fresh", configMap)})
	s.must("make a body", err)
	return client.Request{Method: method, Path: path, Body: body}
}
