package auditfilter

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// A flood from one address, or from very many, fills few lines; the others are counted.
func TestFloodsAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var one limiter
	admitted := 0
	for range 100 {
		if one.admit("192.0.2.1", now) {
			admitted++
		}
	}
	if n, from := one.missed(); admitted != perSource || n != 90 || from != 1 {
		t.Errorf("one address: %d admitted, %d missed of %d addresses", admitted, n, from)
	}
	if !one.admit("192.0.2.1", now.Add(time.Second)) || !one.admit("192.0.2.2", now) {
		t.Error("a second later, or from another address, nothing is admitted")
	}

	var many limiter
	admitted = 0
	for second := range 3600 {
		for i := range 50 {
			if many.admit(fmt.Sprintf("2001:db8::%x:%x", second, i), now.Add(time.Duration(second)*time.Second)) {
				admitted++
			}
		}
	}
	n, from := many.missed()
	if admitted < burst || admitted > burst+3600*perSecond || int64(admitted)+n != 3600*50 || from != maxSources {
		t.Errorf("an hour of floods: %d admitted, %d missed of %d addresses", admitted, n, from)
	}
	if n, _ := many.missed(); n != 0 {
		t.Errorf("%d are counted twice", n)
	}
	if len(many.counts) > maxSources {
		t.Errorf("%d addresses are remembered", len(many.counts))
	}
}

// A flood of refusals of unknown callers, or of one IPv6 network, does not hide those of a known caller.
func TestAFloodHidesNoKnownCaller(t *testing.T) {
	t.Parallel()
	now, missed := time.Unix(1_000_000, 0), 0
	log, err := auditlog.New(auditlog.Options{Now: func() time.Time { return now }, OnFailed: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	w := &Filter{AuditLog: log, Now: func() time.Time { return now }, Count: func(n int) { missed += n }}
	refuse := func(from, subject string) {
		r := httptest.NewRequestWithContext(t.Context(), "DELETE", "/v2/projects/shop", nil)
		r.RemoteAddr = from
		w.Refused(r, authn.Caller{Subject: subject}, authz.Permission{}, errs.New(errs.Forbidden, "no"))
	}
	for i := range 100 {
		refuse(fmt.Sprintf("[2001:db8::%x]:4711", i), "")
	}
	if missed != 100-perSource {
		t.Errorf("%d of 100 refusals of one network were missed", missed)
	}
	for i := range 2 * burst {
		refuse(fmt.Sprintf("192.0.%d.%d:4711", i/200, i%200), "")
	}
	before := missed
	for range perSource {
		refuse("192.0.2.1:4711", "user:corp:bob")
	}
	if missed != before {
		t.Errorf("%d refusals of a known caller were missed", missed-before)
	}
	refuse("192.0.2.2:4711", "user:corp:bob")
	if missed != before+1 {
		t.Error("a known caller may fill the log from several addresses")
	}
}

// A caller's sign-in is recorded once an hour, and the memory of callers is bounded.
func TestSignInsOnceAnHour(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var r seenCallers
	if !r.first("alice", now) || r.first("alice", now.Add(again/2)) || !r.first("bob", now) || !r.first("alice", now.Add(again)) {
		t.Error("not once an hour")
	}
	for i := range 3 * maxRecent {
		r.first(fmt.Sprint(i), now)
	}
	if len(r.seen) > maxRecent {
		t.Errorf("%d are remembered", len(r.seen))
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"projects/shop": "projects/shop", "projects/shop/composite-apps/a/v1": "projects/shop", "cluster-providers/edge/clusters": "cluster-providers/edge",
		"projects": "", "projects/": "", "projects/%2e%2e/x": "", "projects/sh%6fp": "projects/shop", "roles/shop": "", "": "",
	} {
		if got := placeOf(path); got != want {
			t.Errorf("placeOf(%q) = %q, want %q", path, got, want)
		}
	}
}
