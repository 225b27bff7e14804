package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const singleChanges = 9 // of one cluster, in a round

// compareWriter installs an unshared world by the writer and by the floor, in turn, and then changes
// single clusters. Processor time says more than the clock on a machine that others use, too.
func (r *recorder) compareWriter(ctx context.Context) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.spec.Shared = false
	fmt.Printf("%s; the repository's own settings: %s\n", r.spec, strings.Join(r.settings, " "))
	f, err := os.Create(filepath.Join(r.out, "writer.cpu.pprof"))
	if err != nil {
		return err
	}
	defer f.Close()
	var installs, floors []usage
	for range r.rounds {
		writer, err := r.writeOnce(ctx, peers.Writer(), f)
		if err != nil {
			return err
		}
		f = nil // the first round's profile is enough
		floor, err := r.writeOnce(ctx, peers.Floor(), nil)
		if err != nil {
			return err
		}
		installs, floors = append(installs, writer), append(floors, floor)
	}
	var clock, processor []float64
	for i := range installs {
		clock = append(clock, installs[i].wall/floors[i].wall)
		processor = append(processor, (installs[i].own+installs[i].git)/(floors[i].own+floors[i].git))
	}
	fmt.Printf("P1 writer / floor, median of %d pairs: %.2f by the clock, %.2f by processor time\n", r.rounds, figures.Median(clock), figures.Median(processor))
	return nil
}

// usage is the cost of a step in seconds.
type usage struct {
	wall     float64
	own, git float64 // processor time of this process, with the test server's HTTP; of git programs
}

// writeOnce installs the world by a peer and prints the cost of the installation, and of changes for one
// cluster after it.
func (r *recorder) writeOnce(ctx context.Context, m peers.Maker, profile *os.File) (install usage, err error) {
	dir, err := os.MkdirTemp("", "emco-profile-")
	if err != nil {
		return install, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	peer, state := m.New(dir), world.New(r.spec)
	defer func() { err = errors.Join(err, peer.Close(ctx)) }()
	if err := peer.Prepare(ctx, r.spec, nil); err != nil {
		return install, err
	}
	bare := peer.(interface{ Site() *site.Site }).Site().Bare
	for _, s := range r.settings {
		key, value, _ := strings.Cut(s, "=")
		if err := bare.Config(ctx, key, value); err != nil {
			return install, err
		}
	}
	apply := func(change world.Change) (usage, error) {
		pairs := state.Make(change)
		return measure(func() error {
			_, err := peer.Apply(ctx, peers.Turn{Change: change, Pairs: pairs, World: state})
			return err
		})
	}
	if profile != nil {
		if err := pprof.StartCPUProfile(profile); err != nil {
			return install, err
		}
	}
	install, err = apply(world.Change{Kind: world.Install})
	pprof.StopCPUProfile()
	if err != nil {
		return install, err
	}
	fmt.Printf("  P1 %-36s %6.2f s, processor %5.2f s, and git's %5.2f s\n", m.Name, install.wall, install.own, install.git)
	if _, stored := peer.(peers.Wanter); stored { // a floor stores nothing
		return install, nil
	}
	return install, r.singles(ctx, apply, bare.Git)
}

// singles measures changes for one cluster, and the walk with which receive-pack checks that a push is
// complete.
func (r *recorder) singles(ctx context.Context, apply func(world.Change) (usage, error), git func(context.Context, string, ...string) (string, error)) error {
	var clock, own, programs, walks []float64
	for i := range singleChanges {
		one, err := apply(world.Change{Kind: world.One, Cluster: i * min(r.spec.Clusters, 1000) / singleChanges}) // on the first branch
		if err != nil {
			return err
		}
		walk, err := measure(func() error {
			_, err := git(ctx, "", "rev-list", "--objects", "--quiet", site.Branch, "--not", site.Branch+"~1")
			return err
		})
		if err != nil {
			return err
		}
		clock, own, programs, walks = append(clock, one.wall), append(own, one.own), append(programs, one.git), append(walks, walk.git)
	}
	ms := func(all []float64) float64 { return figures.Median(all) * 1000 }
	fmt.Printf("  P3 median of %d: %.0f ms, processor %.1f ms, and git's %.1f ms; its walk alone %.1f ms\n", singleChanges, ms(clock), ms(own), ms(programs), ms(walks))
	return nil
}

func measure(do func() error) (usage, error) {
	own, git, began := processorTime(syscall.RUSAGE_SELF), processorTime(syscall.RUSAGE_CHILDREN), time.Now()
	err := do()
	return usage{
		wall: time.Since(began).Seconds(),
		own:  processorTime(syscall.RUSAGE_SELF) - own, git: processorTime(syscall.RUSAGE_CHILDREN) - git,
	}, err
}

// processorTime is that of this process, or of its ended children, in seconds.
func processorTime(who int) float64 {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
