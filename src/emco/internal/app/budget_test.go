package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/git/budget"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// A process with a common etcd takes what it spends at GitHub from what all processes have left.
func TestDeliveriesSpendASharedBudget(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	hub, err := githubtest.Serve(t.TempDir(), githubtest.Options{}, githubtest.User{Name: writer, Token: s.token, Write: true})
	s.must("serve GitHub", err)
	t.Cleanup(func() { _ = hub.Close() })
	_, err = hub.CreateRepo(t.Context(), "acme", "fleet", branch)
	s.must("make the repository", err)

	s.expect(201, "POST", "cluster-providers", named("edge"))
	object := s.syncObject("hub", hub.Repo("acme", "fleet", s.token).URL, s.token)
	s.expect(201, "POST", provider+"/cluster-sync-objects", strings.Replace(object, `"kv":[`, `"kv":[{"gitType":"github"},`, 1))
	s.cluster("a", "hub")
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	s.member("a")
	s.expect(202, "POST", cloud+"/instantiate", "")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")

	r, err := etcd.Client().Get(t.Context(), s.config.Etcd.Prefix+"spend/", clientv3.WithPrefix())
	s.must("read what is left", err)
	if len(r.Kvs) != 1 || strings.Contains(string(r.Kvs[0].Value), s.token) {
		t.Fatalf("%v, want one credential, and nothing of it", r.Kvs)
	}
	var left budget.SharedTokens
	s.must("decode what is left", json.Unmarshal(r.Kvs[0].Value, &left))
	for _, limit := range []string{"callsHour", "pointsMinute", "contentHour"} {
		if left.Buckets[limit].At.IsZero() {
			t.Errorf("nothing is taken of %s: %s", limit, r.Kvs[0].Value)
		}
	}
}
