package external_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/external"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/placement/placementcontrollerpb"
)

// chooser is an external controller that answers as a test requires.
type chooser struct {
	pb.UnimplementedPlacementControllerServer
	calls  atomic.Int64
	last   atomic.Pointer[pb.ResourceRequest]
	answer func(req *pb.ResourceRequest) (*pb.ResourceResponse, error)
}

func (c *chooser) FilterClusters(_ context.Context, req *pb.ResourceRequest) (*pb.ResourceResponse, error) {
	c.calls.Add(1)
	c.last.Store(req)
	return c.answer(req)
}

// large leaves clusters with the label "large".
func large(req *pb.ResourceRequest) (*pb.ResourceResponse, error) {
	out := &pb.ResourceResponse{Status: true}
	for _, app := range req.GetApps() {
		choice := &pb.Choice{App: app.GetName(), Reason: "it is large"}
		for _, c := range req.GetClusters() {
			key := c.GetProvider() + "+" + c.GetName()
			isOf := func(a *pb.Alternatives) bool { return slices.Contains(a.GetClusters(), key) }
			switch {
			case !slices.Contains(app.GetMandatory(), key) && !slices.ContainsFunc(app.GetAnyOf(), isOf):
			case slices.Contains(c.GetLabels(), "large"):
				choice.Clusters = append(choice.Clusters, key)
			case key == "p+b":
				choice.LeftOut = append(choice.LeftOut, &pb.LeftOut{Clusters: []string{key}, Reason: "it is\nsmall"})
			}
		}
		out.Choices = append(out.Choices, choice)
	}
	return out, nil
}

// serve starts a controller, and returns what EMCO calls.
func serve(t *testing.T, c *chooser) placement.Controller {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterPlacementControllerServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			t.Errorf("the server ended with %v", err)
		}
	})
	var registered v2.Controller
	registered.Metadata.Name, registered.Spec.Host, registered.Spec.Port = "chooser", "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return external.Controllers(grpccall.Dialer{Admit: outbound.Policy{}.Check})(registered)
}

// fleet is the clusters p+a to p+e; c and d are large.
type fleet struct{}

func (fleet) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	c := placement.Cluster{Provider: key.Provider(), Name: key.Cluster(), Labels: []string{"east"}}
	if c.Name == "c" || c.Name == "d" {
		c.Labels = []string{"large", "east"}
	}
	return c, c.Name <= "e"
}

func (f fleet) Labelled(string, string) []v2.ClusterKey {
	return []v2.ClusterKey{"p+a", "p+b", "p+c", "p+d", "p+e"}
}

// at is a deployment with an app that goes to one of all clusters, and one that goes to p+d and one of others.
func at() placement.Deployment {
	return placement.Deployment{
		Group: "projects/p", Intent: "sizes", Inventory: fleet{},
		Candidates: func(context.Context) ([]placement.Candidates, error) {
			return []placement.Candidates{
				{App: "db", AnyOf: [][]v2.ClusterKey{{"p+a", "p+b", "p+c"}}, Count: 2},
				{App: "web", Mandatory: []v2.ClusterKey{"p+d"}, AnyOf: [][]v2.ClusterKey{{"p+b", "p+c"}}, Count: 1},
			}, nil
		},
	}
}

