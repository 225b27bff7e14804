package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/clock"
	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

// TestClockJumps lets the clock of the program jump by a day, on and back, while it works. It keeps its leases: no
// write is refused by a fence. Work arrives at each time. A delivery that waits for its next attempt when the clock
// goes back does not wait for a day. Revisions keep their order.
func TestClockJumps(t *testing.T) {
	do := steps{TB: t}
	do.next("a program whose clock jumps")
	flags, file := jumpingClock(t)
	s := newStage(t, "-retry.first=100ms", "-retry.longest=2s", "-git.rest=1s", "-git.timeout=5s", "-lease=3s")
	s.must("stop emco", s.emco.Stop())
	s.options.Bin = buildEmco(t, flags...)
	s.start()
	f, network := s.fleetBehindProxy(2)
	web := fleet.Synthetic("web", 3)
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: web}}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")

	const day = 24 * time.Hour
	revision := int64(1)
	update := func(to time.Duration, cut bool) {
		t.Helper()
		do.next("the clock at %s, the Git server reached: %t", to, !cut)
		before := s.head()
		if cut {
			network.cut(false)
		} else {
			s.must("set the clock", clock.Set(file, to))
		}
		s.must("change a value", f.Revalue(t.Context(), d, web, fmt.Sprintf("colour: c%d\n", revision)))
		s.must("update", f.Act(t.Context(), d.Path(), "update"))
		if cut {
			eventually(t, "the delivery has failed", func() error {
				st, err := f.Status(t.Context(), d.Path(), true)
				if err == nil && attempts(st) == 0 {
					err = fmt.Errorf("no attempt has failed: %s", st.DeployedStatus)
				}
				return err
			})
			s.must("set the clock", clock.Set(file, to))
			network.heal()
		}
		s.wait(d.Path(), "instantiated")
		revision++
		last := s.status(d.Path()).States.Actions
		if got := last[len(last)-1].Revision; got != revision || s.head() == before {
			t.Errorf("revision %d, want %d; the branch has moved: %t", got, revision, s.head() != before)
		}
	}
	for _, to := range []time.Duration{day, 0, -day, day, -day} {
		update(to, false)
	}
	update(day, true)
	update(-day, true)
	update(0, true)
	text := get(t, s.emco.URL()+"/metrics")
	for _, store := range []string{"etcd", "git"} {
		if want := fmt.Sprintf("emco_fenced_total{store=%q} 0\n", store); !strings.Contains(text, want) {
			t.Errorf("writes to %s were refused by a fence: the metrics lack %s", store, want)
		}
	}
	s.sound()
	do.next("done")
}

// attempts returns the most failed attempts of a place.
func attempts(st v2.Status) (n int) {
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			n = max(n, c.Attempts)
		}
	}
	return n
}
