package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// outage is how long the documents are away: EMCO_OUTAGE, 10 seconds unless given.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("EMCO_OUTAGE")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("EMCO_OUTAGE: %v", err)
	}
	return d
}

// S-28: while the server of the documents is away, requests are answered 503 with Retry-After. An update that was accepted
// before is delivered with the settings and credentials that the process read last, as the metric says. Within ten
// seconds after the return the program is ready; the update was delivered once, and what was refused was not done.
func TestS28DocumentsAwayOnFerretDB(t *testing.T) {
	do := steps{TB: t}
	do.next("documents in FerretDB, behind a proxy; the Git server behind another one")
	mongo, err := url.Parse(startFerretDB(t))
	if err != nil {
		t.Fatal(err)
	}
	documents := newProxy(t, mongo.Host)
	mongo.Host = documents.address()
	s := newStage(t, "-store.driver", "mongo", "-store.mongo.uri", mongo.String(), "-retry.first=100ms", "-retry.longest=1s", "-git.rest=1s", "-git.timeout=5s")
	f, network := s.fleetBehindProxy(2)
	d := apps("till", 2, 3)
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	s.phase(d, "instantiate", v2.StatusInstantiated)

	for round, silent := range []bool{false, true} {
		do.next("an update is accepted while the Git server is away; then the documents are away, too (connections hang: %t)", silent)
		colour := fmt.Sprintf("green%d", round)
		network.cut(false)
		s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: "+colour+"\n"))
		s.must("update", f.Act(t.Context(), d.Path(), "update"))
		eventually(t, "the delivery has failed", func() error {
			st, err := f.Status(t.Context(), d.Path(), true)
			if err == nil && attempts(st) == 0 {
				err = fmt.Errorf("no attempt has failed: %s", st.DeployedStatus)
			}
			return err
		})
		head, commits := s.head(), len(s.history())
		documents.cut(silent)
		eventually(t, "deliveries use what is known", func() error { return s.lastKnown(1) })
		if s.head() != head {
			t.Error("the branch has moved")
		}
		network.heal()
		eventually(t, "the branch has the update", func() error {
			text, err := s.bare.Git(t.Context(), "", "grep", "-h", "colour", branch, "--", "*app00-00*")
			if err == nil && !strings.Contains(text, colour) {
				err = fmt.Errorf("it has %q", text)
			}
			return err
		})
		s.must("the documents are away still", s.lastKnown(1))
		asked := 0
		for began := time.Now(); asked == 0 || time.Since(began) < outage(t); asked++ {
			s.rest(s.unavailable())
		}
		if _, err := s.emco.Get(t.Context(), "/readyz"); err == nil {
			t.Error("the program says that it is ready")
		}
		do.next("the documents are back; %d times each kind of request got 503", asked)
		documents.heal()
		back := time.Now()
		eventually(t, "the program is ready", func() error { _, err := s.emco.Get(t.Context(), "/readyz"); return err })
		took := time.Since(back)
		t.Logf("    ready %.1f s after the return", took.Seconds())
		if os.Getenv("EMCO_OUTAGE") != "" && took > 10*time.Second { // otherwise other tests may keep the machine busy
			t.Errorf("ready %s after the return, want 10 s at most", took)
		}
		eventually(t, "deliveries read the documents", func() error { return s.lastKnown(0) })
		s.follow(d, v2.StatusInstantiated)
		if made := len(s.history()) - commits; made > 2 {
			t.Errorf("%d commits, want at most one for each cluster", made)
		}
		if code, _ := s.answer("GET", "projects/meanwhile", ""); code != http.StatusNotFound {
			t.Errorf("a project that was refused: %d, want 404", code)
		}
		s.phase(d, "update", v2.StatusInstantiated)
	}
	s.phase(d, "terminate", v2.StatusTerminated)
	s.sound()
	do.next("done")
}

// lastKnown returns an error unless the metric of deliveries by what was read last has a value.
func (s *testStage) lastKnown(want float64) error {
	all, err := s.emco.Metrics(s.Context())
	if got, ok := all["emco_deliveries_by_last_known"]; err == nil && (!ok || got != want) {
		err = fmt.Errorf("emco_deliveries_by_last_known is %v (%t), want %v", got, ok, want)
	}
	return err
}

// unavailable sends requests of several kinds at once, and wants 503 with Retry-After. It returns the longest wait that
// the answers name.
func (s *testStage) unavailable() time.Duration {
	s.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	longest := 1 // seconds; guarded by mu
	for _, r := range []struct{ method, path, body string }{
		{"GET", "projects", ""}, {"GET", "projects/shop", ""}, {"POST", "projects", `{"metadata":{"name":"meanwhile"}}`}, {"DELETE", "projects/shop/logical-clouds/stores", ""},
	} {
		all.Go(func() {
			code, after := s.answer(r.method, r.path, r.body)
			seconds, err := strconv.Atoi(after)
			if code != http.StatusServiceUnavailable || err != nil || seconds < 1 {
				s.Errorf("%s %s: %d with Retry-After %q, want 503 with a number of seconds", r.method, r.path, code, after)
			}
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, seconds)
		})
	}
	all.Wait()
	return time.Duration(longest) * time.Second
}

// rest waits, as a client does that obeys Retry-After.
func (s *testStage) rest(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// answer sends a request and returns the status with the value of Retry-After; 0 if there is no answer.
func (s *testStage) answer(method, path, body string) (code int, after string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.emco.URL()+"/v2/"+path, strings.NewReader(body))
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // only the status counts
	return res.StatusCode, res.Header.Get("Retry-After")
}
