// Package statusnotify serves upstream's gRPC service StatusNotify: clients register for the
// status of a deployment intent group, a logical cloud or a cluster and receive each change.
//
// Each client has its own goroutines and a mailbox for one notification, the newest. A slow
// client delays no other, and no lock is held during reads and
// sends.
package statusnotify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
)

// Source finds a status to be followed; NotFound if there is no such document.
type Source func(ctx context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error)

// Follow yields the answers of a feed until ctx ends; see statusview.Reader.
type Follow func(ctx context.Context, f statusview.Feed, tell func(statusview.Answer) error) error

// Options configure the service.
type Options struct {
	Groups   Source // nil: not here
	Clouds   Source // nil: not here
	Clusters Source // of their networks; nil: not here
	Follow   Follow
	// Enter is asked once for each call, before Admit, whether the client may make it now; nil: it may.
	Enter func(ctx context.Context) error
	// Admit returns the subject of a client that may read things of a type at a place, and refuses others. With an
	// empty type it asks for the subject only. nil: everyone may.
	Admit func(ctx context.Context, typ, place string) (subject string, err error)
	Limit int // clients at the same time
	Log   *slog.Logger
	TLS   *tls.Config // nil: without TLS
}

// Server serves clients until Run ends.
type Server struct {
	pb.UnimplementedStatusNotifyServer
	o        Options
	listener net.Listener

	mu      sync.Mutex
	clients map[string]*client // by clientId; guarded by mu
	stops   bool               // no stream may begin; guarded by mu
	wg      sync.WaitGroup     // of what is done for clients
}

// client is one registration that is open.
type client struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// What ends a stream, besides the client itself.
var (
	errReplaced = status.Error(codes.Aborted, "another registration has the same clientId")
	errLeft     = status.Error(codes.Canceled, "the client was deregistered")
	errStops    = status.Error(codes.Unavailable, "the server stops; register again")
)

// New returns a server that will answer on the listener, which it closes at the end.
func New(l net.Listener, o Options) *Server {
	return &Server{o: o, listener: l, clients: map[string]*client{}}
}

// Name is "grpc".
func (s *Server) Name() string { return "grpc" }

// Ready is always nil.
func (s *Server) Ready() error { return nil }

// How long a connection may be silent before the client is asked whether it is there,
// how soon it must answer, and how often it may ask itself.
const (
	idle       = 30 * time.Second
	answerTime = 10 * time.Second
	mayAsk     = 10 * time.Second
)

// maxRequest bounds what a client sends, in bytes.
const maxRequest = 64 << 10

// Run serves until ctx ends; then streams end, and nothing is left behind.
func (s *Server) Run(ctx context.Context) error {
	transport := insecure.NewCredentials()
	if s.o.TLS != nil {
		transport = credentials.NewTLS(s.o.TLS)
	}
	server := grpc.NewServer(
		grpc.Creds(transport),
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idle, Timeout: answerTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: mayAsk, PermitWithoutStream: true}),
	)
	pb.RegisterStatusNotifyServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.stop(server)
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // ctx ended before it served
		return err
	}
	return nil
}

// lastWord is how long clients may take to receive that the server stops.
const lastWord = 2 * time.Second

// stop ends all streams and waits until nothing is done for any client.
func (s *Server) stop(server *grpc.Server) {
	s.mu.Lock()
	s.stops = true
	for _, c := range s.clients {
		c.end(errStops)
	}
	s.mu.Unlock()
	cut := time.AfterFunc(lastWord, server.Stop)
	defer cut.Stop()
	server.GracefulStop()
	s.wg.Wait()
}

