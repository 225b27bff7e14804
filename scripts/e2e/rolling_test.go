package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

	sent, failed, opened atomic.Int64 // requests, failures, and streams that have ended
	last                 atomic.Value // the last failure, a string
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

// The load of run: requests a second, of which one in writeEvery writes, and streams that are open all the time.
const (
	rate       = 200
	senders    = 8
	writeEvery = 10
	streams    = 3
)

// run probes, sends requests, and keeps streams open until ctx ends.
func (b *balancer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			b.probe(context.WithoutCancel(ctx))
			time.Sleep(100 * time.Millisecond)
		}
	})
	for i := range senders {
		wg.Go(func() {
			every := time.NewTicker(time.Second * senders / rate)
			defer every.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				b.count(b.send(context.WithoutCancel(ctx), i, n))
				<-every.C
			}
		})
	}
	for range streams {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := b.stream(ctx); ctx.Err() == nil {
					b.count(err)
					b.opened.Add(1)
				}
			}
		})
	}
}

func (b *balancer) count(err error) {
	b.sent.Add(1)
	if err != nil {
		b.failed.Add(1)
		b.last.Store(err.Error())
	}
}

// send sends the nth request of a sender: it reads the projects, or writes one that no other sender writes.
func (b *balancer) send(ctx context.Context, sender, n int) error {
	url := b.pick()
	if url == "" {
		return fmt.Errorf("no process is ready")
	}
	if n%writeEvery != 0 {
		return ask(ctx, url+"/v2/projects?limit=10")
	}
	name := fmt.Sprintf("sender-%d", sender)
	return request(ctx, http.MethodPut, url+"/v2/projects/"+name, fmt.Sprintf(`{"metadata":{"name":%q,"description":"change %d"}}`, name, n))
}

// stream follows the changes of views until its process ends, which must end it cleanly.
func (b *balancer) stream(ctx context.Context) error {
	url := b.pick()
	if url == "" {
		return fmt.Errorf("no process is ready")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v2/views/stream?topics=fleet", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func ask(ctx context.Context, url string) error { return request(ctx, http.MethodGet, url, "") }

// request sends a request, reads the whole answer, and wants success.
func request(ctx context.Context, method, url, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, url, res.Status)
	}
	return nil
}

// S-09: each of three processes is stopped by SIGTERM and started again, EMCO_ROUNDS times (once by default), while a load
// balancer sends reads and writes, and streams are open, all the time: no request fails, each stream ends cleanly, and
// each process ends with exit code 0.
func TestReplicasRestartWithoutFailedRequests(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("EMCO_ROUNDS"), "1"))
	if err != nil || rounds < 1 {
		t.Fatalf("EMCO_ROUNDS: %v, want a number from 1", err)
	}
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	dir, front := t.TempDir(), &balancer{ready: map[string]time.Time{}}
	start := func(name string) *program.Emco {
		e, err := program.Start(t.Context(), program.Options{Bin: binaries(), Dir: filepath.Join(dir, name), Args: []string{
			"-etcd.endpoints", b.EtcdURL(), "-etcd.prefix", "/emco-" + filepath.Base(dir) + "/", "-http.linger", "5s",
			"-data", filepath.Join(dir, "shared"), // for the sealing key
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		front.add(e.URL())
		return e
	}
	names := []string{"one", "two", "three"}
	var all []*program.Emco
	for _, name := range names {
		all = append(all, start(name))
	}
	front.probe(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); front.run(ctx) }()
	for round := range rounds {
		for i, name := range names {
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
	t.Logf("%d requests, %d streams", front.sent.Load(), front.opened.Load())
	if front.opened.Load() == 0 {
		t.Error("no stream was ended by a restart")
	}
	if n := front.failed.Load(); n > 0 || front.sent.Load() < 100 {
		t.Errorf("%d of %d requests failed, the last: %v", n, front.sent.Load(), front.last.Load())
	}
	for _, e := range all {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}
