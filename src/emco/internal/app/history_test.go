package app_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// held reads a history and returns its items, the newest first, also in short: "cluster revision change", with a "+" if the cluster
// holds it still.
func (s *testStage) held(path string) (items []v2.HistoryView, short []string) {
	s.Helper()
	items = view[v2.HistoryViews](s, path).Items
	for _, h := range items {
		line := fmt.Sprintf("%s %d %s", h.Cluster, h.Revision, h.Change)
		if h.To.IsZero() {
			line += " +"
		}
		short = append(short, line)
	}
	slices.Sort(short) // clusters change together
	return items, short
}

// One version, another and the first again are three intervals on each cluster, which end with the deployment and outlive it.
func TestWhichVersionWasWhereAndWhen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	began := time.Now()
	g := s.running("a", "b")
	group, ofA := g.path+"/history", "clusters/edge/a/history"
	changes := []time.Time{began}
	change := func(revision int64, action, body string) {
		t.Helper()
		changes = append(changes, time.Now())
		g.expect(202, "POST", g.path+"/"+action, body)
		g.settled(revision)
	}
	s.repack("web", strings.Replace(configMap, "greeting:", "salute:", 1))
	change(2, "update", "")
	change(3, "rollback", `{"metadata":{"description":"back"},"spec":{"revision":"1"}}`)
	all := []string{"a 1 install", "a 2 upgrade", "a 3 rollback +", "b 1 install", "b 2 upgrade", "b 3 rollback +"}
	_, short := s.held(group)
	wantEqual(s, "the history of the group", short, all)
	items, short := s.held(ofA)
	wantEqual(s, "the history of a", short, all[:3])
	slices.Reverse(items)
	for i, h := range items {
		if h.Path != g.path || h.Project != "shop" || h.CompositeApp != "till" || h.Version != "v1" || h.Group != "autumn" || h.App != "web" || h.Commit == "" || !h.Recorded {
			t.Errorf("the interval of revision %d: %+v", i+1, h)
		}
		if h.From.Before(changes[i]) || h.From.After(time.Now()) {
			t.Errorf("revision %d was there from %s, it was asked for at %s", i+1, h.From, changes[i])
		}
		if i+1 < len(items) && !h.To.Equal(items[i+1].From) {
			t.Errorf("revision %d was there until %s, the next from %s", i+1, h.To, items[i+1].From)
		}
		_, then := s.held(ofA + "?at=" + url.QueryEscape(h.From.Format(time.RFC3339Nano)))
		wantEqual(s, fmt.Sprintf("what was there when revision %d had come", i+1), then, all[i:i+1])
	}
	if items[0].Bundle != items[2].Bundle || items[0].Bundle == items[1].Bundle {
		t.Errorf("the contents: %s, %s and %s", items[0].Bundle, items[1].Bundle, items[2].Bundle)
	}
	if _, before := s.held(ofA + "?at=" + url.QueryEscape(began.Format(time.RFC3339Nano))); before != nil {
		t.Errorf("before all: %q", before)
	}
	_, late := s.held(group + "?cluster=edge%2Bb&since=" + url.QueryEscape(items[2].From.Format(time.RFC3339Nano)))
	wantEqual(s, "what b held since the rollback", late, all[5:])

	g.act("terminate")
	g.becomes("Terminated")
	over := []string{"a 1 install", "a 2 upgrade", "a 3 rollback", "b 1 install", "b 2 upgrade", "b 3 rollback"}
	_, short = s.held(group)
	wantEqual(s, "the history of the group at its end", short, over)
	s.expect(204, "DELETE", g.path+"/intents/all", "")
	s.expect(204, "DELETE", g.path+"/generic-placement-intents/places/app-intents/web", "")
	s.expect(204, "DELETE", g.path+"/generic-placement-intents/places", "")
	s.expect(204, "DELETE", g.path, "")
	s.expect(404, "GET", "views/"+group, "")
	items, short = s.held(ofA)
	wantEqual(s, "the history of a without the group", short, over[:3])
	if items[0].Group != "autumn" {
		t.Errorf("the interval of a group that was deleted: %+v", items[0])
	}
}

// What was applied by a version that stored no history is in it nevertheless while it runs.
func TestAHistoryBeginsWithWhatRuns(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	s := newStageWith(t, func(c *config.Config) { c.Etcd.Endpoints = etcd.Endpoints() })
	g := s.running("a")
	gone, err := etcd.Client().Delete(t.Context(), strings.TrimSuffix(s.config.Etcd.Prefix, "/")+"/clusterhistory/", clientv3.WithPrefix())
	if s.must("delete the history", err); gone.Deleted == 0 {
		t.Fatal("no history was stored")
	}
	for _, history := range []string{"clusters/edge/a/history", g.path + "/history"} {
		items, short := s.held(history)
		wantEqual(s, history, short, []string{"a 1  +"})
		if h := items[0]; h.Recorded || h.From.IsZero() || h.Path != g.path || h.Bundle == "" || h.Commit == "" {
			t.Errorf("%s: %+v", history, h)
		}
	}
}

// A caller sees what clusters held of the projects that it may see.
func TestHistoriesOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	g.with(g.bootstrap).expect(201, "POST", "role-bindings", binding("admins", "platform-admin", "user:corp:root"))
	root := g.user("root")
	path := root.running("a").path
	root.expect(201, "POST", provider+"/role-bindings", binding("look", "viewer", "user:corp:guest"))
	guest := g.user("guest")
	if _, seen := guest.held("clusters/edge/a/history"); seen != nil {
		t.Errorf("a guest sees %q", seen)
	}
	guest.expect(404, "GET", "views/"+path+"/history", "")
	root.expect(201, "POST", "projects/shop/role-bindings", binding("look", "viewer", "user:corp:guest"))
	for _, history := range []string{"clusters/edge/a/history", path + "/history"} {
		_, seen := guest.held(history)
		wantEqual(root, "what a viewer of the project sees of "+history, seen, []string{"a 1 install +"})
	}
}
