package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arctest"
)

// The suite examples/emco/azure-arc with emcoctl, on a simulated Azure: the cluster's Flux is pointed at the files of the app,
// and at the end neither files nor a configuration are left.
func TestTheExampleOfAzureArc(t *testing.T) {
	t.Parallel()
	stage, azure := newAzureStage(t, "store-1")
	s := newExampleSuiteOn(stage, "azure-arc", map[string]string{
		"ClientID": arctest.Client, "TenantID": arctest.Tenant, "ClientSecret": arctest.Secret,
		"SubscriptionID": arctest.Subscription, "ArcCluster": "store-1", "ArcResourceGroup": arctest.Group,
	}, "web")
	s.apply("00-controllers.yaml", "01-prerequisites.yaml", "02-logical-cloud.yaml")
	s.apply("03-deployment-intent.yaml", "04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	s.has("c1", "web", "r1-web+Deployment", "replicas: 2")
	id := s.contextOf(suiteGroup)
	configuration, _ := azure.Resource("store-1", "fluxConfigurations/config-"+id)
	all, _ := configuration["kustomizations"].(map[string]any)
	web, _ := all["web"].(map[string]any)
	if want := "./clusters/edge+c1/context/" + id + "/app/web"; len(all) != 1 || web["path"] != want {
		t.Errorf("Azure has the kustomizations %v, want one with the path %s", all, want)
	}
	s.end("stores", "00-controllers.yaml", "01-prerequisites.yaml")
	if left, _ := azure.Resource("store-1", "fluxConfigurations/config-"+id); left != nil {
		t.Errorf("a configuration is left: %v", left)
	}
}

// The suite examples/emco/anthos with emcoctl: the objects of a privileged cloud come by a RootSync, and those of its app by a
// RepoSync in the cloud's namespace. No Config Sync runs here.
func TestTheExampleOfConfigSync(t *testing.T) {
	t.Parallel()
	s := newExampleSuiteOn(newStage(t), "anthos", nil, "web")
	s.apply("00-controllers.yaml", "01-prerequisites.yaml", "02-logical-cloud.yaml")
	s.ctl("wait", "projects/shop/logical-clouds/team", "--for=instantiated")
	cloud := s.tree()
	for _, object := range []string{
		"shop-team+Namespace", "small+ResourceQuota", "team-role0+Role", "team-role1+Role", "team-clusterRole2+ClusterRole",
	} {
		if !slices.ContainsFunc(cloud, func(path string) bool { return strings.HasSuffix(path, "/"+object+".yaml") }) {
			t.Errorf("the cloud lacks %s:\n%s", object, strings.Join(cloud, "\n"))
		}
	}
	s.apply("03-deployment-intent.yaml", "04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	s.has("c1", "web", "r1-web+Deployment", "replicas: 2", "namespace: shop-team")
	pointers := ""
	for _, path := range s.tree() {
		if strings.HasPrefix(path, "clusters/edge+c1/configsync/") {
			pointers += s.testStage.file(path)
		}
	}
	id := s.contextOf(suiteGroup)
	for _, part := range []string{"kind: RootSync", "kind: RepoSync", "namespace: shop-team", "dir: clusters/edge+c1/context/" + id, "period: 15s"} {
		if !strings.Contains(pointers, part) {
			t.Errorf("the pointers lack %q:\n%s", part, pointers)
		}
	}
	s.end("team", "00-controllers.yaml", "01-prerequisites.yaml", "02-logical-cloud.yaml")
}
