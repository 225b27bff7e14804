package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/pace"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	converged = 10 // measured changes
	resting   = time.Minute
	// memoryOfCluster is what a bare cluster with Flux takes, in MiB.
	memoryOfCluster = 600
)

// edgePeriod is how often each Flux looks at Git: together at most ten times a second, which the Git server of the same
// machine can answer.
func edgePeriod(clusters int) time.Duration { return time.Second * time.Duration(max(1, clusters/10)) }

// edgeSizes are the fleets of P17, in clusters.
func edgeSizes() []int { return []int{3, 10, 30} }

// edge measures the way of a change to the last of some real clusters: P17. It belongs to the full set.
func (s *Suite) edge(ctx context.Context) error {
	if !s.Full && !slices.Contains(s.Only, "P17") || !s.built(ctx, "P17", "etcd", "kube", "kwok", "flux") {
		return nil
	}
	sizes := edgeSizes()
	if len(s.Sizes) > 0 {
		sizes = s.Sizes
	}
	ours, others := peers.EmcoEdge(s.Bin), []peers.EdgeMaker{peers.DirectEdge(s.Bin), peers.HandEdge(), peers.HubEdge()}
	if s.built(ctx, "P17, Karmada", "karmada") {
		others = append(others, peers.KarmadaPush(), peers.KarmadaPull())
	}
	if s.built(ctx, "P17, Argo CD", "argocd") {
		others = append(others, peers.ArgoWebhook(), peers.ArgoPolling())
	}
	if s.built(ctx, "P17, Open Cluster Management", "ocm") {
		others = append(others, peers.OpenClusterManagement())
	}
	for _, clusters := range sizes {
		spec := world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach, Shared: true}
		of := fmt.Sprintf("%d clusters, %d apps x %d, Flux looks every %s", clusters, apps, resources, edgePeriod(clusters))
		if free, need := availableMiB(), clusters*memoryOfCluster; free < need {
			if s.round == 1 {
				s.time.omit(fmt.Sprintf("P17 %s: it needs %d MiB of memory, %d are available", of, need, free))
			}
			continue
		}
		for _, m := range slices.Concat([]peers.EdgeMaker{ours}, shuffled(s, others)) { // if time is short, there is what the others are compared with
			if m.Most > 0 && clusters > m.Most {
				continue
			}
			s.turn("P17 "+of+", "+m.Name, func() {
				sample := s.converge(ctx, m, spec)
				sample.Metric, sample.Peer, sample.Case = "P17", m.Name, of
				s.add(sample)
			})
		}
	}
	return ctx.Err()
}

// converge changes a value repeatedly, and waits each time until the clusters have it. Then it lets the peer rest.
func (s *Suite) converge(ctx context.Context, m peers.EdgeMaker, spec world.Spec) (out figures.Sample) {
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(15+spec.Clusters)*time.Minute)
	defer cancel()
	e := m.New(dir)
	w := world.New(spec)
	var took []float64
	every := edgePeriod(spec.Clusters)
	err := e.Prepare(ctx, spec, every)
	for i := 0; i <= cmp.Or(m.Changes, converged) && err == nil; i++ {
		change := world.Change{Kind: world.Value, App: i % apps}
		if i == 0 {
			change.Kind = world.Install
		}
		pairs := w.Make(change)
		var live time.Duration
		live, err = e.Converge(ctx, peers.Turn{Change: change, Pairs: pairs, World: w})
		took = append(took, live.Seconds())
		pace.Until(ctx, time.Now().Add(time.Duration(s.draw.Int64N(int64(every))))) // otherwise all changes come at the same phase of Flux's period
	}
	values := map[string]float64{}
	if err == nil {
		values["install"], values["seconds"], values["worst"] = took[0], figures.Median(took[1:]), figures.Quantile(took[1:], 1)
		err = rest(ctx, e.Processes(), values)
	}
	if err = errors.Join(err, e.Close(context.WithoutCancel(ctx))); err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	return figures.Sample{Values: values}
}

// rest adds what processes use while nothing changes: processor seconds per minute, and resident MiB.
func rest(ctx context.Context, p peers.Processes, values map[string]float64) error {
	control, clusters := used(p.Control), used(p.Clusters)
	began := time.Now()
	if !pace.Until(ctx, began.Add(resting)) {
		return ctx.Err()
	}
	minutes := time.Since(began).Minutes()
	values["restCPU"] = (used(p.Control) - control).Seconds() / minutes
	values["edgeCPU"] = (used(p.Clusters) - clusters).Seconds() / minutes
	var err error
	if values["restMiB"], err = residentMiB(p.Control); err != nil {
		return err
	}
	values["edgeMiB"], err = residentMiB(p.Clusters)
	return err
}

// used is the processor time of processes with their children so far.
func used(ids []int) (sum time.Duration) {
	for _, id := range ids {
		sum += peers.CPUOf(id)
	}
	return sum
}

// residentMiB is the memory of processes with their children.
func residentMiB(ids []int) (mib float64, err error) {
	for _, id := range ids {
		bytes, err := peers.ResidentOf(id)
		if err != nil {
			return 0, err
		}
		mib += float64(bytes) / (1 << 20)
	}
	return mib, nil
}
