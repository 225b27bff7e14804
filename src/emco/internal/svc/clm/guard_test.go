package clm_test

import (
	"context"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
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
