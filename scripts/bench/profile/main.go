// Command profile runs one case of the benchmarks alone and collects profiles of the program emco
// meanwhile: processor, allocations, live memory, contended locks, and its counts of etcd requests.
//
//	profile -case p1 -clusters 10000 -out DIR
//
// With -processes 3 it profiles each of three processes on a shared etcd. With -secured callers need tokens, and each write is in the audit log.
//
// The case writer profiles the packages that write Git, in this process, and the floor: the least work there could be, to hash,
// compress and write each content once.
//
//	profile -case writer -clusters 1000 -rounds 5 -repository receive.fsckObjects=false,receive.unpackLimit=1
//
// Open a profile with `go tool pprof -http 127.0.0.1:0 bin/emco DIR/install.cpu.pprof`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/pace"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/suite"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// heapEvery is the pause between two looks at the live heap.
const heapEvery = 200 * time.Millisecond

// downPause is the pause between two looks at a program that is down.
const downPause = 10 * time.Millisecond

// restFor is how long the program rests after a restart: it reads where clusters report, and gives back memory.
const restFor = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r recorder
	flag.StringVar(&r.name, "case", "p1", "p1: first installation; p2: one value on all clusters, after it; p3: a change for one cluster; restart: after kill -9; rest: without requests, after that; all: these in a row; requests: of the API at fixed rates, after p1; p7: heartbeats and news by HTTPS; writer: the packages that write Git, with content of each cluster's own")
	flag.StringVar(&r.bin, "bin", "../../bin", "folder of the built programs")
	flag.StringVar(&r.out, "out", "profiles", "folder for the profiles")
	flag.IntVar(&r.spec.Clusters, "clusters", 1000, "number of clusters")
	flag.IntVar(&r.spec.Apps, "apps", 10, "number of apps")
	flag.IntVar(&r.setup.Processes, "processes", 0, "processes on a shared etcd of three members; 0: one with embedded stores; not for cases p7 and writer")
	flag.BoolVar(&r.setup.Secured, "secured", false, "callers need a token, and the audit log is strict; not for cases p7 and writer")
	flag.DurationVar(&r.load, "load", 10*time.Second, "how long each kind of request is sent, for case requests")
	flag.BoolVar(&r.peak, "peak", false, "keep the largest live heap of each step; looking at heaps is a third of the processor time that is printed then")
	flag.IntVar(&r.rounds, "rounds", 3, "pairs of writer and floor, for case writer")
	flag.Func("repository", "settings of the repository for case writer, separated by commas, such as receive.unpackLimit=1", func(text string) error {
		r.settings = strings.Split(text, ",")
		return nil
	})
	flag.IntVar(&r.spec.Resources, "resources", 10, "number of manifests of an app")
	flag.Parse()
	r.spec.Bytes, r.spec.Shared = 1024, true
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

// recorder runs the steps of a case, and profiles those that the case names.
type recorder struct {
	name, bin, out string
	spec           world.Spec
	peak           bool     // the largest live heap is kept
	rounds         int      // of case writer
	settings       []string // of its repository
	setup          peers.Setup
	load           time.Duration // of each kind of case requests

	processes atomic.Pointer[[]*program.Emco] // that are profiled
	emco      *peers.Emco                     // unless the case is p7
	world     *world.World
}

func (r *recorder) run(ctx context.Context) error {
	if r.name == "writer" {
		return r.compareWriter(ctx)
	}
	cases := []string{"writer", "p1", "p2", "p3", "p7", "restart", "rest", "requests", "all"}
	if !slices.Contains(cases, r.name) {
		return fmt.Errorf("-case is %q, want one of %s", r.name, strings.Join(cases, ", "))
	}
	if r.name == "p7" {
		return r.floods(ctx)
	}
	dir, err := os.MkdirTemp("", "emco-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := r.prepare(ctx, dir); err != nil {
		return err
	}
	defer func() { _ = r.emco.Close(ctx) }()
	steps := []struct {
		name   string
		change world.Change
	}{
		{"p1", world.Change{Kind: world.Install}},
		{"p2", world.Change{Kind: world.Value, App: 0}},
		{"p3", world.Change{Kind: world.One, Cluster: 1}},
	}
	for _, s := range steps {
		if err := r.step(ctx, s.name, func() error { return r.apply(ctx, s.change) }); err != nil {
			return err
		}
		if s.name == r.name {
			return nil
		}
		if r.name == "requests" {
			return r.requests(ctx)
		}
	}
	err = r.step(ctx, "restart", func() error {
		for _, e := range r.emco.Processes() {
			e.Kill()
		}
		err := r.emco.Start(ctx)
		r.profile(r.emco.Processes()...)
		return err
	})
	if err != nil || r.name == "restart" {
		return err
	}
	return r.rest(ctx)
}

