package rsync

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

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// tower is a backend whose platform remembers what it is told.
type tower struct {
	syncer.Backend
	mu   sync.Mutex
	told []string
	err  error
	hold chan struct{} // calls wait until it is closed; nil: they do not
}

func (w *tower) Bootstrap(ctx context.Context, t syncer.Target, apps []string) error {
	return w.tell(ctx, t.Cluster.String()+" "+strings.Join(apps, ","))
}

func (w *tower) Release(ctx context.Context, t syncer.Target) error {
	return w.tell(ctx, t.Cluster.String()+" released")
}

func (w *tower) tell(ctx context.Context, what string) error {
	if w.hold != nil {
		select {
		case <-w.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, what)
	return w.err
}

// stand is platforms, with what was settled.
type stand struct {
	*platforms
	tower   *tower
	closed  bool // nothing is to be done for any target
	mu      sync.Mutex
	settled []string
}

func newStand(ctx context.Context) *stand {
	s := &stand{tower: &tower{}}
	s.platforms = newPlatforms(ctx, &platforms{
		address: func(t pair.Target, d route.Route) syncer.Target { return d.Target(t.Cluster, t.UID) },
		slots:   make(chan struct{}, 2), brakes: queue.NewCancellations(ctx), open: func(pair.Target) bool { return !s.closed },
		settle: func(_ context.Context, out []pair.Result) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, o := range out {
				s.settled = append(s.settled, fmt.Sprint(o.Key.Cluster, " ", o.Key.App, " ", o.Err))
			}
		},
	})
	return s
}

// commit is an outcome for each app of a cluster, after which it has the apps named.
func (s *stand) commit(ctx context.Context, cluster string, apps ...string) (others []pair.Result) {
	t := pair.Target{Cluster: cluster, UID: "7"}
	o := pair.Result{Key: appcontext.PairKey{Cluster: cluster, UID: "7", App: "web"}, Apps: apps}
	d := route.Route{Backend: s.tower, Settings: gitops.Settings{Kind: "tower", Delay: time.Minute}}
	return s.visit(ctx, []pair.Result{o}, map[pair.Target]route.Route{t: d})
}

func (s *stand) want(t *testing.T, told, settled string) {
	t.Helper()
	synctest.Wait()
	s.tower.mu.Lock()
	defer s.tower.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.tower.told, "; "); got != told {
		t.Errorf("the platform was told %q, want %q", got, told)
	}
	if got := strings.Join(s.settled, "; "); got != settled {
		t.Errorf("settled %q, want %q", got, settled)
	}
	s.tower.told, s.settled = nil, nil
}

// A platform is told when apps come and go, and not when their content changes.
func TestPlatformsAreToldWhatIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t.Context())
		defer s.stop()
		if others := s.commit(t.Context(), "edge+c1", "web"); len(others) > 0 {
			t.Error("an outcome is settled before the platform knows")
		}
		s.want(t, "edge+c1 web", "edge+c1 web <nil>")
		if others := s.commit(t.Context(), "edge+c1", "web"); len(others) != 1 {
			t.Error("an outcome waits although the platform knows")
		}
		s.want(t, "", "")
		s.commit(t.Context(), "edge+c1", "db", "web")
		s.want(t, "edge+c1 db,web", "edge+c1 web <nil>")
		time.Sleep(trust)
		s.commit(t.Context(), "edge+c1", "db", "web")
		s.want(t, "edge+c1 db,web", "edge+c1 web <nil>")
	})
}

// What is taken away leaves Git first; the platform hears of it after the delay.
func TestPlatformsForgetAfterTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t.Context())
		defer s.stop()
		s.commit(t.Context(), "edge+c1", "web")
		s.want(t, "edge+c1 web", "edge+c1 web <nil>")
		s.commit(t.Context(), "edge+c1")
		time.Sleep(40 * time.Second)
		s.commit(t.Context(), "edge+c1") // it is delivered again: that is no reason to wait longer
		time.Sleep(19 * time.Second)
		s.want(t, "", "")
		time.Sleep(2 * time.Second)
		s.want(t, "edge+c1 released", "edge+c1 web <nil>")

		s.commit(t.Context(), "edge+c1", "web")
		s.want(t, "edge+c1 web", "edge+c1 web <nil>")
		s.commit(t.Context(), "edge+c1")
		s.commit(t.Context(), "edge+c1", "web") // it is wanted again
		time.Sleep(time.Hour)
		s.want(t, "", "")
	})
}

func TestAPlatformThatRefusesFailsItsPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t.Context())
		defer s.stop()
		s.tower.err = errors.New("no")
		s.commit(t.Context(), "edge+c1", "web")
		s.want(t, "edge+c1 web", "edge+c1 web no")
		s.tower.err = nil
		s.commit(t.Context(), "edge+c1", "web") // the retry
		s.want(t, "edge+c1 web", "edge+c1 web <nil>")
	})
}

// A platform that does not answer holds up neither commits nor what has no platform, and
// a stop ends the wait for it.
func TestAPlatformThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t.Context())
		defer s.stop()
		s.tower.hold = make(chan struct{})
		for n := range 5 {
			s.commit(t.Context(), fmt.Sprint("edge+c", n), "web")
		}
		plain := pair.Result{Key: appcontext.PairKey{Cluster: "edge+git", UID: "7", App: "web"}, Apps: []string{"web"}}
		others := s.visit(t.Context(), []pair.Result{plain}, map[pair.Target]route.Route{{Cluster: "edge+git", UID: "7"}: {}})
		if len(others) != 1 {
			t.Error("a cluster without a platform waits")
		}
		synctest.Wait()
		if len(s.slots) != cap(s.slots) {
			t.Errorf("%d calls at a time, want %d", len(s.slots), cap(s.slots))
		}
		s.closed = true
		s.brakes.Cancel("7")
		synctest.Wait()
		if got := len(s.settled); got != 2 {
			t.Errorf("%d calls ended, want the two that were under way", got)
		}
		if slices.ContainsFunc(s.settled, func(o string) bool { return !strings.Contains(o, "canceled") }) {
			t.Errorf("settled %v", s.settled)
		}
	})
}
