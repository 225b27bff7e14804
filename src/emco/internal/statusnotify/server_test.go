package statusnotify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// serverFixture is a server over a real etcd, with a client and the group "d", whose revision 1 wants
// app "a" on two clusters.
type serverFixture struct {
	*testing.T
	store  *appcontext.Store
	bundle appcontext.Digest
	object manifest.Object
	client pb.StatusNotifyClient
	conn   *grpc.ClientConn
	stop   func() // the server
}

const uid = "7"

func newSite(t *testing.T, limit int) *serverFixture {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
	s := &serverFixture{T: t, store: contexttest.New(t)}
	s.publish()
	m := mirror.New(s.store, slog.New(slog.DiscardHandler))
	o := statusview.Default()
	o.Interval = time.Millisecond
	reader := statusview.New(s.store, m, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := New(l, Options{
		Groups: s.groups(reader), Clouds: s.clouds(reader), Clusters: s.clusters(reader), Follow: reader.Follow, Limit: limit, Log: slog.New(slog.DiscardHandler),
	})
	s.serve(m.Run, server.Run)
	s.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<20))
	s.must(err)
	t.Cleanup(func() { _ = s.conn.Close() })
	s.client = pb.NewStatusNotifyClient(s.conn)
	return s
}

// A program may be stopped while it starts.
func TestAServerThatIsStoppedAtItsStartEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := New(l, Options{Log: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// serve runs services until stop, or the end of the test.
func (s *serverFixture) serve(services ...func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var wg sync.WaitGroup
	for _, run := range services {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				s.Errorf("a service ended with %v", err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	s.Cleanup(s.stop)
}

func (s *serverFixture) groups(r *statusview.Reader) Source {
	return func(_ context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
		if who.Name != "d" {
			return statusview.Feed{}, errs.New(errs.NotFound, "DeploymentIntentGroup not found")
		}
		doc := store.Doc{Key: "projects/p/composite-apps/ca/v1/deployment-intent-groups/d", UID: uid}
		return statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
			return r.Group(ctx, statusview.Subject{Doc: doc, Identity: who}, q)
		}}, nil
	}
}

func (s *serverFixture) clouds(r *statusview.Reader) Source {
	return func(_ context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
		doc := store.Doc{Key: "projects/p/logical-clouds/lc", UID: "9"}
		return statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
			return r.Cloud(ctx, statusview.Subject{Doc: doc, Identity: who}, q, []v2.ClusterKey{v2.NewClusterKey("edge", "c1")})
		}}, nil
	}
}

// clusters shows the group as if it were networks of the cluster edge+c1.
func (s *serverFixture) clusters(r *statusview.Reader) Source {
	return func(ctx context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
		if who != (v2.StatusSubject{ClusterProvider: "edge", Name: "c1"}) {
			return statusview.Feed{}, errs.New(errs.NotFound, "Cluster not found")
		}
		feed, err := s.groups(r)(ctx, v2.StatusSubject{Name: "d"}, q)
		read := feed.Read
		feed.Read = func(ctx context.Context) (statusview.Answer, error) {
			a, err := read(ctx)
			return a.OfCluster(), err
		}
		return feed, err
	}
}

func (s *serverFixture) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *serverFixture) publish() {
	s.Helper()
	objects, err := manifest.Parse("x", []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default}}"))
	s.must(err)
	objects, err = manifest.Complete(objects, manifest.Defaults{Stamp: true})
	s.must(err)
	s.object = objects[0]
	s.must(s.store.PutBlobs(s.Context(), map[appcontext.Digest][]byte{s.object.Digest: s.object.Content}))
	s.bundle, err = s.store.PutBundle(s.Context(), appcontext.Bundle{Objects: []appcontext.Ref{{ID: s.object.ID, Digest: s.object.Digest, Stamp: s.object.Stamp()}}})
	s.must(err)
	act := appcontext.HistoryEntry{State: appcontext.Instantiated, Instance: uid, Revision: 1}
	head, err := s.store.ChangeHead(s.Context(), appcontext.Head{}, appcontext.Head{UID: uid, Document: "x", State: appcontext.Instantiated, LastRev: 1}, []appcontext.HistoryEntry{act}, nil)
	s.must(err)
	apps := map[string]appcontext.Digest{"a": s.bundle}
	_, err = s.store.Publish(s.Context(), head, appcontext.Revision{Number: 1, Instance: uid, Apps: []appcontext.App{{Name: "a"}}},
		func(yield func(appcontext.Placement) bool) {
			_ = yield(appcontext.Placement{Cluster: "edge+c1", Apps: apps}) && yield(appcontext.Placement{Cluster: "edge+c2", Apps: apps})
		})
	s.must(err)
}