// StatusRegister follows a status for a client until one of both ends it.
func (s *Server) StatusRegister(r *pb.StatusRegistration, stream grpc.ServerStreamingServer[pb.StatusNotification]) error {
	if err := s.enters(stream.Context()); err != nil {
		return inCode(err)
	}
	again, id, err := s.admit(stream.Context(), r)
	if err != nil {
		return inCode(err)
	}
	a, err := s.ask(stream.Context(), r)
	if err != nil {
		return inCode(err)
	}
	c, err := s.enter(stream.Context(), id)
	if err != nil {
		return err
	}
	defer s.leave(id, c)
	if again != nil {
		s.work(c, func() error { return repeat(c.ctx, again) })
	}
	box := make(chan *pb.StatusNotification, 1)
	s.work(c, func() error { return s.o.Follow(c.ctx, a.feed, a.fill(box)) })
	s.work(c, func() error { return empty(c.ctx, box, stream) })
	<-c.ctx.Done()
	return inCode(context.Cause(c.ctx))
}

// StatusDeregister ends the stream of a client.
func (s *Server) StatusDeregister(ctx context.Context, r *pb.StatusDeregistration) (*pb.StatusDeregistrationResponse, error) {
	if err := s.enters(ctx); err != nil {
		return nil, inCode(err)
	}
	id := r.GetClientId()
	if s.o.Admit != nil {
		subject, err := s.o.Admit(ctx, "", "")
		if err != nil {
			return nil, inCode(err)
		}
		id = ownID(subject, id)
	}
	s.mu.Lock()
	c := s.clients[id]
	delete(s.clients, id)
	s.mu.Unlock()
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "no client is registered as %q", r.GetClientId())
	}
	c.end(errLeft)
	return &pb.StatusDeregistrationResponse{}, nil
}

// enters asks whether a client may make a call now.
func (s *Server) enters(ctx context.Context) error {
	if s.o.Enter == nil {
		return nil
	}
	return s.o.Enter(ctx)
}

// admit checks that the client may read the document that a registration names. It returns the check, which the caller
// repeats while the stream is open, and an id that no client of another subject has.
func (s *Server) admit(ctx context.Context, r *pb.StatusRegistration) (again func() error, id string, err error) {
	if s.o.Admit == nil {
		return nil, r.GetClientId(), nil
	}
	_, who, err := s.source(r)
	if err != nil {
		return nil, "", err
	}
	typ, place := "deployment-intent-groups", v2.ProjectStoreKey(who.Project)
	switch {
	case r.GetLcKey() != nil:
		typ = "logical-clouds"
	case r.GetClusterKey() != nil:
		typ, place = "clusters", v2.ProviderStoreKey(who.ClusterProvider)
	}
	subject, err := s.o.Admit(ctx, typ, place)
	again = func() error {
		_, err := s.o.Admit(ctx, typ, place)
		return err
	}
	return again, ownID(subject, r.GetClientId()), err
}

func ownID(subject, id string) string { return subject + " " + id }

// admitPause is how long a stream goes on at most when its client may not read it any more.
const admitPause = time.Second

// repeat asks a question each second until ctx ends or the answer is an error.
func repeat(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(admitPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := ask(); err != nil {
				return err
			}
		}
	}
}

// enter takes a client in; an older one with the same id has to go.
func (s *Server) enter(ctx context.Context, id string) (*client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops {
		return nil, errStops
	}
	old := s.clients[id]
	if old == nil && len(s.clients) >= s.o.Limit {
		return nil, status.Errorf(codes.ResourceExhausted, "%d clients are registered, and no more are served", len(s.clients))
	}
	c := &client{}
	c.ctx, c.end = context.WithCancelCause(ctx)
	s.clients[id] = c
	if old != nil {
		old.end(errReplaced)
	}
	return c, nil
}

