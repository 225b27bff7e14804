package isolated_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

// appOf returns the request for an app of a project. Each app has a package of its own.
func appOf(project, app string, b *render.Budget) render.Request {
	req := request()
	req.App, req.Project, req.Budget = app, project, b
	req.Package = rendertest.Archive([]byte(app))
	req.Package.Digest = manifest.DigestOf([]byte(app))
	return req
}

// While 24 charts of another project that never end hold all slots, each chart of a small deployment gets a slot at
// once: no rendering of the other project comes between a request and its slot.
func TestF27AProjectWithLoopingChartsDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	r := child(t, "byApp", func(l *isolated.Limits) { l.Parallel, l.Work, l.Time = 2, 24*time.Hour, 24*time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	begun := make(chan struct{}, 24) // a package is opened when its chart has a slot
	for i := range 24 {
		req := appOf("loud", fmt.Sprintf("loops-%d", i), nil)
		open := req.Package.Open
		req.Package.Open = func(ctx context.Context) (io.ReadCloser, error) {
			begun <- struct{}{}
			return open(ctx)
		}
		others.Go(func() { _, _ = r.Render(ctx, req) })
	}
	<-begun
	<-begun
	for _, app := range []string{"tells", "tells-2", "tells-3"} {
		if _, err := r.Render(t.Context(), appOf("quiet", app, nil)); err != nil {
			t.Error(err)
		}
		if n := len(begun); n > 0 {
			t.Errorf("%d looping charts of another project came before %s was rendered", n, app)
		}
	}
}

func TestF27SlowAppsOfADeploymentUseUpOneBudget(t *testing.T) {
	t.Parallel()
	r := child(t, "byApp", func(l *isolated.Limits) { l.Parallel, l.Work = 2, 800*time.Millisecond }) // twice what a slow app takes
	render1 := func(apps ...string) map[string]string {
		budget, out := render.NewBudget(apps...), map[string]string{}
		var all sync.WaitGroup
		var mu sync.Mutex
		for _, app := range apps {
			all.Go(func() {
				defer budget.Done(app)
				_, err := r.Render(t.Context(), appOf("p", app, budget))
				mu.Lock()
				defer mu.Unlock()
				if out[app] = "rendered"; err != nil {
					out[app] = err.Error()
				}
			})
		}
		all.Wait()
		return out
	}
	count := func(all map[string]string, part string) (n int) {
		for _, text := range all {
			if strings.Contains(text, part) {
				n++
			}
		}
		return n
	}
	all := render1("loops-1", "loops-2", "loops-3", "loops-4", "loops-5", "loops-6", "tells")
	if all["tells"] != "rendered" || count(all, "took more than 800ms") != 1 || count(all, "used up the time of its slow apps") != 5 {
		t.Errorf("the first revision: %q", all)
	}
	// What ran out of time waits behind what is only slow, and behind what never ran.
	ran := ""
	for app, text := range all {
		if strings.Contains(text, "took more than 800ms") {
			ran = app
		}
	}
	if all = render1(ran, "slow"); all["slow"] != "rendered" || count(all, "took more than") != 1 {
		t.Errorf("the second revision: %q", all)
	}
	if all = render1(ran, "slow"); all["slow"] != "rendered" || count(all, "took more than") != 1 {
		t.Errorf("the third revision: %q", all)
	}
}
