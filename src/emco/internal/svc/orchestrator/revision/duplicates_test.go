package revision_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
)

// countedBlobs counts reads of bundles.
type countedBlobs struct {
	*appcontext.Store
	reads int
}

func (c *countedBlobs) GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	c.reads++
	return c.Store.GetBundle(ctx, d)
}

// placedEverywhere is five other deployments that place one bundle on each cluster, two of them of another project.
type placedEverywhere struct {
	bundle appcontext.Digest
	looks  int
}

func (p *placedEverywhere) Cluster(v2.ClusterKey) (out []mirror.ClusterPair) {
	p.looks++
	for i := range 5 {
		out = append(out, mirror.ClusterPair{
			UID: v2.DeploymentID(fmt.Sprint(100 + i)), App: "other", Entry: &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Desired: p.bundle})},
		})
	}
	return out
}

func (p *placedEverywhere) Document(d v2.DeploymentID) string {
	if d >= "103" {
		return "projects/bank/composite-apps/secret/v1/deployment-intent-groups/" + string(d)
	}
	return "projects/shop/composite-apps/till/v1/deployment-intent-groups/" + string(d)
}

// The search costs what a change costs: bundles are compared once for all clusters, and clusters where nothing changes are
// not looked at.
func TestDuplicatesCostWhatChanges(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	blobs := &countedBlobs{Store: s.Contexts}
	s.Blobs = blobs
	var clusters []v2.ClusterKey
	for i := range 1000 {
		clusters = append(clusters, v2.ClusterKey(fmt.Sprintf("edge+c%04d", i)))
	}
	apps := []plan.App{s.app("web", strings.Replace(sound, "name: {{ .Release.Name }}", "name: web", 1), clusters...), s.app("db", strings.Replace(sound, "name: {{ .Release.Name }}", "name: db", 1), clusters...)}
	head := s.wait(appcontext.Head{Document: "projects/shop/composite-apps/till/v1/deployment-intent-groups/g"}, 1)
	head = s.mustPublish(head, apps...)
	places, err := s.Contexts.Placements(t.Context(), "7", 1)
	if err != nil {
		t.Fatal(err)
	}
	others := &placedEverywhere{bundle: places[0].Apps["web"]}
	s.Placed = others
	head = s.wait(head, 2)
	for _, tt := range []struct {
		name         string
		more         v2.ClusterKey
		looks, reads int
	}{{"nothing", "", 0, 2}, {"one more cluster", "edge+new", 1, 8}} {
		blobs.reads, others.looks = 0, 0
		if tt.more != "" {
			for i := range apps {
				apps[i].Decision.Clusters = append(apps[i].Decision.Clusters, tt.more)
			}
		}
		d, err := s.Draft(t.Context(), head, plan.Plan{Namespace: "default", Apps: apps})
		if err != nil {
			t.Fatal(err)
		}
		if others.looks != tt.looks || blobs.reads > tt.reads {
			t.Errorf("%s changes: %d looks at clusters and %d reads of bundles, want %d and at most %d", tt.name, others.looks, blobs.reads, tt.looks, tt.reads)
		}
		text := strings.Join(d.Beside["web"], "\n")
		if got := strings.Count(text, "overwrite each other"); got != 4*tt.looks || strings.Contains(text, "bank") || strings.Contains(text, "more cluster") {
			t.Errorf("%s changes: %d findings:\n%s", tt.name, got, text)
		}
		if tt.looks > 0 && !strings.Contains(text, "a deployment of another project also places this on edge+new: they") {
			t.Errorf("the other project is not mentioned:\n%s", text)
		}
		if len(d.Beside["db"]) > 0 {
			t.Errorf("db has the findings %q", d.Beside["db"])
		}
	}
}
