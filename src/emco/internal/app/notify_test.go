package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
)

// lines follows a status over HTTP: until returns the first one that is as wanted.
func (s *testStage) lines(path string) (until func(what string, ok func(v2.Status) bool)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	s.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/v2/"+path, nil)
	s.must("make a request", err)
	a, err := http.DefaultClient.Do(r)
	s.must("follow "+path, err)
	s.Cleanup(func() { _ = a.Body.Close() })
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/x-ndjson" {
		s.Fatalf("follow %s: got %d, %s", path, a.StatusCode, a.Header.Get("Content-Type"))
	}
	lines := bufio.NewReader(a.Body)
	return func(what string, ok func(v2.Status) bool) {
		s.Helper()
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil && ok == nil {
				return // it was to end
			}
			s.must(what, err)
			var st v2.Status
			s.must(what, json.Unmarshal(line, &st))
			if ok != nil && ok(st) {
				return
			}
		}
	}
}

// notified follows the group by gRPC.
func (g testGroup) notified() grpc.ServerStreamingClient[pb.StatusNotification] {
	g.Helper()
	conn, err := grpc.NewClient(g.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.must("connect", err)
	g.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.Context()), patience)
	g.Cleanup(cancel)
	stream, err := pb.NewStatusNotifyClient(conn).StatusRegister(ctx, &pb.StatusRegistration{
		ClientId: "test", StatusType: pb.StatusRegistration_DEPLOYED,
		Key: &pb.StatusRegistration_DigKey{DigKey: &pb.DigKey{Project: "shop", CompositeApp: "till", CompositeAppVersion: "v1", DeploymentIntentGroup: "autumn"}},
	})
	g.must("register", err)
	return stream
}

// A client that follows a status sees the whole life of a deployment, over HTTP and by
// gRPC, until the program stops.
func TestStatusIsFollowed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	until, stream := s.lines(g.path+"/status?status=deployed&watch=true"), g.notified()
	inCloud := s.lines(cloud + "/status?watch=true")
	inCloud("the cloud is there", func(st v2.Status) bool { return st.DeployedStatus == "Instantiated" && len(st.Clusters) == 2 })
	value := func(want pb.StatusValue) {
		t.Helper()
		for {
			n, err := stream.Recv()
			s.must(want.String(), err)
			if n.GetStatusValue() == want {
				return
			}
		}
	}
	until("approved", func(st v2.Status) bool { return len(st.States.Actions) == 2 })
	value(pb.StatusValue_NOT_DEPLOYED)
	g.act("instantiate")
	until("applied", func(st v2.Status) bool {
		return st.DeployedStatus == "Instantiated" && st.DeployedCounts["Applied"] == 2
	})
	value(pb.StatusValue_DEPLOYED)
	g.act("terminate")
	until("removed", func(st v2.Status) bool { return st.DeployedStatus == "Terminated" })
	value(pb.StatusValue_NOT_DEPLOYED)
	s.stop() // it complains if a stream holds it up
	until("the end", nil)
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the end by gRPC: got %v", err)
	}
}
