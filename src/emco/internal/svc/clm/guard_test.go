package clm_test

import (
	"context"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// wanted reports that a deployment is desired on one cluster.
func wanted(_ context.Context, cluster v2.ClusterKey) (bool, error) { return cluster == "edge+c4", nil }

// A cluster on which a deployment desires something cannot be deleted: another cluster of
// that name would get it.
func TestAClusterThatIsWantedStays(t *testing.T) {
	t.Parallel()
	const all = "/v2/cluster-providers"
	serve(t).Run(t,
		step{Do: "POST " + all, Body: named("edge"), Status: 201},
		step{Do: "POST " + all + "/edge/cluster-sync-objects", Body: repo, Status: 201},
		step{Do: "POST " + all + "/edge/clusters", Body: strings.Replace(flux, `"c2"`, `"c3"`, 1), Status: 201},
		step{Do: "POST " + all + "/edge/clusters", Body: strings.Replace(flux, `"c2"`, `"c4"`, 1), Status: 201},
		step{Do: "DELETE " + all + "/edge/clusters/c4", Status: 409, Text: "something is deployed on cluster c4; terminate it"},
		step{Do: "GET " + all + "/edge/clusters/c4", Status: 200},
		step{Do: "DELETE " + all + "/edge/clusters/c3", Status: 204},
	)
}

// The service of networks can refuse the deletion of a cluster, and is notified of it.
func TestAClusterWithNetworksStays(t *testing.T) {
	t.Parallel()
	const all = "/v2/cluster-providers"
	applied, told := true, 0
	s := serveGuarded(t, resource.Guards{
		Delete: func(_ context.Context, doc store.Doc) error {
			if applied {
				return errs.New(errs.Conflict, "networks of "+string(doc.Key)+" are applied")
			}
			return nil
		},
		Deleted: func(context.Context, store.Doc) error { told++; return nil },
	})
	s.Run(t,
		step{Do: "POST " + all, Body: named("edge"), Status: 201},
		step{Do: "POST " + all + "/edge/cluster-sync-objects", Body: repo, Status: 201},
		step{Do: "POST " + all + "/edge/clusters", Body: strings.Replace(flux, `"c2"`, `"c3"`, 1), Status: 201},
		step{Do: "DELETE " + all + "/edge/clusters/c3", Status: 409, Text: "networks of cluster-providers/edge/clusters/c3 are applied"},
	)
	applied = false
	s.Run(t, step{Do: "DELETE " + all + "/edge/clusters/c3?dryRun=true", Status: 204})
	if told != 0 {
		t.Error("a dry run has told them")
	}
	s.Run(t, step{Do: "DELETE " + all + "/edge/clusters/c3", Status: 204})
	if told != 1 {
		t.Errorf("they were told %d times, want 1", told)
	}
}
