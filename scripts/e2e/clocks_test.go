package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/clock"
	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// S-13: three processes share an installation with identity, and the clock of one jumps by ten minutes, on and back. What is
// revoked is refused by all of them, of two changes that start from the same state one is made, and the audit log
// is whole. Each process logs the difference.
func TestS13ClocksOfProcessesDiffer(t *testing.T) {
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	flags, file := jumpingClock(t)
	args := []string{
		"-data", filepath.Join(t.TempDir(), "shared"), "-etcd.endpoints", b.EtcdURL(), "-etcd.prefix", "/s13/", "-lease", "3s", "-auth.requests", "0",
	}
	s := newIdentityStage(t, args...)
	admin := strings.TrimSpace(s.as(s.root, 0, "auth", "token", "create", "admin", "--role", "platform-admin", "--expires", "1d").Out)
	jumping := s.startFrom(buildEmco(t, flags...), "jumping", args...)
	all := []*program.Emco{s.emco, s.start("two", args...), jumping}

	for round, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 10 * time.Minute, 0} {
		if err := clock.Set(file, by); err != nil {
			t.Fatal(err)
		}
		for i, e := range all {
			want := by
			if e == jumping {
				want = -by
			}
			eventually(t, fmt.Sprintf("process %d knows that a clock is %s ahead", i+1, want), func() error { return skewIs(t.Context(), e, admin, want) })
		}
		for i, maker := range []*program.Emco{s.emco, jumping} { // a token that one process makes and the other ends
			ender := []*program.Emco{jumping, s.emco}[i]
			name := fmt.Sprintf("robot-%d-%d", round, i)
			made := maker.Emcoctl(t.Context(), "auth", "token", "create", name, "--role", "viewer", "--place", "projects/shop", "--expires", "1d", "-t", admin)
			if made.Code != 0 {
				t.Fatalf("create a token: exit code %d\n%s", made.Code, made.Err)
			}
			token := strings.TrimSpace(made.Out)
			s.answersOf(all, token, http.StatusOK)
			if r := ender.Emcoctl(t.Context(), "auth", "token", "revoke", name, "-t", admin); r.Code != 0 {
				t.Fatalf("revoke: exit code %d\n%s", r.Code, r.Err)
			}
			s.answersOf(all, token, http.StatusUnauthorized)
		}
		for i := range 10 {
			if err := oneOfTwo(t.Context(), s.emco, jumping, admin, fmt.Sprintf("%d-%d", round, i)); err != nil {
				t.Error(err)
			}
		}
	}
	if log := program.Tail(s.path("one"), 1000); !strings.Contains(log, "the clocks of two processes differ") || !strings.Contains(log, "agrees with ours again") {
		t.Errorf("the log does not show the difference, or of its end:\n%s", log)
	}
	if r := s.emco.Emcoctl(t.Context(), "audit", "verify", "-t", admin); r.Code != 0 {
		t.Errorf("audit verify: exit code %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

// answersOf wants a status from all processes for a request with a token, after a moment.
func (s *identityStage) answersOf(all []*program.Emco, token string, want int) {
	s.Helper()
	for i, e := range all {
		eventually(s, fmt.Sprintf("process %d answers %d", i+1, want), func() error {
			if code, text := askAs(s.Context(), e, "/v2/projects/shop", token); code != want {
				return fmt.Errorf("it answers %d %s", code, text)
			}
			return nil
		})
	}
}

var skewLine = regexp.MustCompile(`(?m)^emco_clock_skew_seconds (\S+)$`)

// skewIs returns an error unless a process reports that another clock is ahead of its own by want.
func skewIs(ctx context.Context, e *program.Emco, token string, want time.Duration) error {
	code, text := askAs(ctx, e, "/metrics", token)
	line := skewLine.FindStringSubmatch(text)
	if line == nil {
		return fmt.Errorf("/metrics: %d, without a difference of clocks", code)
	}
	seconds, err := strconv.ParseFloat(line[1], 64)
	if got := time.Duration(seconds * float64(time.Second)); err == nil && (got-want).Abs() > 30*time.Second {
		err = fmt.Errorf("it says %s", got)
	}
	return err
}

// oneOfTwo changes a project at two processes at the same time, from the same state, and wants that one change is made.
func oneOfTwo(ctx context.Context, one, two *program.Emco, token, description string) error {
	const path = "/v2/projects/bank"
	ask := func(e *program.Emco, method, match, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, e.URL()+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			err = res.Body.Close()
		}
		return res, err
	}
	now, err := ask(one, http.MethodGet, "", "")
	if err != nil {
		return err
	}
	var both sync.WaitGroup
	var codes [2]int
	var failed [2]error
	for i, e := range []*program.Emco{one, two} {
		both.Go(func() {
			body := fmt.Sprintf(`{"metadata":{"name":"bank","description":"%s by %d"}}`, description, i)
			res, err := ask(e, http.MethodPut, now.Header.Get("ETag"), body)
			if failed[i] = err; err == nil {
				codes[i] = res.StatusCode
			}
		})
	}
	both.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	made := 0
	for _, code := range codes {
		switch code {
		case http.StatusOK:
			made++
		case http.StatusPreconditionFailed:
		default:
			return fmt.Errorf("a change with an ETag: status %d", code)
		}
	}
	if made != 1 {
		return fmt.Errorf("of two changes from the same state %d are made (%v), want one", made, codes)
	}
	return nil
}

// S-13: three processes share the work of a fleet, and the clock of one jumps by ten minutes. Each update is one revision and
// one commit of each branch; no process loses its shards.
func TestS13DeliveriesWhileClocksDiffer(t *testing.T) {
	const repositories = 6
	flags, file := jumpingClock(t)
	r := newReplicas(t)
	s := r.testStage
	one, two := r.start("rsync-1", "rsync"), r.start("rsync-2", "rsync")
	jumping := r.startFrom(buildEmco(t, flags...), "rsync-3", "rsync")

	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	for i := range repositories {
		name := fmt.Sprintf("repo-%02d", i)
		_, err := s.git.Seed(t.Context(), name, branch)
		s.must("create a repository", err)
		s.must("register", f.RegisterIn(t.Context(), name, fleet.Repository{URL: s.git.URL(name), User: writer, Token: s.writeToken}))
	}
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("shared", 2, 3)
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	r.share(one, two, jumping)
	s.phase(d, "instantiate", v2.StatusInstantiated)

	commits := func() (n float64) { return r.commits(one) + r.commits(two) + r.commits(jumping) }
	for i, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 10 * time.Minute, 0} {
		s.must("set the clock", clock.Set(file, by))
		before := commits()
		s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, fmt.Sprintf("colour: c%d\n", i)))
		s.phase(d, "update", v2.StatusInstantiated)
		if n := commits() - before; n != repositories {
			t.Errorf("%.0f commits while a clock is %s ahead, want %d, one of each branch", n, by, repositories)
		}
		last := s.status(d.Path()).States.Actions
		if got, want := last[len(last)-1].Revision, int64(i+2); got != want {
			t.Errorf("revision %d, want %d", got, want)
		}
	}
	for name, e := range map[string]*program.Emco{"one": one, "two": two, "jumping": jumping} {
		m, err := e.Metrics(t.Context())
		s.must("read metrics", err)
		if n := m["emco_fenced_total"]; n != 0 {
			t.Errorf("%s: %.0f writes were refused by a fence", name, n)
		}
	}
}
