package pair_test

import (
	"errors"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// A clock that jumps a day neither delays a retry by a day nor makes it busy.
func TestF78RetriesSurviveClockJumps(t *testing.T) {
	t.Parallel()
	failed := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	r := pair.Retry{First: time.Second, Longest: 5 * time.Minute}
	p := appcontext.Pair{Attempt: 20}
	p = r.Fail(p, errors.New("no answer"), failed, 0)
	for name, c := range map[string]struct {
		now  time.Time
		wait time.Duration
		due  bool // already
	}{
		"at once":             {failed, 5 * time.Minute, false},
		"a minute later":      {failed.Add(time.Minute), 4 * time.Minute, false},
		"when it is time":     {failed.Add(6 * time.Minute), -time.Minute, true},
		"the clock a day on":  {failed.Add(24 * time.Hour), 5*time.Minute - 24*time.Hour, true},
		"the clock a day ago": {failed.Add(-24 * time.Hour), 5 * time.Minute, true},
	} {
		if wait, due := pair.Wait(p, c.now), pair.MayRetry(p, c.now); wait != c.wait || due != c.due {
			t.Errorf("%s: wait %s, due %t; want %s, %t", name, wait, due, c.wait, c.due)
		}
	}
}
