package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// What the audit log costs a request that writes a document, with a real disk: one after the other is the worst
// case, because then nothing shares a transaction.
func BenchmarkWritesWithTheAuditLog(b *testing.B) {
	for _, mode := range []string{config.AuditOff, config.AuditRelaxed, config.AuditStrict} {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", mode, clients), func(b *testing.B) {
				c := config.Default()
				c.Data, c.HTTP.Address, c.GRPC.Address, c.Audit.Mode = b.TempDir(), "127.0.0.1:0", "", mode
				ctx, cancel := context.WithCancel(context.Background())
				a, err := app.New(ctx, c, slog.New(slog.DiscardHandler), app.WithRenderingHere())
				if err != nil {
					b.Fatal(err)
				}
				over := make(chan error, 1)
				go func() { over <- a.Run(ctx) }()
				defer func() { cancel(); <-over }()
				api, err := client.New(client.Options{BaseURL: "http://" + a.Address()})
				if err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				before := processorTime(b)
				b.ResetTimer()
				for n := range clients {
					all.Go(func() {
						name := fmt.Sprint("p", n)
						for left.Add(-1) >= 0 {
							res, err := api.Do(ctx, client.Request{Method: "PUT", Path: "/v2/projects/" + name, Body: client.JSON([]byte(named(name)))})
							if err != nil || !res.OK() {
								b.Errorf("%v, %v", res, err)
								return
							}
						}
					})
				}
				all.Wait()
				b.StopTimer()
				b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
