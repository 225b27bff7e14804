package app_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// When etcd's quota is used up, writes are refused with the reason, reads work, and /readyz
// and a metric report it. With new space the program continues without a restart, and the
// refused writes have left nothing.
func TestH36QuotaFullFailsClosedAndRecovers(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{Quota: 4 << 20})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	s.fleet("a")
	s.onboard("web")
	runs, waits := s.group("runs", appPlaces{"web": nil}), s.group("waits", appPlaces{"web": nil})
	runs.act("instantiate")
	id := runs.becomes("Instantiated").States.StatusCtxID

	filler := etcd.Client()
	fill(s, filler)
	for _, path := range []string{waits.path + "/instantiate", runs.path + "/terminate"} {
		if a := s.do("POST", path, ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "etcd is full") {
			t.Errorf("%s: got %d %s, want 503 with the reason", path, a.Status, a.Body)
		}
	}
	if a := s.do("GET", "/readyz", ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "etcd: check etcd: alarm NOSPACE is raised: etcd is full") {
		t.Errorf("/readyz: %d %s", a.Status, a.Body)
	}
	if got := s.metric("emco_etcd_full"); got != "1" {
		t.Errorf("emco_etcd_full is %s", got)
	}
	if st := runs.status(); st.DeployedStatus != "Instantiated" {
		t.Errorf("the running deployment is reported as %s", st.DeployedStatus)
	}
	wantEqual(s, "history", states(waits.status()), []string{"Created 0", "Approved 0"})
	s.wantTree(object("a", id, "web"))

	empty(s, filler, etcd.Endpoints()[0])
	s.eventually("ready", func() string { return unless(s.do("GET", "/readyz", "").Status, http.StatusOK) })
	if got := s.metric("emco_etcd_full"); got != "0" {
		t.Errorf("emco_etcd_full is %s after there is room", got)
	}
	waits.act("instantiate")
	other := waits.becomes("Instantiated").States.StatusCtxID
	runs.act("terminate")
	runs.becomes("Terminated")
	s.wantTree(object("a", other, "web"))
}

// fill writes to etcd, past the program, until etcd is full.
func fill(s *testStage, etcd *clientv3.Client) {
	s.Helper()
	large := strings.Repeat("x", 512<<10)
	s.eventually("etcd is full", func() string {
		_, err := etcd.Put(s.Context(), "/filler", large)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return ""
		}
		s.must("fill etcd", err)
		return "not yet"
	})
}

// empty does what an operator does.
func empty(s *testStage, etcd *clientv3.Client, endpoint string) {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	gone, err := etcd.Delete(ctx, "/filler")
	s.must("delete", err)
	_, err = etcd.Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical())
	s.must("compact", err)
	_, err = etcd.Defragment(ctx, endpoint)
	s.must("defragment", err)
	_, err = etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	s.must("disarm", err)
}