// floods profiles the loads of reports.
func (r *recorder) floods(ctx context.Context) error {
	if err := r.listen(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "emco-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return suite.Floods(ctx, r.bin, filepath.Join(dir, "reports"), r.spec.Clusters, func(name string, p *program.Emco, flood func() (figures.Sample, error)) error {
		r.name = name
		r.profile(p)
		return r.step(ctx, name, func() error {
			got, err := flood()
			v := got.Values
			fmt.Printf("%s: %.0f/s, answers after %.1f ms (median), %.1f ms (p99), %.0f µs of processor time each\n", name, v["rate"], v["p50"], v["p99"], 1e6*v["cpu"]/max(1, v["rate"]*suite.Period.Seconds()))
			return err
		})
	})
}

// listen makes the output folder and has the program serve its profiles.
func (r *recorder) listen() (err error) {
	if r.bin, err = filepath.Abs(r.bin); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return os.Setenv("EMCO_DEBUG_ADDRESS", "127.0.0.1:0")
}

// profile sets the processes to profile.
func (r *recorder) profile(processes ...*program.Emco) { r.processes.Store(&processes) }

func (r *recorder) prepare(ctx context.Context, dir string) error {
	if err := r.listen(); err != nil {
		return err
	}
	r.emco, r.world = peers.NewEmco(r.bin, dir, r.setup), world.New(r.spec)
	began := time.Now()
	err := r.emco.Prepare(ctx, r.spec, nil)
	r.profile(r.emco.Processes()...)
	fmt.Printf("%s: prepared in %.1f s\n", r.spec, time.Since(began).Seconds())
	return err
}

func (r *recorder) apply(ctx context.Context, change world.Change) error {
	pairs := r.world.Make(change)
	_, err := r.emco.Apply(ctx, peers.Turn{Change: change, Pairs: pairs, World: r.world})
	return err
}

// step does one step, with profiles if the case names it, and prints what it cost each process.
func (r *recorder) step(ctx context.Context, name string, do func() error) error {
	if name != r.name && r.name != "all" {
		return do()
	}
	if err := r.fetchAll(ctx, name, "allocs-before", "allocs"); err != nil {
		return err
	}
	stop := r.startProfiles(ctx, name)
	before, err := r.read(ctx)
	if err != nil {
		return err
	}
	for _, p := range *r.processes.Load() { // the peak begins again with this step
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
			return err
		}
	}
	began := time.Now()
	err = do()
	took := time.Since(began)
	after, unread := r.read(ctx)
	if err := errors.Join(err, unread, stop()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i := range after {
		after[i].print(fmt.Sprintf("%s%s: %.2f s", name, r.suffix(i), took.Seconds()), before[i], name == "restart")
	}
	for _, kind := range []string{"allocs", "heap", "mutex", "block"} {
		if err := r.fetchAll(ctx, name, kind, kind); err != nil {
			return err
		}
	}
	return nil
}

// suffix distinguishes the processes in names; empty if there is one.
func (r *recorder) suffix(process int) string {
	if len(*r.processes.Load()) == 1 {
		return ""
	}
	return fmt.Sprintf(".%d", process)
}

// figuresOf are the figures of a process at a time.
type figuresOf struct {
	metrics map[string]float64
	memory  program.Memory
	used    time.Duration // of processor time
}

