package logs

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Twenty thousand equal warnings are a hundred lines and a count. Other lines are written.
func TestF72EqualLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(Limit(slog.NewTextHandler(&out, nil)))
		for i := range 20_000 {
			log.With("repo", "fleet").Warn("branch ignored", "branch", fmt.Sprint("junk", i))
			if i%1000 == 0 {
				log.Info("request", "n", i)
			}
		}
		log.Error("something else")
		if n := strings.Count(out.String(), "branch ignored"); n != linesPerMinute {
			t.Errorf("%d lines were written, want %d", n, linesPerMinute)
		}
		if n := strings.Count(out.String(), "msg=request"); n != 20 || !strings.Contains(out.String(), "something else") {
			t.Errorf("%d other lines:\n%s", n, out.String())
		}
		time.Sleep(time.Minute)
		log.Info("request")
		if !strings.Contains(out.String(), `line="branch ignored" lines=19900`) {
			t.Errorf("the count is missing:\n%s", out.String()[out.Len()-500:])
		}
		log.Warn("branch ignored")
		if n := strings.Count(out.String(), `msg="branch ignored"`); n != linesPerMinute+1 {
			t.Errorf("in the next minute there are %d lines", n)
		}
	})
}

// A library that repeats itself gets one line a minute for each error that it meets.
func TestRepeatedErrorsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(LimitRepeats(slog.NewTextHandler(&out, nil))).With("component", "etcd")
		for range 50 {
			log.Warn("retrying", "err", "connection refused", "attempt", 1)
		}
		log.Warn("retrying", "attempt", 1, "err", "bad certificate")
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "bad certificate") {
			t.Errorf("%d lines were written:\n%s", n, out.String())
		}
		out.Reset()
		time.Sleep(time.Minute)
		log.Warn("retrying", "err", "connection refused", "attempt", 2)
		if !strings.Contains(out.String(), `line="retrying: connection refused" lines=49`) || !strings.Contains(out.String(), "attempt=2") {
			t.Errorf("the next minute has\n%s", out.String())
		}
	})
}
