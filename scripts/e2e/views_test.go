package e2e

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// TestFluxReadsABranchOfItsOwn points Flux at the derived branch of its cluster, which contains only
// the cluster's directory of the branch shard. When the last deployment leaves, the content of the
// branch makes Flux remove everything.
func TestFluxReadsABranchOfItsOwn(t *testing.T) {
	const view = "clusters/edge+c2"
	do := steps{TB: t}
	do.next("a cluster with a derived branch, and one without deployments")
	l, s := clustersOf(t), newStage(t)
	f, keys := s.fleet(), map[string]v2.Scalar{"refMode": "cluster", "syncInterval": "1", "retryInterval": "1", "secretRef": flux.Namespace}
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	for _, name := range []string{"c2", "c9"} {
		s.must("register", f.RegisterFlux(t.Context(), name, s.repository(), keys))
	}
	s.must("open the cloud", f.OpenCloud(t.Context()))
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: fleet.Synthetic("web", 3)}}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	do.next("Flux is pointed at the branch")
	err := l.flux.Bootstrap(t.Context(), flux.Sync{URL: s.git.URL(repoName), Branch: view, Path: view, User: reader, Password: s.readerToken})
	s.must("point Flux at the branch", err)
	eventually(t, "the objects are there", func() error {
		list, err := ours(t.Context(), l.c2)
		if err == nil && len(list) < 3 {
			err = fmt.Errorf("there are %v", names(list))
		}
		return err
	})
	files, err := s.bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", view)
	s.must("list the branch", err)
	if strings.Contains(files, "c9") {
		t.Errorf("the branch contains other clusters:\n%s", files)
	}

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	s.sound()
	do.next("done")
}