func (s *serverFixture) pair(cluster v2.ClusterKey, phase appcontext.Phase, why string) {
	s.Helper()
	p := appcontext.Pair{Key: appcontext.PairKey{Cluster: cluster, Deployment: uid, App: "a"}, Rev: 1, Desired: s.bundle, Phase: phase, Error: why}
	if phase == appcontext.Applied {
		p.Applied = s.bundle
	}
	s.must(s.store.PutPairs(s.Context(), appcontext.Fence{}, []appcontext.Pair{p}, nil))
}

func (s *serverFixture) report(cluster v2.ClusterKey, condition string) {
	s.Helper()
	r := appcontext.Report{Key: appcontext.PairKey{Cluster: cluster, Deployment: uid, App: "a"}, Resources: []appcontext.ResourceStatus{{ID: s.object.ID, Status: condition, Content: s.object.Stamp()}}}
	s.must(s.store.PutReports(s.Context(), appcontext.Fence{}, []appcontext.Report{r}, nil))
}

var digKey = &pb.StatusRegistration_DigKey{DigKey: &pb.DigKey{Project: "p", CompositeApp: "ca", CompositeAppVersion: "v1", DeploymentIntentGroup: "d"}}

func (s *serverFixture) register(r *pb.StatusRegistration) grpc.ServerStreamingClient[pb.StatusNotification] {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	s.Cleanup(cancel)
	stream, err := s.client.StatusRegister(ctx, r)
	s.must(err)
	return stream
}

// until takes notifications until one is as wanted, and returns it with their number.
func (s *serverFixture) until(stream grpc.ServerStreamingClient[pb.StatusNotification], ok func(*pb.StatusNotification) bool) (*pb.StatusNotification, int) {
	s.Helper()
	for n := 1; ; n++ {
		got, err := stream.Recv()
		s.must(err)
		if ok(got) {
			return got, n
		}
	}
}

func is(v pb.StatusValue) func(*pb.StatusNotification) bool {
	return func(n *pb.StatusNotification) bool { return n.GetStatusValue() == v }
}

// ends reports how a stream ends.
func ends(stream grpc.ServerStreamingClient[pb.StatusNotification]) codes.Code {
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return codes.OK
			}
			return status.Code(err)
		}
	}
}

func TestClientsAreToldAtOnceAndOfChanges(t *testing.T) {
	s := newSite(t, 10)
	s.pair("edge+c1", appcontext.Retrying, "away")
	deployed := s.register(&pb.StatusRegistration{ClientId: "d", Key: digKey, StatusType: pb.StatusRegistration_DEPLOYED, Output: pb.StatusRegistration_ALL})
	ready := s.register(&pb.StatusRegistration{ClientId: "r", Key: digKey})
	one := s.register(&pb.StatusRegistration{ClientId: "o", Key: digKey, StatusType: pb.StatusRegistration_DEPLOYED, Clusters: []string{"edge+c1"}})
	first, n := s.until(deployed, is(pb.StatusValue_NOT_DEPLOYED))
	if n != 1 || first.GetDeployedStatus() != "Instantiating" || first.GetCounts()["Retrying"] != 1 || first.GetCounts()["Pending"] != 1 || len(first.GetDetails()) != 2 {
		t.Errorf("the first notification: got %v", first)
	}
	d := first.GetDetails()[0]
	if d.GetApp() != "a" || d.GetCluster() != "edge+c1" || d.GetConnectivity() != "Retrying" || d.GetError() != "away" || d.GetStatusValue() != pb.StatusValue_NOT_DEPLOYED {
		t.Errorf("the first detail: got %v", d)
	}
	if r := d.GetResources()[0]; r.GetName() != "one" || r.GetNamespace() != "default" || r.GetGvk().GetKind() != "ConfigMap" || r.GetStatus() != "Retrying" {
		t.Errorf("the first resource: got %v", r)
	}
	if got, _ := s.until(ready, is(pb.StatusValue_NOT_READY)); got.GetReadyStatus() != "Unknown" || len(got.GetDetails()) != 0 {
		t.Errorf("the summary: got %v", got)
	}
	s.pair("edge+c1", appcontext.Applied, "")
	s.until(one, is(pb.StatusValue_DEPLOYED)) // whatever the other cluster does
	s.pair("edge+c2", appcontext.Applied, "")
	if got, _ := s.until(deployed, is(pb.StatusValue_DEPLOYED)); got.GetDeployedStatus() != "Instantiated" || got.GetDetails()[1].GetStatusValue() != pb.StatusValue_DEPLOYED {
		t.Errorf("when all is applied: got %v", got)
	}
	s.report("edge+c1", "Current")
	s.report("edge+c2", "Current")
	if got, _ := s.until(ready, is(pb.StatusValue_READY)); got.GetReadyStatus() != "Ready" || got.GetCounts()["Ready"] != 2 {
		t.Errorf("when all is ready: got %v", got)
	}
	s.report("edge+c2", "InProgress")
	s.until(ready, is(pb.StatusValue_NOT_READY))
}

