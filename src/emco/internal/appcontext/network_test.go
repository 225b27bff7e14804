package appcontext

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// dial returns a client of the kind that production uses.
func dial(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// listen runs an etcd that is reached by gRPC, with the limits of a default etcd.
func listen(t *testing.T) (endpoint string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = t.TempDir(), true
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	must(t, err)
	t.Cleanup(e.Close)
	etcdtest.Receive(t, e.Server.ReadyNotify(), "the server")
	return e.Clients[0].Addr().String()
}

func TestOverTheNetwork(t *testing.T) {
	t.Parallel()
	s, ctx := New(dial(t, listen(t)), "/emco"), t.Context()
	must(t, s.Ready(ctx))
	large := etcdtest.Noise(1600<<10, 1)
	d := manifest.DigestOf(large)
	must(t, s.PutBlobs(ctx, map[Digest][]byte{d: large}))
	b, err := s.PutBundle(ctx, Bundle{Objects: []Ref{{Digest: d}}})
	must(t, err)
	events := watchHeads(t, s)
	for !etcdtest.Receive(t, events, "synced").Synced {
	}
	own, err := s.Own(ctx, "all", "one", time.Minute)
	must(t, err)
	h, err := s.Fenced(own.Fence()).Publish(ctx, create(t, s, "7"), Revision{Number: 1}, slices.Values(places(5000, b)))
	must(t, err)
	for e := etcdtest.Receive(t, events, "7"); e.Head.Mod != h.Mod; e = etcdtest.Receive(t, events, "7") {
	}
	if got := placed(t)(s.Placements(ctx, "7", 1)); len(got) != 5000 {
		t.Errorf("%d placements, want 5000", len(got))
	}
	var put []Pair
	for i := range 1000 {
		put = append(put, Pair{Key: pairKeyOf(i), Held: []Digest{b}})
	}
	must(t, s.PutPairs(ctx, own.Fence(), put, nil))
	sweepAll(t, s.Fenced(own.Fence()), 1)
	if got, err := uncached(s).GetBlob(ctx, d); err != nil || len(got) != len(large) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	must(t, own.Release(ctx))
	wantFenced(t, s.PutPairs(ctx, own.Fence(), put, nil))
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := New(dial(t, "127.0.0.1:1"), "/emco")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, head := s.Head(ctx, "7")
	_, step := s.ChangeHead(ctx, Head{}, Head{UID: "7"}, nil, nil)
	_, own := s.Own(ctx, "all", "one", time.Minute)
	for _, err := range []error{head, step, own, s.Ready(ctx)} {
		wantKind(t, err, errs.Unavailable)
	}
	for range s.WatchHeads(ctx) {
		t.Error("a watch yields something")
	}
}

func TestErrorsOfEtcdHaveKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want errs.Kind
	}{
		{context.Canceled, errs.Unavailable},
		{fmt.Errorf("wrapped: %w", context.DeadlineExceeded), errs.Unavailable},
		{rpctypes.ErrNoLeader, errs.Unavailable},
		{rpctypes.ErrTimeout, errs.Unavailable},
		{rpctypes.ErrTooManyRequests, errs.Unavailable},
		{rpctypes.ErrNoSpace, errs.Unavailable},
		{status.Error(codes.Unavailable, "connection refused"), errs.Unavailable},
		{rpctypes.ErrRequestTooLarge, errs.TooLarge},
		{rpctypes.ErrTooManyOps, errs.TooLarge},
		{rpctypes.ErrPermissionDenied, errs.Internal},
		{errors.New("something else"), errs.Internal},
	}
	for _, test := range tests {
		err := etcdkv.Classify("read", "/emco/head/7", test.err)
		if !errs.Is(err, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%v is %q, want %q around it", test.err, errs.KindOf(err), test.want)
		}
	}
}
