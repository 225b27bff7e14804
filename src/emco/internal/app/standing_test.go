package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

func TestReadyzReportsShards(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.do("GET", "/readyz?verbose", "")
	if a.Status != http.StatusOK {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	for _, want := range []string{
		"orchestrator: ready; works on 8 of 8 shards, members: 1\n", "rsync: ready; works on 16 of 16 shards, members: 1\n", "http: ready",
	} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("got %s, want a line %q", a.Body, want)
		}
	}
	if a := s.do("GET", "/readyz", ""); string(a.Body) != "ok" {
		t.Errorf("in short: %d %s", a.Status, a.Body)
	}
}

// An etcd that does not answer makes the process not ready, which a metric shows also if nobody asks /readyz. The process says
// that it had joined its groups. All of that ends with the outage.
func TestAnOutageOfEtcdIsSeen(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) {
		c.Etcd.Endpoints, c.Lease = etcd.Endpoints(), config.Duration(2*time.Second)
	})
	ready := func(want string) {
		s.Helper()
		s.eventually("emco_ready "+want, func() string { return unless(s.metric("emco_ready"), want) })
	}
	ready("1")
	etcd.Pause(0)
	ready("0")
	s.eventually("the reason", func() string {
		a := s.do("GET", "/readyz?verbose", "")
		for _, want := range []string{"etcd: not ready: ", "rsync: not ready: has lost its lease and joins its group again"} {
			if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, want) {
				return a.Body
			}
		}
		return ""
	})
	etcd.Resume(0)
	ready("1")
}