func TestCloudsAreToldOf(t *testing.T) {
	s := newSite(t, 10)
	stream := s.register(&pb.StatusRegistration{ClientId: "c", Output: pb.StatusRegistration_ALL, Key: &pb.StatusRegistration_LcKey{LcKey: &pb.LcKey{Project: "p", LogicalCloud: "lc"}}})
	s.until(stream, is(pb.StatusValue_NOT_READY))
	act := appcontext.HistoryEntry{State: appcontext.Instantiated, Instance: "9", Revision: 1}
	_, err := s.store.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: "9", Document: "x", State: appcontext.Instantiated, LastRev: 1}, []appcontext.HistoryEntry{act}, nil)
	s.must(err)
	got, _ := s.until(stream, is(pb.StatusValue_READY))
	if got.GetDeployedStatus() != "Instantiated" || len(got.GetDetails()) != 1 || got.GetDetails()[0].GetCluster() != "edge+c1" {
		t.Errorf("got %v", got)
	}
}

func TestClustersAreToldOf(t *testing.T) {
	s := newSite(t, 10)
	stream := s.register(&pb.StatusRegistration{ClientId: "c", Output: pb.StatusRegistration_ALL, StatusType: pb.StatusRegistration_DEPLOYED, Key: &pb.StatusRegistration_ClusterKey{ClusterKey: &pb.ClusterKey{ClusterProvider: "edge", Cluster: "c1"}}})
	s.until(stream, is(pb.StatusValue_NOT_DEPLOYED))
	s.pair("edge+c1", appcontext.Applied, "")
	s.pair("edge+c2", appcontext.Applied, "") // the last one is shown
	got, _ := s.until(stream, is(pb.StatusValue_DEPLOYED))
	if len(got.GetDetails()) != 1 || got.GetDetails()[0].GetCluster() != "edge+c2" || len(got.GetDetails()[0].GetResources()) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestRegistrationsAreRefused(t *testing.T) {
	s := newSite(t, 10)
	key := func(change func(*pb.DigKey)) *pb.StatusRegistration_DigKey {
		k := &pb.DigKey{Project: "p", CompositeApp: "ca", CompositeAppVersion: "v1", DeploymentIntentGroup: "d"}
		change(k)
		return &pb.StatusRegistration_DigKey{DigKey: k}
	}
	for _, tt := range []struct {
		name string
		r    *pb.StatusRegistration
		want codes.Code
		text string
	}{
		{"no client", &pb.StatusRegistration{Key: digKey}, codes.InvalidArgument, "clientId"},
		{"no key", &pb.StatusRegistration{ClientId: "c"}, codes.InvalidArgument, "digKey"},
		{"a cluster without a name", &pb.StatusRegistration{ClientId: "c", Key: &pb.StatusRegistration_ClusterKey{ClusterKey: &pb.ClusterKey{ClusterProvider: "edge"}}}, codes.InvalidArgument, "name"},
		{"a provider that is a path", &pb.StatusRegistration{ClientId: "c", Key: &pb.StatusRegistration_ClusterKey{ClusterKey: &pb.ClusterKey{ClusterProvider: "../p", Cluster: "c1"}}}, codes.InvalidArgument, "clusterKey.clusterProvider"},
		{"no such group", &pb.StatusRegistration{ClientId: "c", Key: key(func(k *pb.DigKey) { k.DeploymentIntentGroup = "x" })}, codes.NotFound, "not found"},
		{"a name that is a path", &pb.StatusRegistration{ClientId: "c", Key: key(func(k *pb.DigKey) { k.Project = "../p" })}, codes.InvalidArgument, "project"},
		{"a version that is a path", &pb.StatusRegistration{ClientId: "c", Key: key(func(k *pb.DigKey) { k.CompositeAppVersion = "v1/x" })}, codes.InvalidArgument, "digKey.compositeAppVersion"},
		{"an app that there is not", &pb.StatusRegistration{ClientId: "c", Key: digKey, Apps: []string{"b"}}, codes.InvalidArgument, `no app "b"`},
		{"a cluster without a provider", &pb.StatusRegistration{ClientId: "c", Key: digKey, Clusters: []string{"c1"}}, codes.InvalidArgument, "Invalid cluster query"},
	} {
		stream := s.register(tt.r)
		_, err := stream.Recv()
		if status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %s with %q", tt.name, err, tt.want, tt.text)
		}
	}
	for range 10 { // refusals name what is wrong in the same order each time
		stream := s.register(&pb.StatusRegistration{ClientId: "c", Key: key(func(k *pb.DigKey) { k.Project, k.CompositeApp, k.CompositeAppVersion = "../p", "../c", "../v" })})
		_, err := stream.Recv()
		text := fmt.Sprint(err)
		if p, c, v := strings.Index(text, "project"), strings.Index(text, "digKey.compositeApp:"), strings.Index(text, "digKey.compositeAppVersion:"); p < 0 || c < p || v < c {
			t.Fatalf("got %s", text)
		}
	}
	if _, err := s.client.StatusDeregister(t.Context(), &pb.StatusDeregistration{ClientId: "c"}); status.Code(err) != codes.NotFound {
		t.Errorf("a client that is no longer registered: got %v", err)
	}
	unknown := s.conn.Invoke(t.Context(), "/StatusNotify/Nothing", &pb.StatusDeregistration{}, &pb.StatusDeregistrationResponse{})
	if status.Code(unknown) != codes.Unimplemented {
		t.Errorf("a method that there is not: got %v", unknown)
	}
}

