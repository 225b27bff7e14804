package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/clock"
	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/src/api/disktest"
)

const (
	faultClusters = 4
	faultWriters  = 8  // each with a deployment and documents of its own
	manyWriters   = 24 // with EMCO_FAULTS
	faultRounds   = 5
	fewOperations = 150 // without EMCO_FAULTS
)

// While clients write, all kinds of faults strike at once: kill -9, pauses, a full and a slow disk, failing
// steps, a Git server that cannot be reached, clocks that jump by a day, and tenants with hostile charts and
// requests. Each client knows what was accepted. The status never reports a change before EMCO has carried
// it out; and whenever the faults rest, documents, revisions and branches hold exactly what was accepted.
// EMCO_FAULTS is the number of operations. Clocks jump only with it, because that program takes long to build.
func TestFaultsAtOnce(t *testing.T) {
	operations, whole := fewOperations, false
	if n := os.Getenv("EMCO_FAULTS"); n != "" {
		if _, err := fmt.Sscan(n, &operations); err != nil {
			t.Fatal("EMCO_FAULTS is no number")
		}
		whole = true
	}
	seed := uint64(time.Now().UnixNano())
	if _, err := fmt.Sscan(os.Getenv("EMCO_SEED"), &seed); err == nil {
		t.Log("the seed is given")
	}
	do := steps{TB: t}
	do.next("the program, %d clusters; EMCO_SEED=%d", faultClusters, seed)
	f := newFaultStorm(t, whole, seed)

	for round := range faultRounds {
		until := int64(operations * (round + 1) / faultRounds)
		do.next("faults, up to %d operations", until)
		f.strike(until)
		f.compare()
	}
	f.sound()
	do.next("done")
	t.Logf("    %d operations: %s", f.done.Load(), &f.kinds)
	t.Logf("    faults: %s", &f.faults)
	t.Logf("    %d answers of the status compared with the branch", f.looks.Load())
	t.Logf("    %d lost, %d doubled, %d lying statuses", f.lost.Load(), f.doubled.Load(), f.lies.Load())
}

// faultStorm is a stage whose program is struck by faults.
type faultStorm struct {
	*testStage
	api     atomic.Pointer[string] // address of the program that runs now
	network *proxy
	disk    *disktest.Disk // nil: this machine does not allow one
	clock   string         // file with the jump; empty: clocks do not jump
	random  *lockedRand
	writers []*faultWriter

	done, looks         atomic.Int64
	lost, doubled, lies atomic.Int64
	kinds, faults       tally
}

func newFaultStorm(t *testing.T, whole bool, seed uint64) *faultStorm {
	t.Helper()
	f := &faultStorm{random: &lockedRand{r: rand.New(rand.NewPCG(seed, 1))}}
	flags := []string{"-tags", "failpoints"}
	if whole {
		var more []string
		more, f.clock = jumpingClock(t)
		flags = append(flags, more...)
	}
	f.testStage = newStage(t, "-retry.first=100ms", "-retry.longest=1s", "-git.rest=1s", "-git.look=5s", "-git.timeout=5s",
		"-render.timeout=2s", "-diskReserve=134217728", "-lease=3s")
	f.must("stop emco", f.emco.Stop())
	f.options.Bin = buildEmco(t, flags...)
	data := filepath.Join(f.options.Dir, "data")
	f.must("clear the data", errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o700)))
	if f.disk = disktest.New(t, data, 1024); f.disk != nil {
		f.options.With = f.disk.With()
	} else {
		t.Log("    without a full disk: this machine does not allow to mount a tmpfs")
	}
	f.start()
	f.serve()

	c, network := f.fleetBehindProxy(faultClusters)
	f.network = network
	writers := faultWriters
	if whole {
		writers = manyWriters
	}
	for i := range writers {
		w := newFaultWriter(f, i)
		f.must("onboard", c.Onboard(t.Context(), f.dir, w.d))
		f.writers = append(f.writers, w)
	}
	f.must("onboard a hostile tenant", c.Onboard(t.Context(), f.dir, hostile()))
	return f
}

// jumpingClock returns the flags that build a program whose clock jumps, and the file with the jump.
func jumpingClock(t *testing.T) (flags []string, file string) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := clock.Overlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "jump")
	t.Setenv(clock.Variable, file)
	return []string{"-overlay", overlay}, file
}

