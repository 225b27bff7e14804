package external_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/customize/contextupdatepb"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/external"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// labeller is an external controller: it labels the Service "web" on clusters that have its
// intent as a label, or answers as a test requires.
type labeller struct {
	pb.UnimplementedContextupdateServer
	calls  atomic.Int64
	answer func(call int64) (*pb.ContextUpdateResponse, error) // nil: it does its work
}

func (l *labeller) UpdateAppContext(_ context.Context, req *pb.ContextUpdateRequest) (*pb.ContextUpdateResponse, error) {
	call := l.calls.Add(1)
	if l.answer != nil {
		return l.answer(call)
	}
	out := &pb.ContextUpdateResponse{AppContextUpdated: true}
	for _, app := range req.GetApps() {
		edit := &pb.Edit{App: app.GetName(), Change: &pb.Edit_Patch{Patch: &pb.Patch{
			ApiVersion: "v1", Kind: "Service", Name: "web", Type: "jsonmerge", Text: []byte(`{"metadata":{"labels":{"of":"` + req.GetAppContext() + `"}}}`),
		}}}
		for _, c := range app.GetClusters() {
			for _, label := range c.GetLabels() {
				if label == req.GetIntentName() {
					edit.Clusters = append(edit.Clusters, c.GetProvider()+"+"+c.GetName())
				}
			}
		}
		out.Edits = append(out.Edits, edit,
			&pb.Edit{App: app.GetName(), Change: &pb.Edit_Values{Values: &pb.Values{Values: []*pb.Value{{Key: "a", Value: "b"}}}}},
			&pb.Edit{App: app.GetName(), Change: &pb.Edit_Object{Object: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")}})
	}
	return out, nil
}

// fleet has any cluster; p+b is large.
type fleet struct{}

func (fleet) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	c := placement.Cluster{Provider: key.Provider(), Name: key.Cluster()}
	if key == "p+b" {
		c.Labels = []string{"large"}
	}
	return c, true
}

func (fleet) Labelled(string, string) []v2.ClusterKey { return nil }

func at() customize.Deployment {
	return customize.Deployment{
		Group: "projects/p", Intent: "large", Inventory: fleet{},
		Apps: []customize.App{{Name: "web", Clusters: []v2.ClusterKey{"p+a", "p+b"}}},
	}
}

// serve starts a controller, and returns what EMCO calls.
func serve(t *testing.T, l *labeller) customize.Controller {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterContextupdateServer(server, l)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	var c v2.Controller
	c.Metadata.Name, c.Spec.Host, c.Spec.Port = "labeller", "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return external.Controllers(grpccall.Dialer{Admit: outbound.Policy{}.Check})(c)
}

func TestAnExternalControllerIsAController(t *testing.T) {
	t.Parallel()
	c := serve(t, &labeller{})
	customizetest.Check(t, c, at())
	edits, err := c.Customize(t.Context(), at())
	if err != nil || len(edits.Edits) != 3 {
		t.Fatalf("Customize = %v, %v", edits, err)
	}
	e := edits.Edits[0]
	if len(e.Clusters) != 1 || e.Clusters[0] != "p+b" || e.Origin != "controller labeller" || !strings.Contains(string(e.Patch.Text), `"of":"projects/p"`) || e.Patch.Target.Kind != "Service" {
		t.Errorf("the first edit is %+v", e)
	}
	if edits.Edits[1].Values[0].Value != "b" || len(edits.Edits[2].Object) == 0 || edits.Edits[2].Clusters != nil {
		t.Errorf("the other edits are %+v", edits.Edits[1:])
	}
}

func TestBadAnswersAreRefused(t *testing.T) {
	t.Parallel()
	edit := func(e *pb.Edit) *pb.ContextUpdateResponse {
		return &pb.ContextUpdateResponse{AppContextUpdated: true, Edits: []*pb.Edit{{App: "web", Change: &pb.Edit_Object{Object: []byte("x")}}, e}}
	}
	patched := func(p *pb.Patch) *pb.ContextUpdateResponse {
		return edit(&pb.Edit{App: "web", Change: &pb.Edit_Patch{Patch: p}})
	}
	for name, tt := range map[string]struct {
		answer *pb.ContextUpdateResponse
		err    error
		want   string
	}{
		"a refusal":              {&pb.ContextUpdateResponse{AppContextUpdateMessage: "no such intent"}, nil, "it refuses: no such intent"},
		"an error":               {nil, status.Error(codes.InvalidArgument, "what?"), "it answers InvalidArgument: what?"},
		"an unknown app":         {edit(&pb.Edit{App: "db"}), nil, `bad edit 2: app "db" is not in the request`},
		"a cluster of others":    {edit(&pb.Edit{App: "web", Clusters: []string{"p+z"}}), nil, `does not go to cluster "p+z"`},
		"no cluster":             {edit(&pb.Edit{App: "web", Clusters: []string{"z"}}), nil, "bad edit 2"},
		"no change":              {edit(&pb.Edit{App: "web"}), nil, "it has no change"},
		"an unknown form":        {patched(&pb.Patch{Kind: "A", Name: "b", Type: "yaml", Text: []byte("{}")}), nil, "no form of patches"},
		"a patch of nothing":     {patched(&pb.Patch{Type: "json", Text: []byte("[]")}), nil, "kind and the name"},
		"a patch without a text": {patched(&pb.Patch{Kind: "A", Name: "b", Type: "json"}), nil, "needs a text"},
	} {
		l := &labeller{answer: func(int64) (*pb.ContextUpdateResponse, error) { return tt.answer, tt.err }}
		edits, err := serve(t, l).Customize(t.Context(), at())
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || len(edits.Edits) > 0 || l.calls.Load() != 1 {
			t.Errorf("%s: %v, %v after %d calls, want Invalid with %q", name, edits, err, l.calls.Load(), tt.want)
		}
	}
}