func TestStreamsEnd(t *testing.T) {
	s := newSite(t, 2)
	first := s.register(&pb.StatusRegistration{ClientId: "c", Key: digKey})
	s.until(first, is(pb.StatusValue_NOT_READY))
	second := s.register(&pb.StatusRegistration{ClientId: "c", Key: digKey})
	s.until(second, is(pb.StatusValue_NOT_READY))
	if code := ends(first); code != codes.Aborted {
		t.Errorf("one that was replaced: got %s", code)
	}
	other := s.register(&pb.StatusRegistration{ClientId: "other", Key: digKey})
	s.until(other, is(pb.StatusValue_NOT_READY))
	if code := ends(s.register(&pb.StatusRegistration{ClientId: "third", Key: digKey})); code != codes.ResourceExhausted {
		t.Errorf("one too many: got %s", code)
	}
	_, err := s.client.StatusDeregister(t.Context(), &pb.StatusDeregistration{ClientId: "c"})
	s.must(err)
	if code := ends(second); code != codes.Canceled {
		t.Errorf("one that was deregistered: got %s", code)
	}
	third := s.register(&pb.StatusRegistration{ClientId: "third", Key: digKey}) // there is room now
	s.until(third, is(pb.StatusValue_NOT_READY))
	s.stop()
	for name, stream := range map[string]grpc.ServerStreamingClient[pb.StatusNotification]{"other": other, "third": third} {
		if code := ends(stream); code != codes.Unavailable {
			t.Errorf("%s, when the server stops: got %s", name, code)
		}
	}
}

// A client that reads nothing delays no other, misses intermediate changes, and can be
// ended although a message for it is stuck.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	s := newSite(t, 10)
	all := func(id string) *pb.StatusRegistration {
		return &pb.StatusRegistration{ClientId: id, Key: digKey, StatusType: pb.StatusRegistration_DEPLOYED, Output: pb.StatusRegistration_ALL}
	}
	slow, stuck, quick := s.register(all("slow")), s.register(all("stuck")), s.register(all("quick"))
	for _, stream := range []grpc.ServerStreamingClient[pb.StatusNotification]{slow, stuck, quick} {
		s.until(stream, is(pb.StatusValue_NOT_DEPLOYED))
	}
	const changes = 40
	long := strings.Repeat("x", 30<<10) // two of them fill the window of a stream
	for i := range changes {
		why := string(rune('A'+i)) + long
		s.pair("edge+c1", appcontext.Retrying, why)
		s.until(quick, func(n *pb.StatusNotification) bool { return n.GetDetails()[0].GetError() == why })
	}
	_, err := s.client.StatusDeregister(t.Context(), &pb.StatusDeregistration{ClientId: "stuck"})
	s.must(err)
	_, n := s.until(slow, func(n *pb.StatusNotification) bool {
		return n.GetDetails()[0].GetError() == string(rune('A'+changes-1))+long
	})
	if n > 10 { // what was on its way when the window was full
		t.Errorf("the slow client received %d notifications of %d changes", n, changes)
	}
	if code := ends(stuck); code != codes.Canceled {
		t.Errorf("the one that took nothing ends with %s", code)
	}
}
