package platform_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/platform"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// fakePlatform is a backend whose platform records its calls.
type fakePlatform struct {
	syncer.Backend
	mu    sync.Mutex
	calls []string
	err   error
	hold  chan struct{} // calls wait until it is closed; nil: they do not wait
}

func (f *fakePlatform) Bootstrap(ctx context.Context, t syncer.Target, apps []string) error {
	return f.call(ctx, t.Cluster.String()+" "+strings.Join(apps, ","))
}

func (f *fakePlatform) Release(ctx context.Context, t syncer.Target) error {
	return f.call(ctx, t.Cluster.String()+" released")
}

func (f *fakePlatform) call(ctx context.Context, what string) error {
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
	return f.err
}

// fixture is a registrar with the results that it recorded.
type fixture struct {
	*platform.Registrar
	platform      *fakePlatform
	cancellations *queue.Cancellations
	closed        bool // no target has anything to deliver
	mu            sync.Mutex
	recorded      []string
}

const slots = 2

func newFixture(ctx context.Context) *fixture {
	f := &fixture{platform: &fakePlatform{}, cancellations: queue.NewCancellations(ctx)}
	f.Registrar = platform.NewRegistrar(ctx, platform.Options{
		Address: func(t pair.Target, r route.Route) syncer.Target { return r.Target(t.Cluster, t.Deployment) },
		Permits: make(chan struct{}, slots), Cancellations: f.cancellations, Open: func(pair.Target) bool { return !f.closed },
		Record: func(_ context.Context, out []pair.Result) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, r := range out {
				f.recorded = append(f.recorded, fmt.Sprint(r.Key.Cluster, " ", r.Key.App, " ", r.Err))
			}
		},
	})
	return f
}

// commit registers the result of a commit after which a cluster has the named apps.
func (f *fixture) commit(ctx context.Context, cluster v2.ClusterKey, apps ...string) (others []pair.Result) {
	t := pair.Target{Cluster: cluster, Deployment: "7"}
	result := pair.Result{Key: appcontext.PairKey{Cluster: cluster, Deployment: "7", App: "web"}, Apps: apps}
	r := route.Route{Backend: f.platform, Settings: &syncobjects.Settings{Kind: "fake", Delay: time.Minute}}
	return f.Register(ctx, []pair.Result{result}, map[pair.Target]route.Route{t: r})
}

func (f *fixture) want(t *testing.T, calls, recorded string) {
	t.Helper()
	synctest.Wait()
	f.platform.mu.Lock()
	defer f.platform.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.platform.calls, "; "); got != calls {
		t.Errorf("calls of the platform: %q, want %q", got, calls)
	}
	if got := strings.Join(f.recorded, "; "); got != recorded {
		t.Errorf("recorded %q, want %q", got, recorded)
	}
	f.platform.calls, f.recorded = nil, nil
}

// A platform is called when apps are added or removed, not when their content changes, and
// again when its last call is an hour ago.
func TestPlatformsLearnOfChangesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t.Context())
		defer f.Stop()
		if others := f.commit(t.Context(), "edge+c1", "web"); len(others) > 0 {
			t.Error("a result was returned before the platform was called")
		}
		f.want(t, "edge+c1 web", "edge+c1 web <nil>")
		if others := f.commit(t.Context(), "edge+c1", "web"); len(others) != 1 {
			t.Error("a result waits although nothing changed")
		}
		f.want(t, "", "")
		f.commit(t.Context(), "edge+c1", "db", "web")
		f.want(t, "edge+c1 db,web", "edge+c1 web <nil>")
		time.Sleep(time.Hour)
		f.commit(t.Context(), "edge+c1", "db", "web")
		f.want(t, "edge+c1 db,web", "edge+c1 web <nil>")
	})
}

// A removal leaves Git first; the platform is called after the delay.
func TestAReleaseWaitsForItsDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t.Context())
		defer f.Stop()
		f.commit(t.Context(), "edge+c1", "web")
		f.want(t, "edge+c1 web", "edge+c1 web <nil>")
		f.commit(t.Context(), "edge+c1")
		time.Sleep(40 * time.Second)
		f.commit(t.Context(), "edge+c1") // delivered again: the delay does not start again
		time.Sleep(19 * time.Second)
		f.want(t, "", "")
		time.Sleep(2 * time.Second)
		f.want(t, "edge+c1 released", "edge+c1 web <nil>")

		f.commit(t.Context(), "edge+c1", "web")
		f.want(t, "edge+c1 web", "edge+c1 web <nil>")
		f.commit(t.Context(), "edge+c1")
		f.commit(t.Context(), "edge+c1", "web") // it is wanted again
		time.Sleep(time.Hour)
		f.want(t, "", "")
	})
}

func TestAPlatformThatRefusesFailsItsPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t.Context())
		defer f.Stop()
		f.platform.err = errors.New("no")
		f.commit(t.Context(), "edge+c1", "web")
		f.want(t, "edge+c1 web", "edge+c1 web no")
		f.platform.err = nil
		f.commit(t.Context(), "edge+c1", "web") // the retry
		f.want(t, "edge+c1 web", "edge+c1 web <nil>")
	})
}

// A platform that does not answer delays neither commits nor clusters without a platform,
// and a stop ends its calls.
func TestAPlatformThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t.Context())
		defer f.Stop()
		f.platform.hold = make(chan struct{})
		for n := range 5 {
			f.commit(t.Context(), v2.ClusterKey(fmt.Sprint("edge+c", n)), "web")
		}
		plain := pair.Result{Key: appcontext.PairKey{Cluster: "edge+git", Deployment: "7", App: "web"}, Apps: []string{"web"}}
		others := f.Register(t.Context(), []pair.Result{plain}, map[pair.Target]route.Route{{Cluster: "edge+git", Deployment: "7"}: {}})
		if len(others) != 1 {
			t.Error("a cluster without a platform waits")
		}
		synctest.Wait()
		f.closed = true
		f.cancellations.Cancel("7")
		synctest.Wait()
		if got := len(f.recorded); got != slots {
			t.Errorf("%d calls ended, want the %d that had begun", got, slots)
		}
		if slices.ContainsFunc(f.recorded, func(o string) bool { return !strings.Contains(o, "canceled") }) {
			t.Errorf("recorded %v", f.recorded)
		}
	})
}