// buildEmco builds the program with flags of go build and returns its folder.
func buildEmco(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, flags...), "-o", dir, "./cmd/emco")...)
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build emco: %v\n%s", err, out)
	}
	if err := os.Symlink(filepath.Join(binaries(), "emcoctl"), filepath.Join(dir, "emcoctl")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve tells the writers where the program listens.
func (f *faultStorm) serve() {
	address := f.emco.URL()
	f.api.Store(&address)
}

// strike has writers work until the number of operations is reached, while faults happen.
func (f *faultStorm) strike(until int64) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	var faults, writers sync.WaitGroup
	faults.Go(func() { f.supervise(ctx) })
	faults.Go(func() { f.disturb(ctx) })
	faults.Go(func() { f.attack(ctx) })
	for _, w := range f.writers {
		writers.Go(func() {
			for f.done.Add(1) <= until && !f.Failed() {
				w.operate(ctx)
			}
			f.done.Add(-1)
		})
	}
	writers.Wait()
	cancel()
	faults.Wait()
	f.calm()
}

// supervise starts the program again when it has ended, and sometimes kills or pauses it.
func (f *faultStorm) supervise(ctx context.Context) {
	strike := time.NewTimer(f.random.between(time.Second, 4*time.Second))
	defer strike.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-strike.C:
			if f.random.n(3) > 0 {
				f.faults.add("kill -9")
				f.emco.Kill()
			} else { // longer than the lease, or not
				f.faults.add("pause")
				f.emco.Pause(ctx, f.random.between(100*time.Millisecond, 5*time.Second))
			}
			strike.Reset(f.random.between(2*time.Second, 10*time.Second))
		case <-tick.C:
		}
		if f.emco.Exited() != nil {
			f.restart(ctx)
		}
	}
}

// restart starts the program, again and again while it cannot start.
func (f *faultStorm) restart(ctx context.Context) {
	for ctx.Err() == nil {
		e, err := program.Start(ctx, f.options)
		if err == nil {
			f.emco = e
			f.serve()
			return
		}
		f.faults.add("failed start")
		time.Sleep(200 * time.Millisecond)
	}
}

// disturb causes one fault after the other around the program, until ctx ends.
func (f *faultStorm) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		f.disturbOnce(ctx)
		sleep(ctx, f.random.between(100*time.Millisecond, time.Second))
	}
}

func (f *faultStorm) disturbOnce(ctx context.Context) {
	long := f.random.between(300*time.Millisecond, 3*time.Second)
	switch kind := f.random.n(5); {
	case kind == 0:
		f.faults.add("partition")
		f.network.cut(f.random.n(2) == 0)
		sleep(ctx, long)
		f.network.heal()
	case kind == 1 && f.disk != nil:
		f.faults.add("full disk")
		if err := f.disk.Leave(f.random.n(130)); err != nil {
			f.Error(err)
		}
		sleep(ctx, long)
		if err := f.disk.Leave(-1); err != nil {
			f.Error(err)
		}
	case kind == 2 && f.clock != "":
		f.faults.add("clock jump")
		jumps := []time.Duration{-24 * time.Hour, -time.Hour, -time.Minute, 0, time.Minute, time.Hour, 24 * time.Hour}
		f.must("set the clock", clock.Set(f.clock, jumps[f.random.n(len(jumps))]))
		sleep(ctx, long)
	case kind == 3:
		f.faults.add("slow disk")
		f.arm("documents.put.before=delay(100ms, 1 in 3);etcd.*=delay(20ms, 1 in 3);git.commit.before=delay(500ms, 1 in 2)")
		sleep(ctx, long)
		f.arm(";")
	default:
		points := []string{
			"api.request", "api.answer", "documents.read", "documents.put.before", "documents.put.after", "documents.remove.before", "documents.remove.after",
			"etcd.read", "etcd.step.before", "etcd.step.after", "etcd.publish.before", "etcd.publish.after", "etcd.place.before", "etcd.intend.before", "etcd.intend.after",
			"etcd.settle.before", "etcd.settle.after", "etcd.own.before", "etcd.own.after", "git.head.before", "git.read", "git.commit.before", "git.commit.after", "git.answer",
			"render.before", "render.after",
		}
		actions := []string{"error(once)", "error(1 in 3, 5 times)", "delay(300ms, 3 times)", "kill(once)"}
		point, action := points[f.random.n(len(points))], actions[f.random.n(len(actions))]
		f.faults.add("failing step")
		f.arm(point + "=" + action)
		sleep(ctx, long)
		f.arm(";")
	}
}

