package grants_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
)

// signIn begins a session of ann with the name that the issuer gives the sign-in.
func (i *installation) signIn(c *grants.Cache, id, name string, issued time.Time) error {
	i.Helper()
	return c.BeginSession(i.Context(), ann, id, grants.SignIn{Issuer: "corp", ID: name, Issued: issued}, i.now.Add(8*time.Hour), 3)
}

func (i *installation) signedIn(c *grants.Cache, id, name string) {
	i.Helper()
	if err := i.signIn(c, id, name, i.now); err != nil {
		i.Fatal(err)
	}
}

// logout returns a logout token of now.
func (i *installation) logout(token, subject, name string) grants.Logout {
	return grants.Logout{SignIn: grants.SignIn{Issuer: "corp", ID: name, Issued: i.now}, Token: token, Subject: subject}
}

func (i *installation) endSignIns(c *grants.Cache, l grants.Logout) {
	i.Helper()
	if err := c.EndSignIns(i.Context(), l); err != nil {
		i.Fatal(err)
	}
}

// An issuer ends sessions in all processes at once: the others read nothing in between. A process that starts later knows it, too.
func TestIssuersEndSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject, signIn string
		left            []string
	}{
		"the sign-in of a person":  {ann, "s1", []string{"2"}},
		"a sign-in":                {"", "s1", []string{"2", "3"}}, // the third has no name that would tell
		"a person":                 {ann, "", nil},
		"another sign-in":          {"", "s9", []string{"1", "2", "3"}},
		"another person":           {"user:corp:bob", "", []string{"1", "2", "3"}},
		"another sign-in of hers":  {ann, "s9", []string{"1", "2"}},
		"a sign-in of another one": {"user:corp:bob", "s1", []string{"1", "2", "3"}},
	} {
		i := newInstallation(t)
		a, b := i.process(), i.process()
		i.signedIn(a, "1", "s1")
		i.signedIn(b, "2", "s2")
		i.signedIn(a, "3", "")
		i.endSignIns(a, i.logout("t1", c.subject, c.signIn))
		for _, process := range []*grants.Cache{a, b, i.process()} {
			if got := i.live(process, "1", "2", "3"); !slices.Equal(got, c.left) {
				t.Errorf("%s: live sessions %v, want %v", name, got, c.left)
			}
		}
	}
}

// The name of a sign-in is the issuer's own.
func TestIssuersEndTheirOwnSignIns(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	i.signedIn(c, "1", "s1")
	l := i.logout("t1", "", "s1")
	l.Issuer = "other"
	i.endSignIns(c, l)
	i.wantLive(c, "1")
	i.endSignIns(c, i.logout("t1", "", "s1")) // its own tokens have their own ids
	i.wantLive(c)
}

// A logout token is taken once, by one process. What it ended has ended; a later sign-in goes on.
func TestALogoutTokenIsTakenOnce(t *testing.T) {
	t.Parallel()
	for _, l := range [][2]string{{ann, ""}, {ann, "s1"}, {"", "s1"}} {
		i := newInstallation(t)
		i.signedIn(i.process(), "1", "s1")
		token := i.logout("t1", l[0], l[1])
		i.now = i.now.Add(time.Minute)
		var taken, refused atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			c := i.process()
			all.Go(func() {
				switch err := c.EndSignIns(t.Context(), token); {
				case err == nil:
					taken.Add(1)
				case errs.Is(err, errs.Unauthorized) && strings.Contains(err.Error(), "taken before"):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if taken.Load() != 1 || refused.Load() != 7 {
			t.Errorf("%v: taken %d times, refused %d times", l, taken.Load(), refused.Load())
		}
		i.signedIn(i.process(), "2", "s2")
		if err := i.process().EndSignIns(t.Context(), token); !errs.Is(err, errs.Unauthorized) {
			t.Errorf("%v: later: %v", l, err)
		}
		i.wantLive(i.process(), "2")
	}
}

// A sign-in that was under way when the issuer ended it gives no session, whichever of the two writes comes first.
func TestSignInsThatEndWhileTheyBegin(t *testing.T) {
	t.Parallel()
	for _, l := range [][2]string{{ann, ""}, {ann, "s1"}, {"", "s1"}} {
		i := newInstallation(t)
		a, b := i.process(), i.process()
		i.endSignIns(a, i.logout("t1", l[0], l[1]))
		if err := i.signIn(b, "1", "s1", i.now.Add(-time.Second)); !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "signed user:corp:ann out") {
			t.Errorf("%v: %v", l, err)
		}
		i.now = i.now.Add(time.Second)
		i.signedIn(b, "2", "s2") // another one
		i.wantLive(a, "2")

		for n := range 20 {
			name := "together-" + strconv.Itoa(n)
			token := i.logout(name, l[0], name)
			if l[1] == "" {
				token.ID = ""
			}
			issued := i.now
			var both sync.WaitGroup
			both.Go(func() { _ = i.signIn(a, "1", name, issued) })
			both.Go(func() { i.endSignIns(b, token) })
			both.Wait()
			if live := i.live(b, "1"); live != nil {
				t.Errorf("%v: the session goes on, round %d", l, n)
			}
			i.now = i.now.Add(time.Second)
		}
	}
}

// Sessions that an issuer has ended do not count for the limit of a person.
func TestEndedSessionsLeaveRoom(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	i.signedIn(c, "1", "s1")
	i.signedIn(c, "2", "s2")
	i.signedIn(c, "3", "s3")
	i.endSignIns(c, i.logout("t2", "", "s2"))
	i.signedIn(c, "4", "s4")
	i.wantLive(c, "1", "3", "4")
}

// What is known of ended sign-ins has a bound, and goes.
func TestSignOutsLeaveNothing(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	c := i.process()
	for n := range 150 {
		i.endSignIns(c, i.logout(strconv.Itoa(n), ann, ""))
	}
	i.endSignIns(c, i.logout("t1", "", "s1"))
	all := i.documents()
	if len(all) != 2 || max(strings.Count(all[0], "token"), strings.Count(all[1], "token")) != 100 {
		t.Errorf("%d documents: %s", len(all), all)
	}
	i.now = i.now.Add(24 * time.Hour)
	if err := c.EndSignIns(t.Context(), i.logout("t1", "", "s1")); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("a day later: %v", err)
	}
	i.now = i.now.Add(2 * time.Hour)
	i.run(c, func() bool { return len(i.documents()) == 0 })
}
