package e2e

import (
	"os/exec"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

// One deployment to clusters of different types, one of them direct: the folder of an app is the same
// Git tree for all pull-mode clusters, and the direct cluster has the objects.
func TestClustersOfDifferentTypesHoldTheSame(t *testing.T) {
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("found", f.Found(t.Context(), s.repository()))
	pulling := []string{v2.PureGit, v2.FluxCD, v2.ArgoCD, v2.Anthos}
	for _, kind := range pulling {
		s.must("register "+kind, f.RegisterAs(t.Context(), kind, kind))
	}
	s.must("register the direct cluster", f.RegisterDirect(t.Context(), "direct", l.c1.Kubeconfig()))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	d := fleet.Deployment{Name: "mixed", Apps: []fleet.App{{Chart: fleet.Synthetic("mixed", 3)}}}
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	id := s.status(d.Path()).States.StatusCtxID
	trees := map[string]bool{}
	for _, kind := range pulling {
		path := "clusters/" + fleet.Provider + "+" + kind + "/context/" + id + "/app/mixed"
		out, err := exec.CommandContext(t.Context(), "git", "--git-dir", s.bare.Dir, "rev-parse", branch+":"+path).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, out)
		}
		trees[strings.TrimSpace(string(out))] = true
	}
	if len(trees) != 1 {
		t.Errorf("the app has the trees %v, want one", trees)
	}
	if got := kubectl(t, l.c1, "get", "configmaps,services,deployments", "-A", "-l", "emco/deployment-id="+id+"-mixed", "-o", "name"); got == "" {
		t.Error("the direct cluster has no object of the app")
	}
	s.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
	s.wait(d.Path(), "terminated")
}
