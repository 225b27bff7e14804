package cooldown_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/cooldown"
)

var (
	fleet = git.Repo{URL: "https://git.example/fleet", User: "emco"}
	down  = errs.New(errs.Unavailable, "the server is down")
)

// Each further failure about doubles the pause, up to the longest one. A try that succeeds, or fails for what was asked, ends it.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repos := cooldown.New(cooldown.Options{First: time.Second, Longest: 10 * time.Second})
		fail := func(most time.Duration) {
			t.Helper()
			repos.Record(fleet, down)
			err := repos.Check(fleet, false)
			pause := errs.RetryAfter(err)
			if !errs.Is(err, errs.Unavailable) || !errors.Is(err, down) || pause < most/4 || pause > most || !repos.Until(fleet).Equal(time.Now().Add(pause)) {
				t.Errorf("it is left alone for %s (%v) until %s, want between %s and %s", pause, err, repos.Until(fleet), most/4, most)
			}
			time.Sleep(pause)
			if err := repos.Check(fleet, false); err != nil || !repos.Failing(fleet) || !repos.Until(fleet).IsZero() {
				t.Errorf("after the pause: %v", err)
			}
		}
		for _, most := range []time.Duration{1, 2, 4, 8, 10, 10} {
			fail(most * time.Second)
		}
		for _, end := range []error{nil, errs.New(errs.NotFound, "no such commit")} {
			repos.Record(fleet, end)
			if repos.Failing(fleet) {
				t.Errorf("after %v it is failing", end)
			}
			fail(time.Second)
		}
	})
}

// A user who asked gets a try every ten seconds, unless the server asked for the pause. The pause that a server asks for may be longer.
func TestUsersNeedNotWaitForTheWholePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repos := cooldown.New(cooldown.Options{First: time.Minute})
		repos.Record(fleet, down)
		if repos.Check(fleet, true) == nil {
			t.Error("a user gets another try at once")
		}
		time.Sleep(10 * time.Second)
		if err := repos.Check(fleet, true); err != nil || repos.Check(fleet, false) == nil {
			t.Errorf("after ten seconds a user gets %v", err)
		}
		repos.Record(fleet, &errs.Error{Kind: errs.Throttled, After: time.Hour, Err: errors.New("too many requests")})
		time.Sleep(time.Hour - time.Second)
		err := repos.Check(fleet, true)
		if !errs.Is(err, errs.Throttled) || !strings.Contains(err.Error(), "tried 2 times, again in 1s") {
			t.Errorf("a user gets %v while the server wants a pause", err)
		}
	})
}

// A wrong credential delays no other one of the repository. What nobody asks for any more is forgotten.
func TestRepositoriesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repos := cooldown.New(cooldown.Options{First: time.Second, Longest: time.Minute})
		wrong := fleet
		wrong.User = "mallory"
		repos.Record(wrong, errs.New(errs.Unauthorized, "wrong token"))
		if repos.Check(wrong, false) == nil || repos.Check(fleet, false) != nil || repos.Count() != 1 {
			t.Errorf("%d repositories are left alone", repos.Count())
		}
		time.Sleep(2 * time.Minute)
		repos.Record(fleet, down)
		if repos.Failing(wrong) || repos.Count() != 1 {
			t.Error("a repository that failed long ago is remembered")
		}
	})
}
