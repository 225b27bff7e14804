package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arctest"
)

// newAzureStage is a stage with a simulated Azure that holds clusters.
func newAzureStage(t *testing.T, clusters ...string) (*testStage, *arctest.Server) {
	t.Helper()
	azure := arctest.New(t, clusters...)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(azure.CA), 0o600); err != nil {
		t.Fatal(err)
	}
	return newStageWith(t, func(c *config.Config) {
		c.Azure.Authority, c.Azure.Manager, c.Azure.CA = azure.URL, azure.URL, ca
	}), azure
}

// arc registers an Arc-enabled cluster of the same name in Azure.
func (s *testStage) arc(name, secret string) {
	s.Helper()
	s.expect(201, "POST", provider+"/cluster-sync-objects", arcObject(name, secret))
	s.expect(201, "POST", provider+"/clusters", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"gitOps":{"gitOpsType":"azureArcV2","gitOpsReferenceObject":"repo","gitOpsResourceObject":%q}}}`, name, name))
	s.expect(201, "POST", provider+"/clusters/"+name+"/labels", `{"clusterLabel":"all"}`)
	s.member(name)
}

func arcObject(name, secret string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"kv":[{"clientID":%q},{"tenantID":%q},{"clientSecret":%q},
		{"subscriptionID":%q},{"arcCluster":%q},{"arcResourceGroup":%q},{"timeOut":"60"},{"syncInterval":"60"},{"retryInterval":"60"}]}}`,
		name, arctest.Client, arctest.Tenant, secret, arctest.Subscription, name, arctest.Group)
}

func TestAzureArcEndToEnd(t *testing.T) {
	t.Parallel()
	s, azure := newAzureStage(t, "arc1", "arc2")
	s.fleet("a")
	s.arc("arc1", arctest.Secret)
	s.onboard("web", "cache")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"arc1"}})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	s.wantTree(object("a", id, "web"), object("arc1", id, "web"), object("arc1", id, "cache"))
	if s.hash("a", id, "web") != s.hash("arc1", id, "web") {
		t.Error("the app's folder differs from that of a plain Git cluster")
	}
	s.wantArc(azure, "arc1", id, "cache", "web")

	azure.Calls()
	s.repack("web", configMap+"  size: big\n") // content changes: Azure is not written
	g.act("update")
	g.becomes("Instantiated")
	for _, c := range azure.Calls() {
		if strings.HasPrefix(c, "PUT") {
			t.Errorf("an update of content asks Azure: %s", c)
		}
	}

	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
	if p, _ := azure.Resource("arc1", "fluxConfigurations/config-"+id); p != nil {
		t.Errorf("the configuration is still there: %v", p)
	}
	all := s.expect(200, "GET", provider+"/cluster-sync-objects/arc1", "") + s.log.String()
	if strings.Contains(all, arctest.Secret) {
		t.Error("an answer or the log holds the client secret")
	}
}

// blames waits until the app "web" on a cluster has failed for a reason.
func (s *testStage) blames(g testGroup, cluster, reason string) {
	s.Helper()
	s.eventually(g.path+" reports the reason", func() string {
		p := pair(g.status(), "web", cluster)
		if p.Phase == "Failed" && strings.Contains(p.Error, reason) {
			return ""
		}
		return "phase " + p.Phase + ", error " + p.Error
	})
}

// wantArc checks that Azure has one kustomization for each app, with the path of its folder.
func (s *testStage) wantArc(azure *arctest.Server, cluster, id string, apps ...string) {
	s.Helper()
	p, _ := azure.Resource(cluster, "fluxConfigurations/config-"+id)
	all, _ := p["kustomizations"].(map[string]any)
	if len(all) != len(apps) {
		s.Errorf("Azure has %d kustomizations for %s, want those of %v", len(all), cluster, apps)
	}
	for _, app := range apps {
		k, _ := all[app].(map[string]any)
		if got, want := k["path"], "./clusters/edge+"+cluster+"/context/"+id+"/app/"+app; got != want {
			s.Errorf("kustomization of %s has path %v, want %s", app, got, want)
		}
	}
}

// hash names the content of an app's folder.
func (s *testStage) hash(cluster, id, app string) string {
	s.Helper()
	out, err := s.bare.Git(s.Context(), "", "rev-parse", branch+":clusters/edge+"+cluster+"/context/"+id+"/app/"+app)
	s.must("name a folder", err)
	return strings.TrimSpace(out)
}

func TestAnAzureFailureStopsNoOtherCluster(t *testing.T) {
	t.Parallel()
	s, azure := newAzureStage(t, "arc1", "arc2")
	s.fleet("a")
	s.arc("arc1", arctest.Secret)
	s.arc("arc2", "planted-wrong")
	s.onboard("web")
	azure.Break(arctest.Fault{Method: "PUT", Path: "arc1", Status: 503})
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	s.eventually("the plain cluster has its app", func() string { return unless(pair(g.status(), "web", "a").Phase, "Applied") })
	s.blames(g, "arc1", "503")
	s.blames(g, "arc2", "AADSTS7000215")
	if strings.Contains(s.log.String()+s.expect(200, "GET", g.path+"/status", ""), "planted-wrong") {
		t.Error("an answer or the log holds the client secret")
	}

	azure.Repair()
	s.expect(201, "PUT", provider+"/cluster-sync-objects/arc2", arcObject("arc2", arctest.Secret))
	id := g.becomes("Instantiated").States.StatusCtxID
	s.wantArc(azure, "arc1", id, "web")
	s.wantArc(azure, "arc2", id, "web")
}

// If a process ends after the commit and before it has configured Azure, its successor does
// the rest.
func TestAzureIsUpdatedAfterARestart(t *testing.T) {
	t.Parallel()
	s, azure := newAzureStage(t, "arc1")
	s.fleet("a")
	s.arc("arc1", arctest.Secret)
	s.onboard("web")
	azure.Break(arctest.Fault{Method: "PUT", Status: 500})
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	s.blames(g, "arc1", "500")
	s.stop()
	azure.Repair()
	s.start()
	id := g.becomes("Instantiated").States.StatusCtxID
	s.wantArc(azure, "arc1", id, "web")
	g.act("terminate")
	g.becomes("Terminated")
	if p, _ := azure.Resource("arc1", "fluxConfigurations/config-"+id); p != nil {
		t.Errorf("the configuration is still there: %v", p)
	}
}