func TestTheChoiceOfAControllerIsAFilter(t *testing.T) {
	t.Parallel()
	c := &chooser{answer: large}
	called := serve(t, c)
	demands, err := called.Demands(t.Context(), at())
	if err != nil || len(demands) != 2 {
		t.Fatalf("Demands = %v, %v", demands, err)
	}
	want := &pb.ResourceRequest{
		AppContext: "projects/p", IntentName: "sizes",
		Apps: []*pb.PlacedApp{
			{Name: "db", AnyOf: []*pb.Alternatives{{Clusters: []string{"p+a", "p+b", "p+c"}, Count: 2}}},
			{Name: "web", Mandatory: []string{"p+d"}, AnyOf: []*pb.Alternatives{{Clusters: []string{"p+b", "p+c"}, Count: 1}}},
		},
		Clusters: []*pb.Candidate{
			{Provider: "p", Name: "a", Labels: []string{"east"}},
			{Provider: "p", Name: "b", Labels: []string{"east"}},
			{Provider: "p", Name: "c", Labels: []string{"east", "large"}},
			{Provider: "p", Name: "d", Labels: []string{"east", "large"}},
		},
	}
	if got := c.last.Load(); !proto.Equal(got, want) {
		t.Errorf("the request is %v, want %v", got, want)
	}
	d, err := placement.Decide(t.Context(), placement.Request{
		App: "db", Inventory: fleet{}, Intent: placement.Intent{AnyOf: []placement.Selector{{Provider: "p", Labels: []string{"east"}}}},
	}, demands["db"].Filters)
	if err != nil || len(d.Clusters) != 1 || d.Clusters[0] != "p+c" || d.Why["p+c"] != "anyOf: the first admitted of 5 by name; controller chooser: it is large" {
		t.Errorf("the decision is %+v, %v", d, err)
	}
	why := map[v2.ClusterKey]string{}
	for _, v := range d.Refused {
		why[v.Cluster] = v.Reason
	}
	if len(why) != 4 || why["p+a"] != "controller chooser: it chooses others" || why["p+b"] != "controller chooser: it is small" {
		t.Errorf("refused are %v", why)
	}
}

func TestNothingIsAskedWithoutCandidates(t *testing.T) {
	t.Parallel()
	c := &chooser{answer: large}
	d := at()
	d.Candidates = func(context.Context) ([]placement.Candidates, error) { return nil, nil }
	if demands, err := serve(t, c).Demands(t.Context(), d); err != nil || len(demands) != 0 || c.calls.Load() != 0 {
		t.Errorf("Demands = %v, %v after %d calls", demands, err, c.calls.Load())
	}
}

func TestBadChoicesAreRefused(t *testing.T) {
	t.Parallel()
	choose := func(choices ...*pb.Choice) *pb.ResourceResponse {
		return &pb.ResourceResponse{Status: true, Choices: append(choices, &pb.Choice{App: "web", Clusters: []string{"p+d", "p+c"}})}
	}
	for name, tt := range map[string]struct {
		answer *pb.ResourceResponse
		err    error
		want   string
	}{
		"a refusal":              {&pb.ResourceResponse{Message: "no such\nintent"}, nil, "it refuses: no such intent"},
		"an error":               {nil, status.Error(codes.NotFound, "what?"), "it answers NotFound: what?"},
		"upstream's answer":      {&pb.ResourceResponse{AppContext: "5", Status: true}, nil, "it answers no choice for app db; controllers of upstream EMCO"},
		"a missing app":          {choose(), nil, "it answers no choice for app db"},
		"an app of others":       {choose(&pb.Choice{App: "db"}, &pb.Choice{App: "x"}), nil, `a choice for app "x", which is not in the request`},
		"an app twice":           {choose(&pb.Choice{App: "db"}, &pb.Choice{App: "db"}), nil, `two choices for app "db"`},
		"a cluster of others":    {choose(&pb.Choice{App: "db", Clusters: []string{"p+c", "p+e"}}), nil, `a bad choice for app db: cluster "p+e" is no candidate`},
		"a cluster of other app": {choose(&pb.Choice{App: "db", Clusters: []string{"p+d"}}), nil, `cluster "p+d" is no candidate`},
		"no cluster":             {choose(&pb.Choice{App: "db", Clusters: []string{"c"}}), nil, `cluster "c" is no candidate`},
		"left out of others":     {choose(&pb.Choice{App: "db", LeftOut: []*pb.LeftOut{{Clusters: []string{"p+e"}}}}), nil, `cluster "p+e", which it leaves out, is no candidate`},
		"both":                   {choose(&pb.Choice{App: "db", Clusters: []string{"p+c"}, LeftOut: []*pb.LeftOut{{Clusters: []string{"p+c"}}}}), nil, `cluster "p+c" both stays and is left out`},
	} {
		c := &chooser{answer: func(*pb.ResourceRequest) (*pb.ResourceResponse, error) { return tt.answer, tt.err }}
		demands, err := serve(t, c).Demands(t.Context(), at())
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || len(demands) > 0 || c.calls.Load() != 1 {
			t.Errorf("%s: %v, %v after %d calls, want Invalid with %q", name, demands, err, c.calls.Load(), tt.want)
		}
	}
}
