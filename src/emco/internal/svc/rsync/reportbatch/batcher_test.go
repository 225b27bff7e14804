package reportbatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/reportbatch"
)

// handler keeps the batches that it is handed; the first calls may fail.
type handler struct {
	fail    int
	batches []string
}

func (h *handler) handle(_ context.Context, batch []appcontext.Report) error {
	if h.fail > 0 {
		h.fail--
		return errors.New("etcd is away")
	}
	var out []string
	for _, r := range batch {
		out = append(out, fmt.Sprint(r.Key.App, " ", r.Truncated))
	}
	slices.Sort(out)
	h.batches = append(h.batches, strings.Join(out, ", "))
	return nil
}

func (h *handler) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(h.batches, want) {
		t.Errorf("handled %q, want %q", h.batches, want)
	}
	h.batches = nil
}

// report is the n-th report of an app.
func report(app string, n int) appcontext.Report {
	return appcontext.Report{Key: appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: app}, Truncated: n}
}

// run runs a test on its own clock.
func run(t *testing.T, test func(t *testing.T, b *reportbatch.Batcher, h *handler, cancel context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := &handler{}
		b := reportbatch.NewBatcher(ctx, h.handle, slog.New(slog.DiscardHandler))
		defer b.Wait()
		defer cancel()
		test(t, b, h, cancel)
	})
}

// Reports may arrive before the pairs of the shard are loaded.
func TestReportsWaitForOpen(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, b *reportbatch.Batcher, h *handler, _ context.CancelFunc) {
		b.Add(t.Context(), report("web", 1))
		time.Sleep(10 * reportbatch.Window)
		h.want(t)
		b.Open()
		time.Sleep(2 * reportbatch.Window)
		h.want(t, "web 1")
	})
}

func TestTheLatestReportOfAPairWins(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, b *reportbatch.Batcher, h *handler, _ context.CancelFunc) {
		b.Open()
		for i := range 3 {
			b.Add(t.Context(), report("web", i))
		}
		b.Add(t.Context(), report("db", 7))
		time.Sleep(2 * reportbatch.Window)
		h.want(t, "db 7, web 2")
		b.Add(t.Context(), report("web", 3))
		time.Sleep(2 * reportbatch.Window)
		h.want(t, "web 3")
	})
}

func TestABatchThatFailsIsHandedOnAgain(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, b *reportbatch.Batcher, h *handler, _ context.CancelFunc) {
		b.Open()
		h.fail = 1
		b.Add(t.Context(), report("web", 1))
		time.Sleep(2*reportbatch.Window + 2*pair.FirstRetry)
		h.want(t, "web 1")
		h.fail = 1
		b.Add(t.Context(), report("web", 2))
		time.Sleep(2 * reportbatch.Window)
		b.Add(t.Context(), report("web", 3)) // while the older one waits for the next try
		time.Sleep(2 * pair.FirstRetry)
		h.want(t, "web 3")
	})
}

func TestNothingIsHandledAfterTheEnd(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, b *reportbatch.Batcher, h *handler, cancel context.CancelFunc) {
		b.Open()
		b.Add(t.Context(), report("web", 1))
		cancel()
		b.Wait()
		b.Add(t.Context(), report("web", 2))
		b.Wait()
		h.want(t)
	})
}
