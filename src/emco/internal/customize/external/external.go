// Package external calls action controllers that are other processes, by gRPC.
package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"google.golang.org/grpc"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/customize/contextupdatepb"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// maxEdits bounds the edits of one answer.
const maxEdits = 10_000

// Controllers returns a function that returns the controller of a registration. Nothing is dialled before the
// controller is called.
func Controllers(dial grpccall.Dialer) func(v2.Controller) customize.Controller {
	return func(c v2.Controller) customize.Controller {
		return controller{c.Metadata.Name, net.JoinHostPort(c.Spec.Host, strconv.Itoa(c.Spec.Port)), dial}
	}
}

type controller struct {
	name, address string
	dial          grpccall.Dialer
}

// Customize implements customize.Controller. An error changes nothing. It is Unavailable if the
// controller does not answer, Forbidden if its address must not be dialled, and Invalid if it
// refuses, or answers what is no edit of the deployment.
func (c controller) Customize(ctx context.Context, at customize.Deployment) (customize.Edits, error) {
	req := requestOf(at)
	answer, err := grpccall.Call(ctx, c.dial, c.address, func(ctx context.Context, conn grpc.ClientConnInterface) (*pb.ContextUpdateResponse, error) {
		return pb.NewContextupdateClient(conn).UpdateAppContext(ctx, req)
	})
	if err != nil {
		return customize.Edits{}, err
	}
	if !answer.GetAppContextUpdated() {
		return customize.Edits{}, errs.New(errs.Invalid, "it refuses: "+grpccall.Line(answer.GetAppContextUpdateMessage()))
	}
	return c.edits(at, answer)
}

// requestOf returns the request for a deployment.
func requestOf(at customize.Deployment) *pb.ContextUpdateRequest {
	out := &pb.ContextUpdateRequest{AppContext: at.Group, IntentName: at.Intent}
	for _, a := range at.Apps {
		app := &pb.App{Name: a.Name}
		for _, key := range a.Clusters {
			cluster := &pb.Cluster{Provider: key.Provider(), Name: key.Cluster()}
			if c, known := at.Inventory.Cluster(key); known {
				cluster.Labels = slices.Sorted(slices.Values(c.Labels))
			}
			app.Clusters = append(app.Clusters, cluster)
		}
		out.Apps = append(out.Apps, app)
	}
	return out
}

// edits returns the edits of an answer.
func (c controller) edits(at customize.Deployment, answer *pb.ContextUpdateResponse) (out customize.Edits, err error) {
	if n := len(answer.GetEdits()); n > maxEdits {
		return out, errs.New(errs.Invalid, fmt.Sprintf("it answers %d edits, above the limit of %d", n, maxEdits))
	}
	for i, e := range answer.GetEdits() {
		edit, err := editOf(at, e)
		if err != nil {
			return customize.Edits{}, errs.New(errs.Invalid, fmt.Sprintf("it answers a bad edit %d: %s", i+1, grpccall.Line(err.Error())))
		}
		edit.Origin = "controller " + c.name
		out.Edits = append(out.Edits, edit)
	}
	return out, nil
}

func editOf(at customize.Deployment, e *pb.Edit) (out customize.Edit, err error) {
	i := slices.IndexFunc(at.Apps, func(a customize.App) bool { return a.Name == e.GetApp() })
	if i < 0 {
		return out, fmt.Errorf("app %q is not in the request", e.GetApp())
	}
	out.App = e.GetApp()
	for _, text := range e.GetClusters() {
		key, err := v2.ParseClusterKey(text)
		if err == nil && !at.Apps[i].Has(key) {
			err = fmt.Errorf("app %s does not go to cluster %q", out.App, text)
		}
		if err != nil {
			return out, err
		}
		out.Clusters = append(out.Clusters, key)
	}
	slices.Sort(out.Clusters)
	out.Clusters = slices.Compact(out.Clusters)
	switch change := e.GetChange().(type) {
	case *pb.Edit_Object:
		out.Object = append([]byte{}, change.Object...)
	case *pb.Edit_Patch:
		out.Patch, err = patchOf(change.Patch)
	case *pb.Edit_Values:
		out.Values = []render.Override{}
		for _, v := range change.Values.GetValues() {
			out.Values = append(out.Values, render.Override{Key: v.GetKey(), Value: v.GetValue()})
		}
	default:
		err = errors.New("it has no change")
	}
	return out, err
}

func patchOf(p *pb.Patch) (*customize.Patch, error) {
	form := patch.Type(p.GetType())
	switch {
	case form != patch.JSON && form != patch.Strategic && form != patch.Merge:
		return nil, fmt.Errorf("%q is no form of patches; use json, merge or jsonmerge", p.GetType())
	case p.GetKind() == "" || p.GetName() == "":
		return nil, errors.New("a patch needs the kind and the name of an object")
	case len(p.GetText()) == 0:
		return nil, errors.New("a patch needs a text")
	}
	target := customize.Target{APIVersion: p.GetApiVersion(), Kind: p.GetKind(), Name: p.GetName()}
	return &customize.Patch{Target: target, Type: form, Text: p.GetText()}, nil
}
