package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
)

// balancer sends requests to processes in turn. It asks each for /readyz again and again, as load balancers
// do, and a request that fails is not sent twice.
type balancer struct {
	mu    sync.Mutex
	urls  []string             // guarded by mu
	ready map[string]time.Time // when a process was last found ready; guarded by mu
	next  int                  // guarded by mu

	sent, failed atomic.Int64
	last         atomic.Value // the last failure, a string
}

// grace is how long a process may fail its probes before it gets no more requests. Load balancers allow a few
// failures: a process that takes over shards is not ready for a moment.
const grace = 3 * time.Second

func (b *balancer) add(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls = append(b.urls, url)
}

// probe asks all processes once.
func (b *balancer) probe(ctx context.Context) {
	b.mu.Lock()
	urls := append([]string(nil), b.urls...)
	b.mu.Unlock()
	for _, url := range urls {
		if ask(ctx, url+"/readyz") == nil {
			b.found(url)
		}
	}
}

func (b *balancer) found(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready[url] = time.Now()
}

// pick returns a ready process; empty if none is.
func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.urls {
		b.next++
		if url := b.urls[b.next%len(b.urls)]; time.Since(b.ready[url]) < grace {
			return url
		}
	}
	return ""
}

// run probes and sends requests until ctx ends.
func (b *balancer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			b.probe(context.WithoutCancel(ctx))
			time.Sleep(100 * time.Millisecond)
		}
	})
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := b.send(context.WithoutCancel(ctx)); err != nil {
					b.failed.Add(1)
					b.last.Store(err.Error())
				}
				b.sent.Add(1)
			}
		})
	}
}

func (b *balancer) send(ctx context.Context) error {
	url := b.pick()
	if url == "" {
		return fmt.Errorf("no process is ready")
	}
	return ask(ctx, url+"/v2/projects")
}

func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// Each of two processes is stopped by SIGTERM and started again, twice, while a load balancer sends requests
// all the time: no request fails, and each process ends with exit code 0.
func TestReplicasRestartWithoutFailedRequests(t *testing.T) {
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	dir, front := t.TempDir(), &balancer{ready: map[string]time.Time{}}
	start := func(name string) *program.Emco {
		e, err := program.Start(t.Context(), program.Options{Bin: binaries(), Dir: filepath.Join(dir, name), Args: []string{
			"-etcd.endpoints", b.EtcdURL(), "-etcd.prefix", "/emco-" + filepath.Base(dir) + "/", "-http.linger", "6s",
			"-data", filepath.Join(dir, "shared"), // for the sealing key
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		front.add(e.URL())
		return e
	}
	all := []*program.Emco{start("one"), start("two")}
	front.probe(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); front.run(ctx) }()
	for round := range 2 {
		for i, name := range []string{"one", "two"} {
			if err := all[i].Stop(); err != nil {
				t.Errorf("round %d: %s does not end cleanly: %v", round, name, err)
			}
			all[i] = start(name)
			eventually(t, "the balancer sees "+name, func() error {
				front.mu.Lock()
				defer front.mu.Unlock()
				if front.ready[all[i].URL()].IsZero() {
					return fmt.Errorf("it is not ready")
				}
				return nil
			})
		}
	}
	cancel()
	<-done
	t.Logf("%d requests", front.sent.Load())
	if n := front.failed.Load(); n > 0 || front.sent.Load() < 100 {
		t.Errorf("%d of %d requests failed, the last: %v", n, front.sent.Load(), front.last.Load())
	}
	for _, e := range all {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}
