package orchestrator

import (
	"context"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// An override value in a chart's messages reaches neither status nor events nor plans.
func TestF70OverrideValuesReachNoStatus(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.renderer = render.Scrubbed(quotingRenderer{p.renderer})
	p.boot()
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.group("v1", "g")
	all, _, _ := strings.Cut(g.path(), "/g")
	p.want(201, "POST "+all, `{"metadata":{"name":"g"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores","overrideValues":[{"app":"web","values":{"db.name":"s3cr3t-value"}}]}}`)
	g.intend("edge")
	g.acts("approve")
	if f := g.planOf("instantiate").Apps[0].Failure; f == nil || f.Reason != "*** is odd" {
		t.Errorf("the plan has the failure %+v", f)
	}
	g.acts("instantiate")
	p.work()
	for _, path := range []string{"/status", "/status?status=deployed", "/events", "/revisions"} {
		if body := p.want(200, "GET "+g.path()+path, ""); strings.Contains(body, "s3cr3t") {
			t.Errorf("%s holds the value: %s", path, body)
		}
	}
}

// quotingRenderer refuses each app and quotes its first override value.
type quotingRenderer struct{ render.Renderer }

func (q quotingRenderer) Render(_ context.Context, req render.Request) (render.Result, error) {
	return render.Result{}, (&render.Fault{App: req.App, Reason: req.Overrides[0].Value + " is odd"}).Invalid()
}
