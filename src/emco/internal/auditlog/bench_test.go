package auditlog

import (
	"context"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// BenchmarkRelaxedOutcome is what the relaxed log adds to a request that changes something: its line in the spool, and later in etcd. The processor time
// is that of the whole program, with etcd.
func BenchmarkRelaxedOutcome(b *testing.B) {
	txns := 0 // only the goroutines of the log count, and they are over when it is read
	kv := etcdkv.New(Etcd, etcdtest.Prefix(b), etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "txn" {
			txns++
		}
	}})
	log, err := New(Options{
		KV: kv, Holder: "a", TTL: 10 * time.Second, Spool: filepath.Join(b.TempDir(), "audit.spool"), Keep: time.Hour, Bytes: 1 << 30, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), OnLines: func(int) {}, OnFailed: func() { b.Error("a write failed") },
	})
	etcdtest.Must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- log.Run(ctx) }()
	etcdtest.Must(b, log.Flush(ctx))
	line := audit.Line{
		Request: "4711", Subject: "user:corp:alice", Via: "oidc", Address: "192.0.2.7", Verb: "update", Type: "projects", Path: "/v2/projects/shop",
		Place: "projects/shop", Code: 200, UID: "4711", Rev: 7, Before: audit.Hash(nil), After: audit.Hash(nil),
	}
	before := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		at, err := log.Intend(ctx, line)
		etcdtest.Must(b, err)
		log.Conclude(ctx, at, line)
	}
	stop()
	etcdtest.Must(b, <-over)
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(txns)/float64(b.N), "txns/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	etcdtest.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
