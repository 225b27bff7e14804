package app_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// reconciled registers one cluster of each type, named after it, of one repository. Apps
// go to all of them.
func (s *testStage) reconciled(types ...string) {
	s.Helper()
	s.expect(201, "POST", "cluster-providers", named("edge"))
	s.expect(201, "POST", provider+"/cluster-sync-objects", s.syncObject("repo", s.git.URL("fleet"), s.token))
	s.expect(201, "POST", provider+"/cluster-sync-objects", `{"metadata":{"name":"plugin"},"spec":{"kv":[{"plugin":"kapp"},{"serviceAccountName":"deployer"}]}}`)
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0","serviceAccountName":"stores"}}`)
	for _, kind := range types {
		other := ""
		if kind == "exec" {
			other = "plugin"
		}
		s.expect(201, "POST", provider+"/clusters",
			`{"metadata":{"name":"`+kind+`"},"spec":{"gitOps":{"gitOpsType":"`+kind+`","gitOpsReferenceObject":"repo","gitOpsResourceObject":"`+other+`"}}}`)
		s.expect(201, "POST", provider+"/clusters/"+kind+"/labels", `{"clusterLabel":"all"}`)
		s.member(kind)
	}
	s.expect(202, "POST", cloud+"/instantiate", "")
}

// withPlugin builds the example of a backend outside of the program.
func withPlugin(t *testing.T) func(*config.Config) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "kapp")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../../../examples/03-sync-plugin/main.go").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	return func(c *config.Config) { c.Sync.Plugins = []string{"kapp=" + bin} }
}

// One deployment to clusters of different types writes the same folder for each app to all
// of them; only the pointers to it differ.
func TestClustersOfAllTypesHoldTheSameAppFolders(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, withPlugin(t))
	types := []string{"git", "fluxcd", "argocd", "anthos", "exec"}
	s.reconciled(types...)
	s.onboard("web", "cache")
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	g.act("instantiate")
	id := g.becomes("Instantiated").States.StatusCtxID
	for _, app := range []string{"web", "cache"} {
		want := s.idOf(branch + ":clusters/edge+git/context/" + id + "/app/" + app)
		for _, kind := range types {
			if got := s.idOf(branch + ":clusters/edge+" + kind + "/context/" + id + "/app/" + app); got != want {
				t.Errorf("app %s on the cluster of type %s is tree %s, want %s", app, kind, got, want)
			}
		}
	}
	pointers := map[string][]string{
		"fluxcd": {id + ".yaml", "kust" + id + ".yaml"}, "argocd": {"argo" + id + ".yaml"},
		"anthos": {"configsync/" + id + ".yaml"}, "exec": {"kapp" + id + ".yaml"},
	}
	for kind, names := range pointers {
		for _, name := range names {
			if path := "clusters/edge+" + kind + "/" + name; !slices.Contains(s.tree(), path) {
				t.Errorf("there is no %s", path)
			}
		}
	}
	// Reconcilers get what the deployment's documents set for its logical cloud.
	if text := s.file("clusters/edge+argocd/argo" + id + ".yaml"); !strings.Contains(text, "description: logical cloud shop+stores\n") {
		t.Errorf("the project is of another logical cloud:\n%s", text)
	}
	if text := s.file("clusters/edge+fluxcd/kust" + id + ".yaml"); !strings.Contains(text, "serviceAccountName: stores\n") {
		t.Errorf("apps are not applied as the account of the logical cloud:\n%s", text)
	}
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree()
}