// arm sets failpoints in the program that runs now, if one does.
func (f *faultStorm) arm(rules string) {
	ctx, cancel := context.WithTimeout(f.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, *f.api.Load()+"/failpoints", strings.NewReader(rules))
	f.must("make a request", err)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// calm ends all faults. The program runs afterwards.
func (f *faultStorm) calm() {
	f.Helper()
	f.network.heal()
	if f.disk != nil {
		f.must("empty the disk", f.disk.Leave(-1))
	}
	if f.clock != "" {
		f.must("set the clock", clock.Set(f.clock, 0))
	}
	if f.emco.Exited() == nil {
		f.arm(";")
	}
	if f.emco.Exited() != nil {
		f.start()
		f.serve()
	}
}

// hostile is a deployment whose chart never ends.
func hostile() fleet.Deployment {
	chart := fleet.Synthetic("bomb", 2).With("templates/bomb.yaml", "{{ range until 1000000000 }}{{ . }}{{ end }}\n")
	return fleet.Deployment{Name: "hostile", Apps: []fleet.App{{Chart: chart}}}
}

// attack sends what nobody should, until ctx ends.
func (f *faultStorm) attack(ctx context.Context) {
	group := hostile().Path()
	for n := 0; ctx.Err() == nil; n++ {
		f.faults.add("hostile request")
		switch n % 5 {
		case 0:
			f.throw(ctx, group+"/instantiate", "")
		case 1:
			f.throw(ctx, group+"/update", "")
		case 2:
			f.throw(ctx, "projects", `{"metadata":{"name":"big","description":"`+strings.Repeat("x", 8<<20)+`"}}`)
		case 3:
			f.throw(ctx, "projects", strings.Repeat("[", 100_000))
		case 4:
			f.throw(ctx, "projects/..%2f..%2f/composite-apps", `{"metadata":{"name":"../../x"}}`)
		}
		sleep(ctx, 500*time.Millisecond)
	}
}

// throw posts something and ignores the answer.
func (f *faultStorm) throw(ctx context.Context, path, body string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *f.api.Load()+"/v2/"+path, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// lockedRand is a source of random numbers for several goroutines.
type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand // guarded by mu
}

func (l *lockedRand) n(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

func (l *lockedRand) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.n(int(most-least)))
}

// tally counts by name.
type tally struct {
	mu sync.Mutex
	of map[string]int // guarded by mu
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[name]++
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name, n := range c.of {
		out = append(out, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// proxy forwards connections to a server, unless it is cut.
type proxy struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	silent bool                  // cut connections hang instead of ending; guarded by mu
	broken bool                  // guarded by mu
	open   map[net.Conn]struct{} // guarded by mu
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, open: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.forward(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.heal()
		p.closeAll()
		all.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// forward copies both directions until one ends.
func (p *proxy) forward(c net.Conn) {
	defer c.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.enter(c, server) {
		return
	}
	defer p.leave(c, server)
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, server}, {server, c}} {
		go func() {
			_, _ = io.Copy(gate{p, pair[0]}, pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// gate drops what is written while the proxy is cut.
type gate struct {
	p  *proxy
	to net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	broken := g.p.broken
	g.p.mu.Unlock()
	if broken {
		return len(b), nil
	}
	return g.to.Write(b)
}

func (p *proxy) enter(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken && !p.silent {
		return false
	}
	for _, c := range conns {
		p.open[c] = struct{}{}
	}
	return true
}

func (p *proxy) leave(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.open, c)
	}
}

// cut ends all connections and refuses new ones, or lets them hang.
func (p *proxy) cut(silent bool) {
	p.mu.Lock()
	p.broken, p.silent = true, silent
	p.mu.Unlock()
	if !silent {
		p.closeAll()
	}
}

// heal forwards again. Connections of a silent cut have lost bytes, so they end.
func (p *proxy) heal() {
	p.mu.Lock()
	was := p.broken
	p.broken = false
	p.mu.Unlock()
	if was {
		p.closeAll()
	}
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}
