package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// upPlan is the parsed flags of up.
type upPlan struct {
	clusters, flux []string
	dir            string
	nodes          int
}

func parseUp(args []string) (upPlan, error) {
	var p upPlan
	var clusters, flux string
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.StringVar(&clusters, "clusters", "c1", "names of the clusters")
	flags.StringVar(&flux, "flux", "", "names of the clusters with Flux")
	flags.StringVar(&p.dir, "dir", "", "folder of the bed")
	flags.IntVar(&p.nodes, "nodes", cluster.DefaultNodes, "nodes per cluster")
	if err := parse(flags, args); err != nil {
		return p, err
	}
	p.clusters, p.flux = names(clusters), names(flux)
	if p.nodes == 0 {
		p.nodes = -1 // none
	}
	return p, p.check()
}

func (p upPlan) check() error {
	if p.dir == "" {
		return fmt.Errorf("up needs -dir: %w", errUsage)
	}
	if sorted := slices.Sorted(slices.Values(p.clusters)); len(slices.Compact(sorted)) != len(p.clusters) {
		return fmt.Errorf("a cluster is named twice in %v: %w", p.clusters, errUsage)
	}
	for _, name := range p.flux {
		if !slices.Contains(p.clusters, name) {
			return fmt.Errorf("-flux %s is not in -clusters %v: %w", name, p.clusters, errUsage)
		}
	}
	return nil
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// up runs a bed until ctx ends, which is no error, or a process ends, which is one.
func up(ctx context.Context, out Output, args []string) error {
	p, err := parseUp(args)
	if err != nil {
		return err
	}
	b, err := bed.Open(ctx, bed.Options{Dir: p.dir, Progress: out.Progress})
	if err != nil {
		return err
	}
	defer b.Close()
	r := &runningBed{bed: b, started: make([]clusterMember, len(p.clusters))}
	r.forget() // of a killed run
	defer r.stop()
	if err := r.start(ctx, p); err != nil {
		return err
	}
	if err := r.write(); err != nil {
		return err
	}
	defer r.forget()
	b.Say("bed", "ready, %s", filepath.Join(b.Dir(), fileName))
	return r.watch(ctx)
}

// runningBed contains everything that up has started.
type runningBed struct {
	bed     *bed.Bed
	started []clusterMember
}

// clusterMember is a cluster and, on request, its Flux; both are nil until started.
type clusterMember struct {
	cluster *cluster.Cluster
	flux    *flux.Flux
}

// start starts the clusters concurrently and waits for all of them.
func (r *runningBed) start(ctx context.Context, p upPlan) error {
	errs := make([]error, len(p.clusters))
	var group sync.WaitGroup
	for i, name := range p.clusters {
		group.Go(func() { errs[i] = r.member(ctx, &r.started[i], p, name) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *runningBed) member(ctx context.Context, m *clusterMember, p upPlan, name string) error {
	c, err := cluster.Start(ctx, cluster.Options{Bed: r.bed, Name: name, Nodes: p.nodes})
	if err != nil {
		return err
	}
	m.cluster = c
	if slices.Contains(p.flux, name) {
		m.flux, err = flux.Start(ctx, c, flux.Options{})
	}
	return err
}

// watch returns nil when ctx ends and an error when a process ends.
func (r *runningBed) watch(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := r.check(); err != nil {
			return err
		}
	}
}

func (r *runningBed) check() error {
	if err := r.bed.Check(); err != nil {
		return err
	}
	for _, m := range r.started {
		if err := m.cluster.Check(); err != nil {
			return fmt.Errorf("cluster %s: %w", m.cluster.Name(), err)
		}
		if m.flux == nil {
			continue
		}
		if err := m.flux.Check(); err != nil {
			return fmt.Errorf("flux of cluster %s: %w", m.cluster.Name(), err)
		}
	}
	return nil
}

// stop stops the clusters concurrently and waits for all of them.
func (r *runningBed) stop() {
	var group sync.WaitGroup
	for _, m := range r.started {
		group.Go(m.stop)
	}
	group.Wait()
	r.bed.Say("bed", "stopped")
}

func (m clusterMember) stop() {
	if m.flux != nil {
		m.flux.Stop()
	}
	if m.cluster != nil {
		m.cluster.Stop()
	}
}
