package rsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// notebook keeps the reports that are written to it; the first writes may fail. It
// takes the place of etcd, whose goroutines cannot live on a test's own clock.
type notebook struct {
	pairs.AppContext // nil: nothing else is asked for
	fail             int
	written          []string
}

func (n *notebook) PutPairs(context.Context, appcontext.Fence, []appcontext.Pair, []appcontext.PairKey) error {
	return nil
}

func (n *notebook) PutReports(_ context.Context, _ appcontext.Fence, put []appcontext.Report, _ []appcontext.PairKey) error {
	if n.fail > 0 {
		n.fail--
		return errors.New("etcd is away")
	}
	var line []string
	for _, r := range put {
		line = append(line, fmt.Sprintf("%s %d", r.Key.App, r.Truncated))
	}
	n.written = append(n.written, strings.Join(line, ", "))
	return nil
}

func (n *notebook) ReportsAt(context.Context, []appcontext.PairKey) ([]appcontext.Report, error) {
	return nil, nil
}

func (n *notebook) Reported(context.Context, string) (bool, error) { return true, nil }

// reporting is a reporter of the one pair "web" on a test's own clock.
func reporting(t *testing.T, n *notebook) (*reporter, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := pairs.New(pairs.Config{AppContext: n})
	if err := l.Load(ctx, nil); err != nil {
		t.Fatal(err)
	}
	setDesired(t, l, on("a", "edge+c1"))
	heed := func(ctx context.Context, reports []appcontext.Report) error {
		_, err := l.Report(ctx, reports)
		return err
	}
	r := newReporter(ctx, heed, slog.New(slog.DiscardHandler))
	r.open()
	return r, cancel
}

// numbered is the n-th report of the pair "web".
func numbered(n int) appcontext.Report { return appcontext.Report{Key: key, Truncated: n} }

// A shard whose pairs take long to be read is told of reports before it knows what they
// are of. None of them is lost, and none does harm.
func TestReportsWaitForTheirPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := &notebook{}
		l := pairs.New(pairs.Config{AppContext: n})
		r := newReporter(ctx, func(ctx context.Context, reports []appcontext.Report) error {
			_, err := l.Report(ctx, reports)
			return err
		}, slog.New(slog.DiscardHandler))
		r.take(ctx, numbered(1))
		time.Sleep(10 * gather)
		if len(n.written) > 0 {
			t.Errorf("written %s before the pairs are known", n.written)
		}
		if err := l.Load(ctx, nil); err != nil {
			t.Fatal(err)
		}
		setDesired(t, l, on("a", "edge+c1"))
		r.open()
		time.Sleep(2 * gather)
		synctest.Wait()
		if got := strings.Join(n.written, "; "); got != "web 1" {
			t.Errorf("written %q, want the report that came early", got)
		}
	})
}

func TestTheLatestReportWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{}
		r, cancel := reporting(t, n)
		defer cancel()
		for i := range 3 {
			r.take(t.Context(), numbered(i))
		}
		r.take(t.Context(), appcontext.Report{Key: appcontext.PairKey{App: "gone"}})
		time.Sleep(2 * gather)
		r.take(t.Context(), numbered(3))
		time.Sleep(2 * gather)
		synctest.Wait()
		if got := strings.Join(n.written, "; "); got != "web 2; web 3" {
			t.Errorf("written %s, want the latest of each time", got)
		}
		cancel()
		r.wait()
	})
}

func TestReportsThatCouldNotBeWrittenComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{fail: 1}
		r, cancel := reporting(t, n)
		defer cancel()
		r.take(t.Context(), numbered(1))
		time.Sleep(2 * gather) // it has failed by now
		time.Sleep(2 * pair.FirstRetry)
		synctest.Wait()
		if got := strings.Join(n.written, "; "); got != "web 1" {
			t.Errorf("written %s", got)
		}
		n.fail = 1
		r.take(t.Context(), numbered(2))
		time.Sleep(2 * gather)
		r.take(t.Context(), numbered(3)) // while the older one waits to be written again
		time.Sleep(2 * pair.FirstRetry)
		synctest.Wait()
		if got := strings.Join(n.written, "; "); got != "web 1; web 3" {
			t.Errorf("written %s: an older report must not win", got)
		}
		cancel()
		r.wait()
	})
}

func TestAReporterEndsWithItsTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{}
		r, cancel := reporting(t, n)
		r.take(t.Context(), numbered(1))
		cancel()
		r.wait()
		r.take(t.Context(), numbered(2))
		r.wait()
		if len(n.written) > 0 {
			t.Errorf("written %v after the end", n.written)
		}
	})
}
