package etcdspace_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/etcdspace"
)

// An embedded etcd that history has filled up frees space without an operator, while the
// program runs.
func TestH36AnEmbeddedStoreMakesRoomByItself(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true, Quota: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := appcontext.New(server.Client(), "/emco")
	write := func() error {
		p := appcontext.Pair{Key: appcontext.PairKey{Cluster: "p+c", Deployment: "7", App: "a"}, Error: strings.Repeat("x", 200<<10)}
		return s.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{p}, nil)
	}
	for err == nil {
		err = write()
	}
	if !errors.Is(err, appcontext.ErrFull) {
		t.Fatalf("filling it up ends with %v", err)
	}
	full := make(chan bool, 1)
	r := &etcdspace.Service{
		Contexts: s, Reclaim: server.Reclaim, Log: slog.New(slog.DiscardHandler), Period: time.Millisecond,
		OnProbe: func(is bool) {
			select {
			case full <- is:
			default:
			}
		},
	}
	if err := r.Ready(); !errors.Is(err, appcontext.ErrFull) {
		t.Errorf("Ready = %v, want that it is full", err)
	}
	if !<-full {
		t.Error("the probe does not report that etcd is full")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	for end := time.After(4 * time.Minute); r.Ready() != nil; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-end:
			t.Fatalf("Ready = %v", r.Ready())
		}
	}
	if err := write(); err != nil {
		t.Errorf("writing after room was made: %v", err)
	}
}
