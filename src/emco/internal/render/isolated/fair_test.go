package isolated_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

func TestF27AProjectWithLoopingChartsDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	r := child(t, "byApp", func(l *isolated.Limits) { l.Parallel, l.Work = 2, 4*time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var begun, ended atomic.Int64
	for i := range 24 {
		req := appOf("loud", fmt.Sprintf("loops-%d", i), nil)
		open := req.Package.Open
		req.Package.Open = countedOpen(open, &begun)
		others.Go(func() { _, _ = r.Render(ctx, req); ended.Add(1) })
	}
	for begun.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	start, before := time.Now(), ended.Load()
	if _, err := r.Render(t.Context(), appOf("quiet", "tells", nil)); err != nil {
		t.Error(err)
	}
	if n := ended.Load() - before; n > 2 {
		t.Errorf("%d looping charts of another project came first", n)
	}
	t.Logf("a small chart beside 24 looping ones: %s", time.Since(start))
	cancel()
	others.Wait()
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

// countedOpen counts the calls of open.
func countedOpen[T any](open func(context.Context) (T, error), n *atomic.Int64) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { n.Add(1); return open(ctx) }
}
