package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// picker is a placement controller of another process: of each app it leaves one cluster.
type picker struct {
	pick    v2.ClusterKey
	failure error
	asked   []string // the candidates of each call
}

func (p *picker) Demands(ctx context.Context, d placement.Deployment) (map[string]placement.Demand, error) {
	apps, err := d.Candidates(ctx)
	if err != nil || p.failure != nil {
		return nil, cmp.Or(err, p.failure)
	}
	out := map[string]placement.Demand{}
	for _, a := range apps {
		p.asked = append(p.asked, fmt.Sprint(d.Intent, " ", a.App, " ", a.Mandatory, a.AnyOf, a.Count))
		out[a.App] = placement.Demand{Filters: []placement.Filter{pickFilter{p.pick}}}
	}
	return out, nil
}

type pickFilter struct{ pick v2.ClusterKey }

func (f pickFilter) Admit(_ context.Context, _ placement.Request, c placement.Cluster) (placement.Verdict, error) {
	if c.Key() == f.pick {
		return placement.Verdict{Admitted: true, Reason: "picked", Remark: "it is the best"}, nil
	}
	return placement.Verdict{Reason: "another one is better"}, nil
}

// newPicked returns an approved group of one app, whose clusters a placement controller picks.
func newPicked(t *testing.T) (*controlPlane, testGroup, *picker) {
	t.Helper()
	p := newControlPlane(t)
	remote := &picker{pick: "edge+b"}
	p.placers = func(c v2.Controller) placement.Controller {
		if c.Spec.Host != "picks.example.org" {
			t.Errorf("%s is called", c.Metadata.Name)
		}
		return remote
	}
	p.boot()
	p.fleet("edge", "a", "b", "c")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	p.want(200, "PUT "+g.path()+"/generic-placement-intents/places/app-intents/web",
		`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"anyOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`)
	p.want(201, "POST controllers", `{"metadata":{"name":"picks"},"spec":{"host":"picks.example.org","port":9000,"type":"placement","priority":1}}`)
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"pick"},"spec":{"intent":{"picks":"best"}}}`)
	g.acts("approve")
	return p, g, remote
}

// The candidates go out, and the choice comes back: into plans, explanations and revisions.
func TestAPlacementControllerOfAnotherProcessChooses(t *testing.T) {
	t.Parallel()
	p, g, remote := newPicked(t)
	plan := g.planOf("instantiate")
	if len(plan.Apps) != 1 || len(plan.Apps[0].Classes) != 1 || fmt.Sprint(plan.Apps[0].Classes[0].Clusters) != "[{edge+b anyOf: the first admitted of 3 by name; it is the best}]" ||
		fmt.Sprint(plan.Apps[0].Refused) != "[{edge+a another one is better} {edge+c another one is better}]" {
		t.Errorf("the plan is %+v", plan.Apps)
	}
	if len(remote.asked) != 1 || remote.asked[0] != "best web [] [[edge+a edge+b edge+c]] 1" {
		t.Errorf("asked %q", remote.asked)
	}
	g.acts("instantiate")
	p.work()
	p.settle()
	if got := p.holds(string(g.head().Deployment())); got != "b v1" {
		t.Errorf("clusters hold %s", got)
	}
	rev := g.revisionOf(1)
	if len(rev.Apps) != 1 || fmt.Sprint(rev.Apps[0].Verdicts) != "[{edge+a another one is better} {edge+c another one is better}]" {
		t.Errorf("the revision has %+v", rev.Apps)
	}
	explained := p.want(200, "GET "+g.path()+"/placement?explain=true", "")
	for _, want := range []string{`"cluster":"edge+b","verdict":"in","reason":"anyOf: the first admitted of 3 by name; it is the best"`, `"cluster":"edge+c","verdict":"out","reason":"another one is better"`} {
		if !strings.Contains(explained, want) {
			t.Errorf("the explanation %s has no %s", explained, want)
		}
	}

	// The status asks no controller, because it would wait for another process, and reports no outdated places.
	remote.pick, remote.failure, remote.asked = "edge+c", errs.New(errs.Unavailable, "it is away"), nil
	if s := g.status(); s.Outdated != "" || len(remote.asked) > 0 {
		t.Errorf("the status says %q after %q", s.Outdated, remote.asked)
	}
	before := g.history()
	g.refused("update", "", 503, "controller picks: it is away")
	equal(t, "history", g.history(), before)

	// A rollback restores the choice of its revision.
	remote.failure = nil
	g.acts("update")
	p.work()
	p.settle()
	if got := p.holds(string(g.head().Deployment())); got != "c v1" {
		t.Errorf("after the update clusters hold %s", got)
	}
	remote.failure = errs.New(errs.Unavailable, "it is away")
	if a := g.act("rollback", `{"metadata":{"name":"back"},"spec":{"revision":"1"}}`); a.status != 202 {
		t.Fatalf("rollback: %+v", a)
	}
	p.work()
	p.settle()
	if got := p.holds(string(g.head().Deployment())); got != "b v1" {
		t.Errorf("after the rollback clusters hold %s", got)
	}
}

// A controller that chooses otherwise between the plan and the action changes nothing.
func TestAnUnstableChoiceIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	p, g, remote := newPicked(t)
	plan := g.plan("instantiate")
	remote.pick = "edge+c"
	if a := g.actBy(plan.Digest, "instantiate"); a.status != 412 {
		t.Errorf("instantiate: %+v, want 412", a)
	}
	remote.pick = "edge+b"
	if a := g.actBy(plan.Digest, "instantiate"); a.status != 202 {
		t.Fatalf("instantiate: %+v", a)
	}
	remote.pick = "edge+a"
	p.work()
	if head := g.head(); head.Rev != 0 || !strings.Contains(head.Failure, "have changed since the plan") {
		t.Errorf("the head is %+v", head)
	}
}

// A choice never reaches beyond what the logical cloud and the intent allow, and an app that loses a mandatory
// cluster is refused.
func TestAChoiceStaysWithinTheIntent(t *testing.T) {
	t.Parallel()
	p, g, remote := newPicked(t)
	p.want(201, "POST cluster-providers/edge/clusters", `{"metadata":{"name":"out"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`)
	remote.pick = "edge+out"
	g.refused("instantiate", "", 400, "no candidate of an anyOf is left: edge+a (another one is better)")
	p.want(200, "PUT "+g.path()+"/generic-placement-intents/places/app-intents/web",
		`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"a"}]}}}`)
	remote.asked = nil
	g.refused("instantiate", "", 400, "app web: mandatory clusters are refused: edge+a (another one is better)")
	if !slices.Equal(remote.asked, []string{"best web [edge+a] [] 1"}) {
		t.Errorf("asked %q", remote.asked)
	}
}

// Controllers are asked in the order of their priorities, each once, and a later one gets what the earlier ones leave.
func TestPlacementControllersAreAskedInOrder(t *testing.T) {
	t.Parallel()
	p, g, first := newPicked(t)
	late := &picker{pick: "edge+b"}
	p.placers = func(c v2.Controller) placement.Controller {
		if c.Metadata.Name == "a-late" {
			return late
		}
		return first
	}
	p.boot()
	p.want(201, "POST controllers", `{"metadata":{"name":"a-late"},"spec":{"host":"late.example.org","port":9000,"type":"placement","priority":2}}`)
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"late"},"spec":{"intent":{"a-late":"x","picks":"best"}}}`)
	g.plan("instantiate")
	if !slices.Equal(first.asked, []string{"best web [] [[edge+a edge+b edge+c]] 1"}) || !slices.Equal(late.asked, []string{"x web [] [[edge+b]] 1"}) {
		t.Errorf("the first is asked %q, the second %q", first.asked, late.asked)
	}
}

// failingPlacer demands a filter that cannot decide.
type failingPlacer struct{}

func (failingPlacer) Demands(context.Context, placement.Deployment) (map[string]placement.Demand, error) {
	return map[string]placement.Demand{"web": {Filters: []placement.Filter{failingPlacer{}}}}, nil
}

func (failingPlacer) Admit(context.Context, placement.Request, placement.Cluster) (placement.Verdict, error) {
	return placement.Verdict{}, errs.New(errs.Unavailable, "the store is away")
}

// An outage is no refusal of the app: the action may be tried again.
func TestAnOutageDuringThePlacementIsNoRefusal(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	p.groups.WithPlacement(map[string]placement.Controller{"needs": failingPlacer{}})
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"needs"},"spec":{"intent":{"needs":"x"}}}`)
	g.acts("approve")
	g.refused("instantiate", "", 503, "the store is away")
}
