// Package external calls action controllers that are other processes, by gRPC.
package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/customize/contextupdatepb"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Limits of one call.
const (
	timeout   = 10 * time.Second // of all attempts together
	attempts  = 3
	pause     = 200 * time.Millisecond // before the second attempt; doubled for each further one
	maxAnswer = 16 << 20               // bytes
	maxEdits  = 10_000
)

// Dialer makes controllers of registrations.
type Dialer struct {
	// Admit returns why an address must not be dialled.
	Admit func(netip.Addr) error
}

// Controller returns the controller that a document registers. Nothing is dialled before it is
// called.
func (d Dialer) Controller(c v2.Controller) customize.Controller {
	return controller{
		name: c.Metadata.Name, address: net.JoinHostPort(c.Spec.Host, strconv.Itoa(c.Spec.Port)),
		dial: outbound.Dialer(d.Admit),
	}
}

type controller struct {
	name, address string
	dial          *net.Dialer
}

// Customize implements customize.Controller. An error changes nothing. It is Unavailable if the
// controller does not answer, and Invalid if it refuses, or answers what is no edit of the
// deployment.
func (c controller) Customize(ctx context.Context, at customize.Deployment) (customize.Edits, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+c.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.dial.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.MaxCallSendMsgSize(maxAnswer)), grpc.WithNoProxy())
	if err != nil {
		return customize.Edits{}, errs.E(errs.Invalid, "call", c.address, err)
	}
	defer conn.Close()
	answer, err := c.call(ctx, pb.NewContextupdateClient(conn), requestOf(at))
	if err != nil {
		return customize.Edits{}, err
	}
	return c.edits(at, answer)
}

// call calls the controller, and again while it is unavailable.
func (c controller) call(ctx context.Context, client pb.ContextupdateClient, req *pb.ContextUpdateRequest) (*pb.ContextUpdateResponse, error) {
	wait := pause
	for attempt := 1; ; attempt++ {
		answer, err := client.UpdateAppContext(ctx, req)
		switch {
		case err == nil && answer.GetAppContextUpdated():
			return answer, nil
		case err == nil:
			return nil, errs.New(errs.Invalid, "it refuses: "+answer.GetAppContextUpdateMessage())
		case status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded:
			return nil, errs.New(errs.Invalid, fmt.Sprintf("it answers %s: %s", status.Code(err), status.Convert(err).Message()))
		case attempt == attempts || ctx.Err() != nil:
			return nil, errs.E(errs.Unavailable, "call", c.address, fmt.Errorf("%d attempts: %s", attempt, status.Convert(err).Message()))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errs.E(errs.Unavailable, "call", c.address, ctx.Err())
		}
		wait *= 2
	}
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
			return customize.Edits{}, errs.New(errs.Invalid, fmt.Sprintf("it answers a bad edit %d: %s", i+1, err))
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