func (s *Server) leave(id string, c *client) {
	c.end(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[id] == c {
		delete(s.clients, id)
	}
}

// work does something for a client; when it returns, the client's stream ends.
func (s *Server) work(c *client, do func() error) {
	s.wg.Go(func() {
		err := errors.New("panic")
		defer func() {
			if p := recover(); p != nil {
				s.o.Log.Error("status stream", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			c.end(err)
		}()
		err = do()
	})
}

// empty sends what is put into the box.
func empty(ctx context.Context, box <-chan *pb.StatusNotification, stream grpc.ServerStreamingServer[pb.StatusNotification]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-box:
			if err := stream.Send(n); err != nil {
				return err
			}
		}
	}
}

// statusRequest is the status that a client asks for.
type statusRequest struct {
	feed  statusview.Feed
	query statusview.Query
	r     *pb.StatusRegistration
}

// ask finds what a registration is about.
func (s *Server) ask(ctx context.Context, r *pb.StatusRegistration) (statusRequest, error) {
	if r.GetClientId() == "" {
		return statusRequest{}, errs.New(errs.Invalid, "clientId: missing")
	}
	source, who, err := s.source(r)
	if err != nil {
		return statusRequest{}, err
	}
	out := statusRequest{r: r}
	output := statusview.Summary
	if r.GetOutput() == pb.StatusRegistration_ALL {
		output = statusview.All
	}
	out.query, err = statusview.NewQuery(r.GetStatusType() == pb.StatusRegistration_READY, output,
		statusview.Filter{Apps: r.GetApps(), Clusters: r.GetClusters(), Resources: r.GetResources()})
	if err == nil {
		out.feed, err = source(ctx, who, out.query)
	}
	return out, err
}

// source is who knows the subject of a registration.
func (s *Server) source(r *pb.StatusRegistration) (source Source, who v2.StatusSubject, err error) {
	switch k := r.GetKey().(type) {
	case *pb.StatusRegistration_DigKey:
		d := k.DigKey
		source = s.o.Groups
		who = v2.StatusSubject{Project: d.GetProject(), CompositeApp: d.GetCompositeApp(), CompositeAppVersion: d.GetCompositeAppVersion(), Name: d.GetDeploymentIntentGroup()}
		err = errors.Join(v2.CheckName("project", who.Project), v2.CheckName("digKey.compositeApp", who.CompositeApp), v2.CheckName("digKey.compositeAppVersion", who.CompositeAppVersion))
	case *pb.StatusRegistration_LcKey:
		source, who = s.o.Clouds, v2.StatusSubject{Project: k.LcKey.GetProject(), Name: k.LcKey.GetLogicalCloud()}
		err = v2.CheckName("project", who.Project)
	case *pb.StatusRegistration_ClusterKey:
		source, who = s.o.Clusters, v2.StatusSubject{ClusterProvider: k.ClusterKey.GetClusterProvider(), Name: k.ClusterKey.GetCluster()}
		err = v2.CheckName("clusterKey.clusterProvider", who.ClusterProvider)
	case nil:
		return nil, who, errs.New(errs.Invalid, "digKey, lcKey or clusterKey: missing")
	}
	if source == nil {
		return nil, who, status.Error(codes.Unimplemented, "the status of that is not served here")
	}
	return source, who, errors.Join(err, v2.CheckName("name", who.Name))
}

// fill puts notifications that differ from the one before into the box, in the place of
// one that was not taken yet.
func (a statusRequest) fill(box chan *pb.StatusNotification) func(statusview.Answer) error {
	var last *pb.StatusNotification
	return func(answer statusview.Answer) error {
		n := notification(answer.Status(), a.r)
		if last != nil && proto.Equal(n, last) {
			return nil
		}
		last = n
		select {
		case <-box:
		default:
		}
		box <- n // only this goroutine sends to it
		return nil
	}
}

// inCode maps an error to a gRPC code. It hides the text of internal errors.
func inCode(err error) error {
	if _, known := status.FromError(err); known {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Err()
	}
	code, known := codesOf[errs.KindOf(err)]
	if !known {
		return status.Error(codes.Internal, "internal error")
	}
	return status.Error(code, err.Error())
}

var codesOf = map[errs.Kind]codes.Code{
	errs.Invalid: codes.InvalidArgument, errs.Malformed: codes.InvalidArgument, errs.NotFound: codes.NotFound,
	errs.Unauthorized: codes.Unauthenticated, errs.Forbidden: codes.PermissionDenied,
	errs.Conflict: codes.FailedPrecondition, errs.Throttled: codes.ResourceExhausted, errs.Unavailable: codes.Unavailable,
}
