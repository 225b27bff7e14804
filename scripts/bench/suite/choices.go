package suite

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	zones    = 5    // different contents of the app whose values name the zone
	zoned    = 1000 // clusters of that app
	chosen   = 100  // clusters of the app that is placed by score
	requests = 200  // per second, of each kind
)

// choices measures a large fleet whose clusters have key-value pairs: a placement by score, an app with values by
// cluster, and requests at a fixed rate: P21, and P10 of this fleet.
func (s *Suite) choices(ctx context.Context) error {
	spec := world.Spec{Apps: 1, Clusters: 10000, Resources: 1, Bytes: bytesEach, Shared: true}
	if len(s.Sizes) > 0 {
		spec.Clusters = s.Sizes[0]
	}
	s.turn("P21 "+spec.String(), func() {
		dir := s.folder()
		defer os.RemoveAll(dir)
		p := peers.NewEmco(s.Bin, dir, peers.Setup{})
		defer func() { _ = p.Close(ctx) }()
		of := fmt.Sprintf("%d clusters", spec.Clusters)
		fail := func(err error) {
			s.add(figures.Sample{Metric: "P21", Case: of, Peer: figures.Process, Failed: err.Error()})
		}
		if err := prepareChoices(ctx, p, spec, dir); err != nil {
			fail(fmt.Errorf("prepare: %w", err))
			return
		}
		for _, measure := range []func(context.Context, *peers.Emco, int) (figures.Sample, error){placedByScore, zonedApp} {
			sample, err := measure(ctx, p, spec.Clusters)
			if err != nil {
				fail(err)
				return
			}
			sample.Metric, sample.Peer = "P21", figures.Process
			s.add(sample)
		}
		a := newAPIClient(p)
		defer a.client.CloseIdleConnections()
		for _, r := range a.requests(spec.Clusters, []string{""}) {
			sample := atRate(ctx, r, requests, s.number(requests), period)
			sample.Metric, sample.Case, sample.Peer = "P10", fmt.Sprintf("%d/s: %s of %d", requests, r.name, spec.Clusters), figures.Process
			s.record(sample) // who asks for P21 alone gets them, too
		}
	})
	return ctx.Err()
}

// prepareChoices registers the clusters with their key-value pairs and the label of their zone's app, and onboards both apps.
func prepareChoices(ctx context.Context, p *peers.Emco, spec world.Spec, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := p.Prepare(ctx, spec, nil); err != nil {
		return err
	}
	err := fleet.Each(ctx, spec.Clusters, func(ctx context.Context, i int) error {
		if i < zoned {
			if err := p.Label(ctx, i, "zoned"); err != nil {
				return err
			}
		}
		pairs := v2.KV{Named: v2.Named{Metadata: v2.Metadata{Name: "facts"}}}
		pairs.Spec.KV = []map[string]v2.Scalar{
			{"cost": number(i * 7919 % 1000)}, {"carbon": number(i * 104729 % 500)}, {"load": number(i % 97)}, {"zone": v2.Scalar(fmt.Sprintf("z%d", i%zones))},
		}
		_, err := client.Post[client.NoContent](ctx, p.API, v2.NewClusterKey(fleet.Provider, world.Cluster(i)).StoreKey()+"/kv-pairs", pairs)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range []fleet.Deployment{scored(), perZone()} {
		if err := p.Fleet.Onboard(ctx, dir, d); err != nil {
			return err
		}
	}
	return nil
}

func number(n int) v2.Scalar { return v2.Scalar(strconv.Itoa(n)) }

// scored is placed on the best clusters of the fleet by three criteria, equally many in each zone.
func scored() fleet.Deployment {
	return fleet.Deployment{Name: "scored", Apps: []fleet.App{{Chart: fleet.Synthetic("scored", 2), Intent: v2.PlacementSelection{
		AnyOf: []v2.Selector{{Provider: fleet.Provider, Label: fleet.Label}},
		Choose: &v2.Choice{Count: chosen, SpreadBy: "zone", Prefer: []v2.Criterion{
			{By: v2.ByCost, Weight: 2}, {By: v2.ByCarbon}, {By: v2.ByFact, Fact: "load", Order: "lowest"},
		}},
	}}}}
}

// perZone has a value that names the zone of the cluster.
func perZone() fleet.Deployment {
	return fleet.Deployment{Name: "zoned", Apps: []fleet.App{{
		Chart: fleet.Synthetic("zoned", 4), Overrides: map[string]string{"colour": "{{ .cluster.kv.zone }}"},
		Intent: v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: fleet.Provider, Label: "zoned"}}}},
	}}}
}

// placedByScore asks twice where the app goes: the key-value pairs are read once.
func placedByScore(ctx context.Context, p *peers.Emco, clusters int) (figures.Sample, error) {
	out := figures.Sample{Case: fmt.Sprintf("placement of %d of %d clusters by score, with reasons", chosen, clusters), Values: map[string]float64{}}
	a := newAPIClient(p)
	defer a.client.CloseIdleConnections()
	for _, column := range []string{"first", "seconds"} {
		began := time.Now()
		if _, err := a.send(ctx, http.MethodGet, scored().Path()+"/placement?explain=true&limit=200", ""); err != nil {
			return out, err
		}
		out.Values[column] = time.Since(began).Seconds()
	}
	return out, nil
}

// zonedApp installs the app whose content differs by zone.
func zonedApp(ctx context.Context, p *peers.Emco, clusters int) (figures.Sample, error) {
	on := min(zoned, clusters)
	out := figures.Sample{Case: fmt.Sprintf("installation on %d clusters with %d different values", on, zones)}
	before, err := p.Program.Metrics(ctx)
	if err != nil {
		return out, err
	}
	began := time.Now()
	if err := p.Fleet.Act(ctx, perZone().Path(), "instantiate"); err != nil {
		return out, err
	}
	if err := p.AwaitOf(ctx, perZone(), v2.StatusInstantiated); err != nil {
		return out, err
	}
	after, err := p.Program.Metrics(ctx)
	renders := after["emco_renders_total"] - before["emco_renders_total"]
	out.Values = map[string]float64{"seconds": time.Since(began).Seconds(), "renders": renders}
	if err == nil && renders != zones {
		err = fmt.Errorf("%.0f renders, want %d", renders, zones)
	}
	return out, err
}
