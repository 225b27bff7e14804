package revision_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
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

// named is a template of a ConfigMap.
func named(name string) string { return strings.Replace(sound, "{{ .Release.Name }}", name, 1) }

// An app that is refused for a duplicate stays as it runs. Another app that takes what the refused one gives up is refused, too.
func TestWhatARefusedAppKeepsIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	policies := plan.Policies{guard.FromSpec("walls", v2.PolicySpec{Mode: v2.PolicyStrict, Allow: []string{"kinds"}})}
	apps := func(objects ...string) (out []plan.App) {
		for i, object := range objects {
			a := s.app(string(rune('a'+i)), named(object), "edge+c1")
			a.Policies = policies
			out = append(out, a)
		}
		return out
	}
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), apps("x", "y", "z")...)
	s.mustPublish(s.wait(head, 2), apps("z", "x", "z")...)
	rev := s.revision(2)
	for i, want := range []string{"app c also places this", "app a also places this", ""} {
		a := rev.Apps[i]
		if f := a.Failure; (f != nil) != (want != "") || f != nil && !strings.Contains(f.Reason, want) {
			t.Errorf("app %s fails with %+v, want %q", a.Name, f, want)
		}
	}
	if before, after := s.placed(1), s.placed(2); !maps.Equal(before, after) {
		t.Errorf("placed are %v, want %v as before", after, before)
	}
}

// crowd is some thousand deployments of one project that place a bundle on each cluster.
type crowd struct{ bundle appcontext.Digest }

func (c crowd) Cluster(v2.ClusterKey) (out []mirror.ClusterPair) {
	for i := range 3000 {
		out = append(out, mirror.ClusterPair{
			UID: v2.DeploymentID(fmt.Sprint(100 + i)), App: "other", Entry: &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Desired: c.bundle})},
		})
	}
	return out
}

func (crowd) Document(d v2.DeploymentID) string {
	return "projects/shop/composite-apps/till/v1/deployment-intent-groups/" + string(d)
}

// However many others place the same object, what a revision and a plan hold of it is short.
func TestTextsAboutManyDuplicatesAreShort(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{Document: "projects/shop/composite-apps/till/v1/deployment-intent-groups/g"}, 1), s.app("web", sound, "edge+c1"))
	s.Placed = crowd{s.placed(1)["edge+c1 web"]}
	head = s.wait(head, 2)
	for name, policies := range map[string]plan.Policies{"reported": nil, "refused": {guard.FromSpec("walls", v2.PolicySpec{Mode: v2.PolicyStrict, Allow: []string{"kinds"}})}} {
		app := s.app("web", sound, "edge+c1", "edge+c2")
		app.Policies = policies
		d, err := s.Draft(t.Context(), head, plan.Plan{Namespace: "default", Apps: []plan.App{app}})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(d.Beside["web"], "\n")
		if f := d.Revision.Apps[0].Failure; f != nil {
			text = f.Reason
		}
		if n := strings.Count(text, "overwrite each other"); n != 10 || !strings.Contains(text, "and 2990 more apps") {
			t.Errorf("%s: %d of 3000 others are named in %d bytes, want 10, and the number of the others: %.300q", name, n, len(text), text)
		}
	}
}

// A rollback notes the duplicates of now, not those of the revision that it restores.
func TestARollbackNotesTheDuplicatesOfNow(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("a", named("x"), "edge+c1"), s.app("b", named("x"), "edge+c1"))
	if rev := s.revision(1); len(rev.Apps[0].Duplicates) != 1 {
		t.Fatalf("revision 1 has the apps %+v", rev.Apps)
	}
	head = s.mustPublish(s.wait(head, 2), s.app("a", named("x"), "edge+c1"), s.app("b", named("y"), "edge+c1"))
	head = s.wait(head, 3)
	head.Op.From = 1
	for want, allow := range [][]string{{"duplicates"}, nil} {
		d, err := s.RestoredDraft(t.Context(), head, plan.Policies{guard.FromSpec("walls", v2.PolicySpec{Mode: v2.PolicyReport, Allow: allow})})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range d.Revision.Apps {
			if len(a.Duplicates) != want {
				t.Errorf("allowed are %q, and app %s has the duplicates %q", allow, a.Name, a.Duplicates)
			}
		}
	}
}

// The content of another deployment may be damaged, or removed a moment ago. That does not delay a revision.
func TestAnUnreadableBundleOfAnotherDeploymentIsNotCompared(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, content := range []string{"", "?"} {
		d := manifest.DigestOf([]byte(content))
		if content != "" {
			if err := s.Contexts.PutBlobs(t.Context(), map[appcontext.Digest][]byte{d: []byte(content)}); err != nil {
				t.Fatal(err)
			}
		}
		s.Placed = &placedEverywhere{bundle: d}
		p := plan.Plan{Namespace: "default", Apps: []plan.App{s.app("web", sound, "edge+c1")}}
		if got, err := s.Draft(t.Context(), appcontext.Head{UID: "7", Op: &appcontext.Operation{ID: "op", Instance: "7", Rev: 1}}, p); err != nil || len(got.Placements) != 1 {
			t.Errorf("content %q: %+v, %v", content, got.Placements, err)
		}
	}
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
	apps := []plan.App{s.app("web", named("web"), clusters...), s.app("db", named("db"), clusters...)}
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