// read reads the figures of all processes.
func (r *recorder) read(ctx context.Context) (out []figuresOf, err error) {
	for _, p := range *r.processes.Load() {
		f := figuresOf{used: peers.CPUOf(p.PID())}
		if f.metrics, err = p.Metrics(ctx); err != nil {
			return nil, err
		}
		if f.memory, err = p.Memory(); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// print prints what happened since the figures of before; those of a process that was started meanwhile began with zero.
func (f figuresOf) print(what string, before figuresOf, started bool) {
	if started {
		before.metrics, before.used = nil, 0
	}
	count := func(name string) float64 { return f.metrics[name] - before.metrics[name] }
	fmt.Printf("%s, %.2f s of processor time, %.0f etcd requests with %.0f KiB, allocated %.0f MiB in %.0f thousand objects, resident %d MiB, at most %d MiB; before it %d and %d MiB\n",
		what, (f.used - before.used).Seconds(), count("emco_etcd_operations_total"), count("emco_etcd_bytes_total")/1024,
		count("go_memstats_alloc_bytes_total")/(1<<20), count("go_memstats_mallocs_total")/1000,
		f.memory.Resident>>20, f.memory.Peak>>20, before.memory.Resident>>20, before.memory.Peak>>20)
	for _, kind := range []string{"get", "list", "txn", "watch", "lease"} {
		fmt.Printf("  %-5s %5.0f requests, %6.0f KiB\n", kind, count(fmt.Sprintf("emco_etcd_operations_total{kind=%q}", kind)), count(fmt.Sprintf("emco_etcd_bytes_total{kind=%q}", kind))/1024)
	}
}

// requests profiles each kind of request at a fixed rate.
func (r *recorder) requests(ctx context.Context) error {
	return suite.Requests(ctx, r.emco, r.spec.Clusters, r.load, func(name string, load func() figures.Sample) error {
		name = strings.ReplaceAll(name, " ", "-")
		r.name = name
		return r.step(ctx, name, func() error {
			got := load()
			v := got.Values
			fmt.Printf("%s: %.0f/s, answers after %.1f ms (median), %.1f ms (p99) %s\n", name, v["achieved"], v["p50"], v["p99"], got.Note)
			if got.Failed != "" {
				return errors.New(got.Failed)
			}
			return nil
		})
	})
}

// rest waits, and prints how much memory the program keeps without requests.
func (r *recorder) rest(ctx context.Context) error {
	err := r.step(ctx, "rest", func() error {
		pace.Until(ctx, time.Now().Add(restFor))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if err := r.fetchAll(ctx, "rest", "heap", "heap?gc=1"); err != nil {
		return err
	}
	all, err := r.read(ctx)
	for _, live := range all {
		fmt.Printf("  live heap %.0f MiB\n", live.metrics["go_memstats_heap_alloc_bytes"]/(1<<20))
	}
	return err
}

// startProfiles profiles the processor until the returned function is called, in parts of a second: how
// long a step takes is not known before. With peak it also keeps the largest of the live heaps
// that it sees.
func (r *recorder) startProfiles(ctx context.Context, name string) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []<-chan error
	for i := range *r.processes.Load() {
		running = append(running, r.profileCPU(ctx, name, i))
		if r.peak {
			running = append(running, r.keepPeak(ctx, name, i))
		}
	}
	return func() (err error) {
		cancel()
		for _, done := range running {
			err = errors.Join(err, <-done)
		}
		return err
	}
}

func (r *recorder) profileCPU(ctx context.Context, name string, process int) <-chan error {
	part, whole := 0, context.WithoutCancel(ctx)
	return repeat(ctx, func() error {
		err := r.fetch(whole, process, name, fmt.Sprintf("cpu-%02d", part), "profile?seconds=1")
		part++
		return err
	})
}

func (r *recorder) keepPeak(ctx context.Context, name string, process int) <-chan error {
	largest, whole := 0, context.WithoutCancel(ctx)
	return repeat(ctx, func() error {
		if !pace.Until(ctx, time.Now().Add(heapEvery)) {
			return nil
		}
		profile, err := (*r.processes.Load())[process].Profile(whole, "heap?debug=1")
		if err != nil {
			return err
		}
		var objects, bytes int
		if _, err := fmt.Sscanf(string(profile), "heap profile: %d: %d", &objects, &bytes); err != nil || bytes <= largest {
			return err
		}
		largest = bytes
		return os.WriteFile(r.file(name, process, "peak"), profile, 0o644)
	})
}

// repeat calls do until ctx ends, and again if the program is down meanwhile.
func repeat(ctx context.Context, do func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			err := do()
			if _, down := errors.AsType[*net.OpError](err); down || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				pace.Until(ctx, time.Now().Add(downPause))
			} else if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

// fetchAll stores a profile of each process.
func (r *recorder) fetchAll(ctx context.Context, name, kind, profile string) error {
	for i := range *r.processes.Load() {
		if err := r.fetch(ctx, i, name, kind, profile); err != nil {
			return err
		}
	}
	return nil
}

// fetch stores a profile of one process as a file.
func (r *recorder) fetch(ctx context.Context, process int, name, kind, profile string) error {
	content, err := (*r.processes.Load())[process].Profile(ctx, profile)
	if err != nil {
		return err
	}
	return os.WriteFile(r.file(name, process, kind), content, 0o644)
}

func (r *recorder) file(name string, process int, kind string) string {
	return filepath.Join(r.out, name+r.suffix(process)+"."+kind+".pprof")
}
