package etcdspace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/etcdspace"
)

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// An outage has one line about its begin and one about its end, however often someone asks meanwhile.
func TestAnOutageHasTwoLines(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	var lines bytes.Buffer
	r := &etcdspace.Service{
		Contexts: appcontext.New(cluster.Client(), "/emco"), OnProbe: func(bool) {},
		Log: slog.New(slog.NewTextHandler(&lines, nil)), Place: "etcd at here", Patience: time.Nanosecond,
	}
	if err := r.Ready(); err != nil || lines.Len() > 0 {
		t.Fatalf("Ready = %v with the lines\n%s", err, &lines)
	}
	cluster.Kill(0)
	for range 3 {
		if r.Ready() == nil {
			t.Fatal("etcd is ready after its end")
		}
	}
	cluster.Restart(0)
	for end := time.Now().Add(time.Minute); r.Ready() != nil; {
		if time.Now().After(end) {
			t.Fatal("etcd does not answer again")
		}
	}
	_ = r.Ready()
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != 2 {
		t.Fatalf("the log has %d lines:\n%s", len(got), &lines)
	}
	for i, want := range [][]string{{"level=WARN", "etcd at here does not answer", "since=", "err="}, {"level=INFO", "etcd at here answers again", "took="}} {
		for _, part := range want {
			if !strings.Contains(got[i], part) {
				t.Errorf("line %d lacks %q: %s", i+1, part, got[i])
			}
		}
	}
}

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
