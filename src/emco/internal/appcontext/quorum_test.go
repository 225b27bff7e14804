package appcontext

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// The leader of three is stopped in its tracks, and comes back thinking that it leads;
// then it is killed. Clients go on: each step that was accepted is in the history, once
// and in its place, and so is what was written into pairs. A shard changes hands at most
// once for each loss.
func TestH34LeaderLossLosesNoAcceptedWrite(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3, etcdtest.Options{})
	owners := contend(t, New(cluster.Client(), "/emco"), 10*time.Second)
	l := newLoad(t, New(cluster.Client(), "/emco"), 4, 2)
	l.progress(30)

	lost := cluster.Leader()
	cluster.Pause(lost)
	l.progress(20)
	cluster.Resume(lost)
	l.progress(30)

	lost = cluster.Leader()
	cluster.Kill(lost)
	l.progress(30)
	cluster.Restart(lost)
	l.progress(30)
	l.check()
	if n := owners(); n < 1 || n > 3 {
		t.Errorf("the shard had %d owners one after the other; want at most 3, with 2 losses", n)
	}
}

// contend has two clients own a shard in turn. The function ends that, and returns how
// often it was taken.
func contend(t *testing.T, s *Store, ttl time.Duration) (taken func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var n atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				o, err := s.Own(ctx, "all", fmt.Sprint("holder", i), ttl)
				if err != nil {
					continue // Unavailable: call again
				}
				n.Add(1)
				select {
				case <-o.Lost():
				case <-ctx.Done():
				}
				_ = o.Release(context.WithoutCancel(ctx))
			}
		})
	}
	end := func() int64 {
		taken := n.Load()
		cancel()
		wg.Wait()
		return taken
	}
	t.Cleanup(func() { end() })
	return end
}

// The only server is killed under load and comes back: what was accepted is there, and
// watches continue without a restart.
func TestEtcdRestartUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	s := New(cluster.Client(), "/emco")
	var gate sync.RWMutex
	told := make(chan struct{}, 1)
	seen := observe(t, &gate, told, func(ctx context.Context) func(func(HeadEvent, error) bool) { return s.WatchHeads(ctx) },
		func(v *view, e HeadEvent) {
			if !e.Synced {
				v.set(string(e.Head.UID), fmt.Sprint(e.Head.Mod))
			}
		})
	l := newLoad(t, s, 3, 2)
	for range 3 {
		l.progress(30)
		cluster.Kill(0)
		cluster.Restart(0)
	}
	l.progress(30)
	l.check()
	want := map[string]string{}
	for h, err := range s.Heads(t.Context()) {
		must(t, err)
		want[string(h.UID)] = fmt.Sprint(h.Mod)
	}
	for late := time.After(loadTime); !seen.agrees(want); {
		select {
		case <-told:
		case <-late:
			t.Fatalf("who watches never knew %v", want)
		}
	}
}

// A server that stops answering, but keeps its connections, is Unavailable.
func TestASilentServerIsUnavailable(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	s := New(cluster.Client(), "/emco")
	h := create(t, s, "7")
	hasty := New(cluster.Client(), "/emco", func(o *options) { o.kv.Timeout = 100 * time.Millisecond })
	cluster.Pause(0)
	ctx := context.WithoutCancel(t.Context()) // it has no deadline of its own
	_, head := hasty.Head(ctx, "7")
	_, step := hasty.ChangeHead(ctx, h, h, nil, nil)
	_, blob := hasty.PutBundle(ctx, Bundle{})
	_, own := hasty.Own(ctx, "all", "one", time.Minute)
	for _, err := range []error{head, step, blob, own, hasty.Ready(ctx)} {
		wantKind(t, err, errs.Unavailable)
	}
	cluster.Resume(0)
	_, err := s.Head(ctx, "7")
	must(t, err)
}
