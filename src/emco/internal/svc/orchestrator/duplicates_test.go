package orchestrator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
)

// follow makes the groups know what other deployments place, from a mirror that runs until the test ends.
func (p *controlPlane) follow(t *testing.T) *mirror.Mirror {
	t.Helper()
	m := mirror.New(p.contexts, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	p.must(m.Await(ctx))
	p.groups.WithPlaced(m)
	return m
}

// dbChart is a chart of the app "db" with a template.
func (g testGroup) dbChart(template string) string {
	g.Helper()
	return g.pack(map[string]string{"db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 0.1.0\n", "db/templates/object.yaml": template})
}

// withDB adds the app "db" to a composite app, with a template of its chart, and places it like "web".
func (g testGroup) withDB(template string) {
	g.Helper()
	at := "projects/" + g.project + "/composite-apps/till/" + g.version
	g.upload("POST "+at+"/apps", name("db"), g.dbChart(template))
	g.upload("POST "+at+"/composite-profiles/small/profiles", `{"metadata":{"name":"db"},"spec":{"app":"db"}}`, g.pack(map[string]string{
		"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "a: b\n",
	}))
	g.want(201, "POST "+g.path()+"/generic-placement-intents/places/app-intents",
		`{"metadata":{"name":"db"},"spec":{"app":"db","intent":{"allOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`)
}

// about returns the findings about duplicates in plans or statuses, "app: finding" in lines.
func about[T any](apps []T, of func(T) (string, []string)) string {
	var out []string
	for _, a := range apps {
		name, findings := of(a)
		for _, f := range findings {
			if strings.Contains(f, "overwrite") {
				out = append(out, name+": "+f)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func ofPlan(p v2.Plan) string {
	return about(p.Apps, func(a v2.AppPlan) (string, []string) { return a.Name, a.Findings })
}

func ofStatus(s v2.Status) string {
	return about(s.Apps, func(a v2.AppStatus) (string, []string) { return a.Name, a.Findings })
}

func settingsOf(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: %q}\n", name, value)
}

// Two apps of a deployment have the same object: the plan and the status name it for both, whatever the cluster reads its state from. A
// strict policy refuses the app that changes, and the other one stays as it is.
func TestObjectsOfTwoAppsOfADeployment(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b", "c")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	g.withDB(settingsOf("web", "1"))
	g.acts("approve")
	const both = "db: v1 ConfigMap default/web: app web also places this on edge+a and 2 more clusters: they overwrite each other; rename one\n" +
		"web: v1 ConfigMap default/web: app db also places this on edge+a and 2 more clusters: they overwrite each other; rename one"
	equal(t, "the plan", ofPlan(g.planOf("instantiate")), both)
	g.acts("instantiate")
	p.work()
	p.settle()
	equal(t, "the status", ofStatus(g.statusOf()), both)

	// An update that changes nothing of it is not refused; one that changes an app is, for that app.
	p.policy("walls", `{"mode":"strict","allow":["kinds"]}`)
	if f := g.planOf("update").Apps; f[0].Failure != nil || f[1].Failure != nil {
		t.Errorf("what runs is refused: %+v, %+v", f[0].Failure, f[1].Failure)
	}
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/db", name("db"), g.dbChart(settingsOf("web", "2")))
	g.acts("update")
	p.work()
	p.settle()
	apps := g.statusOf().Apps
	if f := apps[0].Failure; f == nil || f.Stage != "policy" || !strings.Contains(f.Reason, "app web also places this") || !strings.Contains(f.Reason, "(policy walls: duplicates)") || apps[1].Failure != nil {
		t.Errorf("db fails with %+v, web with %+v", apps[0].Failure, apps[1].Failure)
	}
	if n := len(apps[0].Clusters); n != 3 {
		t.Errorf("the refused app runs on %d clusters, want 3 as before", n)
	}

	// Renamed, or allowed by the policy, it is no breach.
	p.want(201, "PUT projects/shop/policies/walls", `{"metadata":{"name":"walls"},"spec":{"mode":"strict","allow":["kinds","duplicates"]}}`)
	equal(t, "the plan of what is allowed", ofPlan(g.planOf("update")), "")
	if f := g.planOf("update").Apps[0].Failure; f != nil {
		t.Errorf("what is allowed is refused: %+v", f)
	}
	p.want(204, "DELETE projects/shop/policies/walls", "")
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/db", name("db"), g.dbChart(settingsOf("db", "2")))
	g.acts("update")
	p.work()
	p.settle()
	equal(t, "the status of renamed objects", ofStatus(g.statusOf()), "")
}

// Two deployments have the same object on a cluster: the plan of the later one names the other, and a strict policy refuses it.
func TestObjectsOfTwoDeployments(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	p.onboard("v2")
	m := p.follow(t)
	first := p.runs("v1", "g", "edge")
	m.CatchUp(t.Context())
	later := p.group("v2", "h")
	later.make("edge")
	later.acts("approve")
	const want = "web: v1 ConfigMap default/web: projects/shop/composite-apps/till/v1/deployment-intent-groups/g, app web also places this on edge+a and 1 more cluster: they overwrite each other; rename one"
	equal(t, "the plan of the later one", ofPlan(later.planOf("instantiate")), want)
	equal(t, "the plan of what does not change", ofPlan(first.planOf("update")), "")

	p.policy("walls", `{"mode":"strict","allow":["kinds"]}`)
	if f := later.planOf("instantiate").Apps[0].Failure; f == nil || !strings.Contains(f.Reason, "(policy walls: duplicates)") {
		t.Errorf("the plan has the failure %+v", f)
	}
	later.acts("instantiate")
	p.work()
	p.settle()
	if st := later.statusOf(); st.Apps[0].Failure == nil || len(st.Apps[0].Clusters) > 0 {
		t.Errorf("the later one is delivered: %+v", st.Apps[0])
	}
	first.acts("terminate")
	p.work()
	p.settle()
	m.CatchUp(t.Context())
	if f := later.planOf("update").Apps[0].Failure; f != nil {
		t.Errorf("without the first one it is refused: %+v", f)
	}
}
