// Package external calls placement controllers that are other processes, by gRPC.
package external

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"google.golang.org/grpc"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/placement/placementcontrollerpb"
)

// Controllers returns a function that returns the controller of a registration. Nothing is dialled before the
// controller is called.
func Controllers(dial grpccall.Dialer) func(v2.Controller) placement.Controller {
	return func(c v2.Controller) placement.Controller {
		return controller{c.Metadata.Name, net.JoinHostPort(c.Spec.Host, strconv.Itoa(c.Spec.Port)), dial}
	}
}

type controller struct {
	name, address string
	dial          grpccall.Dialer
}

// Demands implements placement.Controller: the controller's answer is a filter for each app. An error is Unavailable if
// the controller does not answer, Forbidden if its address must not be dialled, and Invalid if it refuses, or answers what is
// no choice among the candidates.
func (c controller) Demands(ctx context.Context, d placement.Deployment) (map[string]placement.Demand, error) {
	apps, err := d.Candidates(ctx)
	if err != nil || len(apps) == 0 {
		return nil, err
	}
	req := requestOf(d, apps)
	answer, err := grpccall.Call(ctx, c.dial, c.address, func(ctx context.Context, conn grpc.ClientConnInterface) (*pb.ResourceResponse, error) {
		return pb.NewPlacementControllerClient(conn).FilterClusters(ctx, req)
	})
	if err != nil {
		return nil, err
	}
	if !answer.GetStatus() {
		return nil, errs.New(errs.Invalid, "it refuses: "+grpccall.Line(answer.GetMessage()))
	}
	choices := map[string]*pb.Choice{}
	for _, choice := range answer.GetChoices() {
		if choices[choice.GetApp()] != nil {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("it answers two choices for app %q", grpccall.Line(choice.GetApp())))
		}
		choices[choice.GetApp()] = choice
	}
	out := map[string]placement.Demand{}
	for _, app := range apps {
		choice := choices[app.App]
		if choice == nil {
			return nil, errs.New(errs.Invalid, "it answers no choice for app "+app.App+"; controllers of upstream EMCO, which change etcd, cannot be called")
		}
		f, err := c.filter(app, choice)
		if err != nil {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("it answers a bad choice for app %s: %s", app.App, err))
		}
		out[app.App] = placement.Demand{Filters: []placement.Filter{f}}
		delete(choices, app.App)
	}
	if others := slices.Sorted(maps.Keys(choices)); len(others) > 0 {
		return nil, errs.New(errs.Invalid, fmt.Sprintf("it answers a choice for app %q, which is not in the request", grpccall.Line(others[0])))
	}
	return out, nil
}

// requestOf returns the request for a deployment.
func requestOf(d placement.Deployment, apps []placement.Candidates) *pb.ResourceRequest {
	out := &pb.ResourceRequest{AppContext: d.Group, IntentName: d.Intent}
	all := map[v2.ClusterKey]bool{}
	texts := func(keys []v2.ClusterKey) []string {
		texts := make([]string, len(keys))
		for i, key := range keys {
			all[key], texts[i] = true, string(key)
		}
		return texts
	}
	for _, a := range apps {
		app := &pb.PlacedApp{Name: a.App, Mandatory: texts(a.Mandatory)}
		for _, group := range a.AnyOf {
			app.AnyOf = append(app.AnyOf, &pb.Alternatives{Clusters: texts(group), Count: uint32(a.Count)})
		}
		out.Apps = append(out.Apps, app)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c, _ := d.Inventory.Cluster(key)
		out.Clusters = append(out.Clusters, &pb.Candidate{Provider: key.Provider(), Name: key.Cluster(), Labels: slices.Sorted(slices.Values(c.Labels))})
	}
	return out
}

// filter returns the filter of a choice, or why the choice is invalid.
func (c controller) filter(app placement.Candidates, choice *pb.Choice) (*filter, error) {
	candidates := map[v2.ClusterKey]bool{}
	for _, group := range append(slices.Clone(app.AnyOf), app.Mandatory) {
		for _, key := range group {
			candidates[key] = true
		}
	}
	out := &filter{controller: c.name, stay: map[v2.ClusterKey]bool{}, why: map[v2.ClusterKey]string{}}
	if reason := grpccall.Line(choice.GetReason()); reason != "" {
		out.remark = "controller " + c.name + ": " + reason
	}
	for _, text := range choice.GetClusters() {
		key := v2.ClusterKey(text)
		if !candidates[key] {
			return nil, fmt.Errorf("cluster %q is no candidate", grpccall.Line(text))
		}
		out.stay[key] = true
	}
	for _, left := range choice.GetLeftOut() {
		reason := grpccall.Line(left.GetReason())
		for _, text := range left.GetClusters() {
			key := v2.ClusterKey(text)
			switch {
			case !candidates[key]:
				return nil, fmt.Errorf("cluster %q, which it leaves out, is no candidate", grpccall.Line(text))
			case out.stay[key]:
				return nil, fmt.Errorf("cluster %q both stays and is left out", text)
			}
			out.why[key] = cmp.Or(out.why[key], reason)
		}
	}
	return out, nil
}

// filter is the choice of a controller for an app.
type filter struct {
	controller, remark string
	stay               map[v2.ClusterKey]bool
	why                map[v2.ClusterKey]string // why others are left out
}

// Admit implements placement.Filter.
func (f *filter) Admit(_ context.Context, _ placement.Request, c placement.Cluster) (placement.Verdict, error) {
	key := c.Key()
	if f.stay[key] {
		return placement.Verdict{Cluster: key, Admitted: true, Reason: "controller " + f.controller + " chooses it", Remark: f.remark}, nil
	}
	return placement.Verdict{Cluster: key, Reason: "controller " + f.controller + ": " + cmp.Or(f.why[key], "it chooses others")}, nil
}
