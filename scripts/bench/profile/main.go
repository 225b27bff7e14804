// Command profile runs one case of the benchmarks alone and collects profiles of the program emco
// meanwhile: processor, allocations, live memory, contended locks, and its counts of etcd requests.
//
//	profile -case p1 -clusters 10000 -out DIR
//
// The case writer profiles the packages that write Git, in this process, beside the floor:
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
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
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
	flag.StringVar(&r.name, "case", "p1", "p1: first installation; p2: one value on all clusters, after it; p3: a change for one cluster; restart: after kill -9; rest: without requests, after that; all: these in a row; p7: heartbeats and news by HTTPS; writer: the packages that write Git, with content of each cluster's own")
	flag.StringVar(&r.bin, "bin", "../../bin", "folder of the built programs")
	flag.StringVar(&r.out, "out", "profiles", "folder for the profiles")
	flag.IntVar(&r.spec.Clusters, "clusters", 1000, "number of clusters")
	flag.IntVar(&r.spec.Apps, "apps", 10, "number of apps")
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

	address string // of emco's profiles
	program *program.Emco
	emco    *peers.Emco // unless the case is p7
	world   *world.World
}

func (r *recorder) run(ctx context.Context) error {
	if r.name == "writer" {
		return r.compareWriter(ctx)
	}
	cases := []string{"writer", "p1", "p2", "p3", "p7", "restart", "rest", "all"}
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
	}
	err = r.step(ctx, "restart", func() error {
		r.emco.Program.Kill()
		err := r.emco.Start(ctx)
		r.program = r.emco.Program
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
		r.program, r.name = p, name
		return r.step(ctx, name, func() error {
			got, err := flood()
			v := got.Values
			fmt.Printf("%s: %.0f/s, answers after %.1f ms (median), %.1f ms (p99), %.0f µs of processor time each\n", name, v["rate"], v["p50"], v["p99"], 1e6*v["cpu"]/max(1, v["rate"]*suite.Period.Seconds()))
			return err
		})
	})
}

// listen makes the output folder and chooses the address of the program's profiles.
func (r *recorder) listen() (err error) {
	if r.bin, err = filepath.Abs(r.bin); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.address, err = freeAddress(); err != nil {
		return err
	}
	return os.Setenv("EMCO_DEBUG_ADDRESS", r.address)
}

func (r *recorder) prepare(ctx context.Context, dir string) error {
	if err := r.listen(); err != nil {
		return err
	}
	r.emco, r.world = peers.NewEmco(r.bin, dir, peers.Setup{}), world.New(r.spec)
	began := time.Now()
	err := r.emco.Prepare(ctx, r.spec, nil)
	r.program = r.emco.Program
	fmt.Printf("%s: prepared in %.1f s\n", r.spec, time.Since(began).Seconds())
	return err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (r *recorder) apply(ctx context.Context, change world.Change) error {
	pairs := r.world.Make(change)
	_, err := r.emco.Apply(ctx, peers.Turn{Change: change, Pairs: pairs, World: r.world})
	return err
}

// step does one step, with profiles if the case names it, and prints what it cost.
func (r *recorder) step(ctx context.Context, name string, do func() error) error {
	wanted := name == r.name || r.name == "all"
	stop := func() error { return nil }
	if wanted {
		if err := r.fetch(ctx, name+".allocs-before.pprof", "allocs"); err != nil {
			return err
		}
		stop = r.startProfiles(ctx, name)
	}
	before, err := r.program.Metrics(ctx)
	if err != nil {
		return err
	}
	prior, err := r.program.Memory()
	if err != nil {
		return err
	}
	// The peak begins again with this step.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.program.PID()), []byte("5"), 0); err != nil {
		return err
	}
	began, used := time.Now(), peers.CPUOf(r.program.PID())
	err = do()
	took, spent := time.Since(began), peers.CPUOf(r.program.PID())-used
	if err := errors.Join(err, stop()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !wanted {
		return nil
	}
	after, err := r.program.Metrics(ctx)
	if err != nil {
		return err
	}
	if name == "restart" {
		before, spent = map[string]float64{}, spent+used
	}
	memory, err := r.program.Memory()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.2f s, %.2f s of processor time, %.0f etcd requests with %.0f KiB, resident %d MiB, at most %d MiB; before it %d and %d MiB\n",
		name, took.Seconds(), spent.Seconds(), after["emco_etcd_operations_total"]-before["emco_etcd_operations_total"],
		(after["emco_etcd_bytes_total"]-before["emco_etcd_bytes_total"])/1024, memory.Resident>>20, memory.Peak>>20, prior.Resident>>20, prior.Peak>>20)
	for _, kind := range []string{"get", "list", "txn", "watch", "lease"} {
		count := func(name string) float64 {
			key := fmt.Sprintf("%s{kind=%q}", name, kind)
			return after[key] - before[key]
		}
		fmt.Printf("  %-5s %5.0f requests, %6.0f KiB\n", kind, count("emco_etcd_operations_total"), count("emco_etcd_bytes_total")/1024)
	}
	for _, kind := range []string{"allocs", "heap", "mutex", "block"} {
		if err := r.fetch(ctx, name+"."+kind+".pprof", kind); err != nil {
			return err
		}
	}
	return nil
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
	if err := r.fetch(ctx, "rest.heap.pprof", "heap?gc=1"); err != nil {
		return err
	}
	live, err := r.program.Metrics(ctx)
	fmt.Printf("  live heap %.0f MiB\n", live["go_memstats_heap_alloc_bytes"]/(1<<20))
	return err
}

// startProfiles profiles the processor until the returned function is called, in parts of a second: how
// long a step takes is not known before. With peak it also keeps the largest of the live heaps
// that it sees.
func (r *recorder) startProfiles(ctx context.Context, name string) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	whole := context.WithoutCancel(ctx)
	part, largest := 0, 0
	cpu := repeat(ctx, func() error {
		err := r.fetch(whole, fmt.Sprintf("%s.cpu-%02d.pprof", name, part), "profile?seconds=1")
		part++
		return err
	})
	if !r.peak {
		return func() error {
			cancel()
			return <-cpu
		}
	}
	heap := repeat(ctx, func() error {
		if !pace.Until(ctx, time.Now().Add(heapEvery)) {
			return nil
		}
		profile, err := r.read(whole, "heap?debug=1")
		if err != nil {
			return err
		}
		var objects, bytes int
		if _, err := fmt.Sscanf(string(profile), "heap profile: %d: %d", &objects, &bytes); err != nil || bytes <= largest {
			return err
		}
		largest = bytes
		return os.WriteFile(filepath.Join(r.out, name+".peak.pprof"), profile, 0o644)
	})
	return func() error {
		cancel()
		return errors.Join(<-cpu, <-heap)
	}
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

// fetch stores one of emco's profiles as a file.
func (r *recorder) fetch(ctx context.Context, file, profile string) error {
	content, err := r.read(ctx, profile)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, file), content, 0o644)
}

// read returns one of emco's profiles.
func (r *recorder) read(ctx context.Context, profile string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/debug/pprof/"+profile, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: emco answered %s", profile, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
